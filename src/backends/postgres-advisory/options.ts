import { ArgumentTypeError } from "../../core/errors.js";
import { checkName } from "../../core/names.js";
import type { Faults } from "../sql-client.js";
import type { Connection, FoundStore, StorePlan } from "./client.js";
import { checkSchema, DEFAULT_SCHEMA } from "../../dialects/postgres.js";

/** What a caller may choose. */
export interface PostgresAdvisorySettings {
  /** Schema for the tables. Default `tenure`. */
  readonly schema?: string;
  /** Whether `open` makes missing tables. Default true. */
  readonly migrate?: boolean;
  /** Id of the store, where two stores are to count as one. Default: the one kept in the store. */
  readonly storeId?: string;
}

/** Settings of `postgresAdvisoryBackend`. */
export interface PostgresAdvisoryBackendOptions extends PostgresAdvisorySettings {
  readonly connect: (waitingMs?: number) => Promise<Connection>;
  readonly faults: Faults;
  /** Looks at the server and makes missing tables. */
  prepare(connection: Connection, plan: StorePlan): Promise<FoundStore>;
}

/** The checked schema. @throws TypeError or RangeError naming the option and its value. */
export function checkSettings({ schema, migrate, storeId }: PostgresAdvisorySettings): string {
  if (storeId !== undefined) checkName(storeId, "storeId");
  if (migrate !== undefined && typeof migrate !== "boolean") {
    throw new ArgumentTypeError("migrate", migrate, "true or false");
  }
  return checkSchema(schema ?? DEFAULT_SCHEMA);
}
