/** What compare-and-swap promises, over whichever store. */
import type { Answered, When } from "../sql/script.js";
import type { Dialect } from "../sql/statement.js";
import type { CallersTx } from "../sql/store.js";

/** A value, and which writing of it this is. */
export interface Versioned<T> {
  readonly value: T;
  /** Rises with every write of the key. Only good for being compared with itself. */
  readonly version: bigint;
}

/** What an update wrote. */
export interface Updated<T> extends Versioned<T> {
  /** How often the value was read, changed, and tried to be written. */
  readonly attempts: number;
}

/** Options of `update`. */
export interface UpdateOptions {
  /** How often to try. A whole number, or `Infinity`. Default 20. */
  readonly attempts?: number;
  /**
   * Ends the trying, also while `change` is under way, whose answer is then not written; `update`
   * rejects with the signal's own reason.
   */
  readonly signal?: AbortSignal;
}

/** Options of `write`. */
export interface WriteOptions {
  /** Version that was read; null if there was no value. */
  readonly version: bigint | null;
}

/** One look and one write, whose answers come at once or by a promise. */
export interface CasCalls<K extends When> {
  /** The value; null if it was never written. */
  read<T = unknown>(key: string): Answered<K, Versioned<T> | null>;
  /**
   * Writes if the version is still the one that was read; answers the new version.
   *
   * @throws ConflictError when it is not. TypeError when the value is not JSON, RangeError when it
   *   is too large.
   */
  write(key: string, value: unknown, options: WriteOptions): Answered<K, bigint>;
}

/**
 * Values under keys, changed by reading, changing and writing if nobody else has written since.
 *
 * Every call throws UnavailableError when it certainly did not happen, and OutcomeUnknownError when
 * a write may have: read, and decide.
 */
export interface Cas extends CasCalls<"promised"> {
  /**
   * Reads, changes and writes; after a conflict again, after a random pause that grows to a second
   * at most. Nothing is locked while `change` runs, so it may be slow; it may run several times, so
   * what it does beside its answer must bear that. What it throws ends the update.
   *
   * Not promised: that everybody gets a turn. Under many writers of one key a slow change may
   * never be written: take a lock or a queue there.
   *
   * @throws ConflictError after the last attempt. TypeError when what `change` answers is not JSON,
   *   RangeError when it is too large.
   */
  update<T = unknown>(
    key: string,
    change: (value: T | undefined) => T | PromiseLike<T>,
    options?: UpdateOptions,
  ): Promise<Updated<T>>;
  /** Closes what was opened here; never a client that the caller brought. */
  close(): Promise<void>;
}

/** A table of the caller's own with a version in each row. */
export interface VersionedTable {
  /** Name, with a schema and a dot before it where needed. */
  readonly table: string;
  /** Column of a unique key. */
  readonly key: string;
  /** Column of the version: an integer, NOT NULL. */
  readonly version: string;
}

/** Rows of a caller's own table. */
export interface CasRows {
  /** The row, its values as the client library gives them; null where there is none. */
  read<R extends object = Record<string, unknown>>(id: unknown): Promise<Versioned<R> | null>;
  /**
   * As {@link Cas.update}, for one row: `change` answers the columns to set. The version is raised
   * with them. Null where there is no such row, or no longer.
   *
   * Not promised: anything about other code that writes the row and leaves the version as it is.
   */
  update<R extends object = Record<string, unknown>>(
    id: unknown,
    change: (row: R) => Partial<R> | PromiseLike<Partial<R>>,
    options?: UpdateOptions,
  ): Promise<Updated<Partial<R>> | null>;
}

/** Compare-and-swap in a SQL database. */
export interface SqlCas<K extends Dialect> extends Cas {
  /** Look and write in the caller's open transaction. On SQLite they answer at once. */
  within(tx: CallersTx<K>): CasCalls<K>;
  /** Rows of a caller's own table. @throws TypeError for names that are none. */
  row(table: VersionedTable): CasRows;
}
