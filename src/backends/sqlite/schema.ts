/**
 * The tables. Their names begin with `tenure_`, since the file may also hold an application's data.
 *
 * - `tenure_store`: one row: which store this is, in which boot its times mean something, and the
 *   token counter (see `tokens.ts`).
 * - `tenure_session`: one row per connected process.
 * - `tenure_lease`: one row per lease or offer. Released and swept rows are deleted: nothing per
 *   name outlives its lease.
 * - `tenure_waiter`: the queues. Ids only order the waiters of one name, so they may come again
 *   once the queue is empty. A name with waiters has a lease row with `queued = 1`: so a single
 *   INSERT can grant a free name, and a single DELETE can release one that nobody waits for.
 *
 * Times are whole milliseconds of the machine's shared monotonic clock, rounded up.
 */

/** Version of the tables, kept in `tenure_store.schema`. */
export const SCHEMA: bigint = 1n;

/** Tests in a transaction of the same file that a grant stands. Values: name, holder, token. */
export const HELD_CHECK_SQL: string = `SELECT 1 FROM tenure_lease
  WHERE name = ? AND holder = ? AND token = ? AND offered = 0`;

/** Makes the tables where they are missing. */
export const CREATE_TABLES_SQL: string = `
CREATE TABLE IF NOT EXISTS tenure_store (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  schema INTEGER NOT NULL,
  store_id TEXT NOT NULL,
  boot TEXT NOT NULL,
  clock TEXT NOT NULL,
  next INTEGER NOT NULL,
  taker INTEGER NOT NULL,
  ceiling INTEGER NOT NULL,
  pending INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS tenure_session (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  pid INTEGER NOT NULL,
  address TEXT,
  seen INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS tenure_lease (
  name TEXT PRIMARY KEY,
  holder TEXT NOT NULL,
  token INTEGER NOT NULL,
  ttl INTEGER NOT NULL,
  expires INTEGER NOT NULL,
  info TEXT,
  session INTEGER NOT NULL,
  offered INTEGER NOT NULL,
  queued INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tenure_waiter (
  name TEXT NOT NULL,
  id INTEGER NOT NULL,
  holder TEXT NOT NULL,
  ttl INTEGER NOT NULL,
  info TEXT,
  session INTEGER NOT NULL,
  PRIMARY KEY (name, id)
) WITHOUT ROWID;
`;

/** The one row of `tenure_store`. */
export interface StoreRow {
  readonly schema: bigint;
  readonly store_id: string;
  readonly boot: string;
  readonly clock: string;
  /** First token that no process has taken into its block. */
  readonly next: bigint;
  /** Session that took the last block. */
  readonly taker: bigint;
  /** No token at or above it is handed out. */
  readonly ceiling: bigint;
  /** The ceiling to come; at least `ceiling`. */
  readonly pending: bigint;
}

/** A row of `tenure_lease`. */
export interface LeaseRow {
  readonly name: string;
  readonly holder: string;
  readonly token: bigint;
  readonly ttl: bigint;
  readonly expires: bigint;
  readonly info: string | null;
  /** Session whose end ends the lease; 0 when only its time does. */
  readonly session: bigint;
  readonly offered: bigint;
  readonly queued: bigint;
}

/** A row of `tenure_waiter`, with what its session row says. */
export interface WaiterRow {
  readonly id: bigint;
  readonly holder: string;
  readonly ttl: bigint;
  readonly info: string | null;
  readonly session: bigint;
  /** Null when the session is gone. */
  readonly seen: bigint | null;
  readonly address: string | null;
}

/** What others need of a row of `tenure_session`. */
export interface SessionRow {
  readonly session: bigint;
  /** Path of the process's socket, where it has one. */
  readonly address: string | null;
}
