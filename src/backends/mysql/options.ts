import { ArgumentTypeError } from "../../core/errors.js";
import { checkName } from "../../core/names.js";
import type { Runtime } from "../../core/runtime.js";
import type { Database, Faults, Prepare } from "./client.js";
import { checkSchema } from "../../dialects/mysql.js";

/** What a caller may choose. */
export interface MysqlSettings {
  /**
   * Schema for the tables, which MySQL also calls a database; made when missing. Default: the one
   * that the connections have.
   */
  readonly schema?: string;
  /**
   * Whether `open` makes missing tables and procedures. Default true. With false they must be
   * there, made from what `tenure migrate --print` shows.
   */
  readonly migrate?: boolean;
  /** Id of the store, where two stores are to count as one. Default: the one kept in the store. */
  readonly storeId?: string;
}

/** Settings of `mysqlBackend`. */
export interface MysqlBackendOptions extends MysqlSettings {
  readonly database: Database;
  readonly faults: Faults;
  readonly prepare: Prepare;
  readonly runtime: Pick<Runtime, "clock" | "timers" | "events">;
}

/** Checks the settings. @throws TypeError or RangeError naming the option and its value. */
export function checkSettings({ schema, migrate, storeId }: MysqlSettings): void {
  if (storeId !== undefined) checkName(storeId, "storeId");
  if (migrate !== undefined && typeof migrate !== "boolean") {
    throw new ArgumentTypeError("migrate", migrate, "true or false");
  }
  if (schema !== undefined) checkSchema(schema);
}
