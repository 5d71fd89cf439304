import { ArgumentRangeError, ArgumentTypeError } from "../../core/errors.js";
import type { Runtime } from "../../core/runtime.js";
import type { Connection, Faults, Machine } from "./client.js";

/** Settings of `sqliteBackend`. */
export interface SqliteBackendOptions {
  /** A connection of its own, which the backend closes. */
  readonly database: Connection;
  readonly faults: Faults;
  readonly machine: Machine;
  readonly runtime: Pick<Runtime, "clock" | "timers" | "random">;
  /** Id of the store, where two stores are to count as one. Default: the one kept in the file. */
  readonly storeId?: string;
  /**
   * Whether the leases of this process end when it does: by `kill -9` or without `close`. After
   * `close` they run until their time is over. Default true.
   */
  readonly endWithProcess?: boolean;
}

/** What `checkOptions` looks at. */
export interface CheckedOptions {
  readonly storeId?: unknown;
  readonly bootId?: unknown;
  readonly endWithProcess?: unknown;
  readonly trustFileSystem?: unknown;
}

/** @throws TypeError or RangeError naming the option and its value. */
export function checkOptions(options: CheckedOptions): void {
  for (const option of ["storeId", "bootId"] as const) {
    const value = options[option];
    if (value === undefined) continue;
    if (typeof value !== "string") throw new ArgumentTypeError(option, value, "a string");
    if (value === "") throw new ArgumentRangeError(option, value, "1 character or more");
  }
  for (const option of ["endWithProcess", "trustFileSystem"] as const) {
    const value = options[option];
    if (value === undefined || typeof value === "boolean") continue;
    throw new ArgumentTypeError(option, value, "true or false");
  }
}
