/** What locks on rows and changes of state promise. */
import type { RowKey } from "../sql/guarded.js";
import type { Answered, SqlRow } from "../sql/script.js";
import type { CallersSqlite } from "../sql/sqlite-tx.js";
import type { CallersServer } from "../sql/server-tx.js";
import type { Dialect } from "../sql/statement.js";
import type { Work } from "../sql/store.js";

/** An open transaction, of whichever store: the caller's own, or what `transaction` hands out. */
export type AnyTx = CallersSqlite | CallersServer;

/** When the answer comes from such a transaction: at once on SQLite. */
export type AnsweredIn<T, R> = Answered<T extends CallersSqlite ? "sqlite" : "promised", R>;

/** How to lock a row. Without options it is waited for. */
export interface LockOptions {
  /** Does not wait for others: busy is an answer. For one row it is the same as `skipLocked`. */
  readonly nowait?: boolean;
  /** Does not wait for others: busy is an answer. */
  readonly skipLocked?: boolean;
  /** Needed where the transaction is a function that runs statements, as of a query builder. */
  readonly dialect?: Dialect;
}

/** What came of locking a row. */
export type Locked<R = SqlRow> =
  | { readonly locked: true; readonly row: R }
  | { readonly locked: false; readonly why: "busy" | "missing" };

/** Which states may follow which. A state without an entry, or with an empty one, is final. */
export type States = Readonly<Record<string, readonly string[]>>;

/** A change of state. */
export interface Transition {
  /** Table, with a schema and a dot before it where needed. */
  readonly table: string;
  /** Which row: a value for each column of a unique key; a bare value is that of column `id`. */
  readonly id: RowKey | string | number | bigint;
  /** Column of the state, which is text. Default `state`. */
  readonly column?: string;
  readonly from: string;
  readonly to: string;
  /** Further columns that are set with it. */
  readonly set?: Readonly<Record<string, unknown>>;
  /** If given, a change that it does not allow is an error, and nothing is sent. */
  readonly states?: States;
  /** As of {@link LockOptions}. */
  readonly dialect?: Dialect;
}

/**
 * Whether the state was changed, and if not, what it is: null where there is no such row, or where
 * the column is NULL in it.
 */
export type Transitioned =
  | { readonly changed: true; readonly state: string }
  | { readonly changed: false; readonly state: string | null };

/** A SQL database whose rows are locked and changed. Nothing of its own is in it. */
export interface Rows<K extends Dialect> {
  readonly dialect: K;
  /**
   * Runs work in a transaction, for `lockRow` and `transition` in it.
   *
   * @throws What the work throws, and then nothing of the transaction is left. UnavailableError
   *   when nothing was committed. OutcomeUnknownError when COMMIT was not answered.
   */
  transaction<R>(work: Work<K, R>): Promise<Awaited<R>>;
  /** As `transition` in a transaction of its own, which is run again after a conflict. */
  transition(change: Transition): Promise<Transitioned>;
  /** Closes what was opened here; never a client that the caller brought. */
  close(): Promise<void>;
}
