/**
 * A store of the patterns: one SQL database, in which a pattern's record and the caller's own rows
 * are written in one transaction, so that both are there or neither.
 *
 * How a pattern is built on it:
 *
 * 1. `tables.ts` of the pattern says its tables: a `TablePlan`.
 * 2. Each operation is a **script** (`script.ts`): a generator of statements (`statement.ts`), the
 *    same for SQLite, Postgres and MySQL. It locks the row, looks, decides, writes.
 * 3. The pattern's methods are made once, over a `Run`: `callsOver(run)`. There are three places
 *    for them to run, and a script cannot tell in which it is:
 *    - `store.run`: in a transaction of its own. Conflicts with others are tried again.
 *    - `store.within(tx)`: in the caller's open transaction. On SQLite the answer is there at once,
 *      so that it fits into `db.transaction(() => …)` of better-sqlite3; elsewhere it is a promise.
 *      A conflict is told, since only the caller can run its transaction again.
 *    - `store.transaction(work)`: the store begins and ends a transaction, hands its `tx` to the
 *      caller's work, and `within(tx)` runs in it. On SQLite the work is synchronous.
 * 4. `open.ts` of the pattern is its package entry: `openSqlStore(target, PLAN, options)`.
 *
 * Outcomes are the same everywhere. What the work throws undoes the transaction and comes out as it
 * is. `UnavailableError`: it certainly did not happen. `OutcomeUnknownError`: COMMIT was sent and
 * not answered; ask the record, which is there if the effect is.
 *
 * Time is the store's own (`now` in `statement.ts`), so that a process whose clock is wrong changes
 * nothing. On servers each transaction is bounded by time-outs in the server, so that a frozen
 * process holds its locks for `timeout` at most after its last statement; if it is frozen while
 * one runs, for twice that. On SQLite a process that is stopped inside a transaction blocks every
 * other writer of the file: nothing can bound that.
 */
import type { Duration } from "../core/duration.js";
import type { Runtime } from "../core/runtime.js";
import type { CallersSqlite, SqliteTx } from "./sqlite-tx.js";
import type { Run } from "./script.js";
import type { CallersServer, ServerTx } from "./server-tx.js";
import type { Dialect } from "./statement.js";

/** Options that every pattern over SQL has. */
export interface SqlStoreOptions {
  /**
   * Schema for the pattern's tables; made when missing. Default: `tenure` on Postgres, the
   * connection's own schema on MySQL. SQLite has none.
   */
  readonly schema?: string;
  /** Make missing tables. Default true; with false they must be there. */
  readonly migrate?: boolean;
  /**
   * Longest wait for a lock, and longest time of a transaction on a server, the caller's work in
   * it included. A call that tries single messages first has this time for each of them, and for
   * the transaction after them. Default 10 s.
   */
  readonly timeout?: Duration;
  /** Clocks, timers and randomness to use instead of the machine's: for simulations. */
  readonly runtime?: Runtime;
}

/** What the work of `transaction` is given. */
export type Tx<K extends Dialect> = K extends "sqlite" ? SqliteTx : ServerTx;

/**
 * An open transaction: what `transaction` hands to its work, or the caller's own. On SQLite the
 * database object while it is in a transaction; elsewhere the client, connection or function on
 * which BEGIN was sent.
 */
export type CallersTx<K extends Dialect> = K extends "sqlite" ? CallersSqlite : CallersServer;

/** What work may return: on SQLite anything but a promise, which nobody would await. */
export type WorkResult<K extends Dialect, R> = K extends "sqlite"
  ? R extends PromiseLike<unknown>
    ? "work on SQLite must be synchronous"
    : R
  : R;

/** A caller's work in a transaction. */
export type Work<K extends Dialect, R> = (tx: Tx<K>) => WorkResult<K, R>;

/** One SQL database with the tables of one pattern. */
export interface SqlStore<K extends Dialect> {
  readonly dialect: K;
  /** Kept in the store since its tables were made: the scope of tokens. */
  readonly storeId: string;
  /**
   * Runs a script in a transaction of its own.
   *
   * @throws UnavailableError when it did not happen, OutcomeUnknownError when that is open.
   */
  readonly run: Run<"promised">;
  /**
   * What runs scripts in an open transaction.
   *
   * @throws TypeError for something that is not one, as far as that can be seen: on servers at the
   *   first script.
   */
  within(tx: CallersTx<K>): Run<K>;
  /**
   * Runs work in a transaction, and commits it. `during` as in {@link Run}.
   *
   * After a conflict with others it is run again only if `isRepeatable` says so when the conflict
   * came: as long as nothing of the caller's has run. Default: never.
   *
   * @throws What the work throws, and then nothing of the transaction is left. UnavailableError
   *   when nothing was committed, also after a conflict with others: run it again then.
   *   OutcomeUnknownError when COMMIT was not answered.
   */
  transaction<R>(
    during: string,
    work: Work<K, R>,
    isRepeatable?: () => boolean,
  ): Promise<Awaited<R>>;
  /** Closes what was opened here; never what the caller brought. */
  close(): Promise<void>;
}
