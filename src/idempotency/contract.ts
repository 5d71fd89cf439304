/** What idempotency keys promise, over whichever store. */
import type { Duration } from "../core/duration.js";
import type { Answered } from "../sql/script.js";
import type { Dialect } from "../sql/statement.js";
import type { CallersTx, Work, WorkResult } from "../sql/store.js";

/** What every caller of one key gets. */
export interface Once<R> {
  /** As JSON keeps it, also for the first caller; undefined where the work returned nothing. */
  readonly result: R;
  /** Whether the work had run before, and this is what it returned then. */
  readonly replayed: boolean;
}

/** Options of `within(tx).once`. */
export interface RecordOptions {
  /**
   * What the work is asked to do, as JSON: a later call with the same key has to ask for the same.
   * Only a hash is kept. Default: nothing is compared.
   */
  readonly input?: unknown;
  /** How long the result is kept, by the store's clock. 1 ms to 10 years. Default 24 h. */
  readonly ttl?: Duration;
}

/** Options of `once`. */
export interface OnceOptions extends RecordOptions {
  /** How long to wait for a call that is at work under the same key; 0 waits not. Default 10 s. */
  readonly wait?: Duration;
}

/** Options of `once` on Redis. */
export interface RedisOnceOptions extends OnceOptions {
  /**
   * How long the work may take, by the server's clock; then another caller runs it. It also is how
   * long a crashed caller blocks its key. 10 ms to 1 day. Default 30 s.
   */
  readonly lease?: Duration;
}

/** Idempotency keys in the caller's own open transaction. */
export interface IdempotencyCalls<K extends Dialect> {
  /**
   * As `once`, and record and effect are committed or undone by the caller. A call that is at work
   * under the same key is waited for in the database, as long as the transaction's own time-outs
   * allow; callers of `once` wait likewise for this transaction.
   *
   * @throws KeyReusedError, TypeError and RangeError as `once`.
   */
  once<R>(
    key: string,
    options: RecordOptions,
    work: () => WorkResult<K, R>,
  ): Answered<K, Once<Awaited<R>>>;
}

/** Idempotency keys in a SQL database: an effect and its record are one transaction. */
export interface Idempotency<K extends Dialect> {
  /**
   * Runs the work for the first caller of a key, and gives its result to all later ones. What the
   * work does through its `tx` is committed with the record. If it throws, or its process dies,
   * nothing of either is left, and the next caller is the first.
   *
   * On SQLite work is synchronous. On servers its transaction has the time-out of the store (10 s).
   *
   * Not promised: anything about effects outside the transaction (a request, a mail): they may
   * happen again after a crash.
   *
   * @throws InProgressError when another call was still at work after `wait`. KeyReusedError when
   *   the key was used with another input. TypeError when the result is not JSON, RangeError when
   *   it is too large: then nothing is done. What the work throws, as it is. UnavailableError when
   *   it certainly did not happen; OutcomeUnknownError when the COMMIT was not answered: ask again
   *   with the same key.
   */
  once<R>(key: string, options: OnceOptions, work: Work<K, R>): Promise<Once<Awaited<R>>>;
  /** The same in the caller's open transaction. On SQLite it answers at once. */
  within(tx: CallersTx<K>): IdempotencyCalls<K>;
  /**
   * Removes results whose time is over; answers how many. Each new key of `once` removes two, so
   * this is only needed by those who use `within` alone.
   */
  sweep(): Promise<number>;
  /** Closes what was opened here; never a client that the caller brought. */
  close(): Promise<void>;
}

/** What work on Redis is given. There is no transaction. */
export interface RedisAttempt {
  /** Aborted when the lease is about to end, with a `LeaseLostError`: stop then. */
  readonly signal: AbortSignal;
}

/**
 * Idempotency keys on Redis. **The effect and its record cannot be committed together here**: a
 * process that dies between the two leaves an effect without a record, and the next caller runs the
 * work again. Use it where a second run is harmless or rare enough, else a SQL database.
 */
export interface RedisIdempotency {
  /**
   * Runs the work for the first caller of a key, and gives its result to all later ones. If it
   * throws, the next caller is the first; if its process dies, so is it once the lease is over.
   *
   * Not promised: one effect. Work that outlasts its lease may still be running when the next
   * caller runs it, and replication is asynchronous: a failover may lose a record.
   *
   * @throws InProgressError, KeyReusedError, TypeError and RangeError as on SQL; but what the work
   *   did stands. LeaseLostError when the work outlasted its lease and its result was not recorded.
   *   UnavailableError when the work was not run. OutcomeUnknownError when it was run, and whether
   *   its result was recorded is not known.
   */
  once<R>(
    key: string,
    options: RedisOnceOptions,
    work: (attempt: RedisAttempt) => R,
  ): Promise<Once<Awaited<R>>>;
  /** Closes what was opened here; never a client that the caller brought. */
  close(): Promise<void>;
}
