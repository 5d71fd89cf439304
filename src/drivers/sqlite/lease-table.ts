/**
 * What a transaction in a store's own file may know of its lease table, for the held check of a
 * fence: the backend owns the table.
 */

/**
 * Answers one row while a grant stands and its time is not over.
 *
 * Values: name, holder, token; then the machine's boot id and clock id, without which the times in
 * the file mean nothing, and its shared monotonic clock in whole milliseconds.
 */
export const HELD_AND_LIVE_SQL: string = `SELECT 1
  FROM main.tenure_lease AS lease, main.tenure_store AS store
  WHERE lease.name = ? AND lease.holder = ? AND lease.token = ? AND lease.offered = 0
    AND store.boot = ? AND store.clock = ? AND lease.expires > ?`;

/** Answers one row where the file keeps leases: only then can the next be asked. */
export const KEEPS_LEASES_SQL: string =
  "SELECT 1 FROM main.sqlite_schema WHERE name = 'tenure_store'";

/** The id of the store whose leases the file keeps, as `id`. */
export const STORE_ID_SQL: string = "SELECT store_id AS id FROM main.tenure_store";
