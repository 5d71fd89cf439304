import { checkKnown } from "../core/options.js";
import { openSqlStore, type DialectOf, type SqlTarget } from "../sql/open.js";
import type { SqlStoreOptions } from "../sql/store.js";
import type { Reservations } from "./contract.js";
import { reservationsIn } from "./index.js";
import { RESERVATION_TABLES } from "./tables.js";

export type { Answered, When } from "../sql/script.js";
export type { Dialect } from "../sql/statement.js";
export type { CallersTx, SqlStoreOptions, Tx, Work, WorkResult } from "../sql/store.js";
export type { SqlTarget } from "../sql/open.js";
export type * from "./contract.js";
export { CapacityError, ReservationStateError, type ReservationState } from "./errors.js";
export { tableSql } from "./tables.js";

/**
 * Reservations in a SQL database, by URL (`sqlite:PATH`, `postgres://`, `mysql://`) or over a client
 * of the caller's; its tables are made on first use.
 *
 * @throws TypeError or RangeError for a wrong target or option. UnavailableError when the store
 *   cannot be opened, its client library or its tables are missing.
 */
export async function reservations<T extends SqlTarget>(
  target: T,
  options: SqlStoreOptions = {},
): Promise<Reservations<DialectOf<T>>> {
  checkKnown(options, ["schema", "migrate", "timeout", "runtime"]);
  return reservationsIn(await openSqlStore(target, RESERVATION_TABLES, options));
}
