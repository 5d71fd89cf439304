import { ArgumentTypeError } from "../../core/errors.js";
import { checkName } from "../../core/names.js";
import type { Runtime } from "../../core/runtime.js";
import type { Connection, Database, Faults, FoundStore, StorePlan } from "./client.js";
import { checkSchema, DEFAULT_SCHEMA } from "../../dialects/postgres.js";

/** What a caller may choose. */
export interface PostgresSettings {
  /** Schema for the tables. Default `tenure`. */
  readonly schema?: string;
  /**
   * Whether `open` makes missing tables. Default true. With false they must be there, made from
   * what `tenure migrate --print` shows.
   */
  readonly migrate?: boolean;
  /** Id of the store, where two stores are to count as one. Default: the one kept in the store. */
  readonly storeId?: string;
}

/** Settings of `postgresBackend`. */
export interface PostgresBackendOptions extends PostgresSettings {
  readonly database: Database;
  readonly faults: Faults;
  /** Looks at the server and makes missing tables. */
  prepare(connection: Connection, plan: StorePlan): Promise<FoundStore>;
  readonly runtime: Pick<Runtime, "clock" | "timers" | "random"> & Partial<Pick<Runtime, "events">>;
}

/** The checked schema. @throws TypeError or RangeError naming the option and its value. */
export function checkSettings({ schema, migrate, storeId }: PostgresSettings): string {
  if (storeId !== undefined) checkName(storeId, "storeId");
  if (migrate !== undefined && typeof migrate !== "boolean") {
    throw new ArgumentTypeError("migrate", migrate, "true or false");
  }
  return checkSchema(schema ?? DEFAULT_SCHEMA);
}
