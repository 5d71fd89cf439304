/** What claims promise, over whichever store. */
import type { Duration } from "../core/duration.js";
import type { TokenBearer } from "../core/token.js";
import type { Answered, When } from "../sql/script.js";
import type { Dialect } from "../sql/statement.js";
import type { CallersTx, Work } from "../sql/store.js";

/**
 * What became of a key: `pending` (added, nobody has it), `running` (claimed), `done`, `failed`.
 * The last two are final.
 */
export type ClaimState = "pending" | "running" | "done" | "failed";

/** The states, in the order in which a key has them. */
export const CLAIM_STATES: readonly ClaimState[] = ["pending", "running", "done", "failed"];

/**
 * One claim of a key by one owner. Plain data: it may be kept, sent, and completed elsewhere. It is
 * what a fence takes (`fence.arm(claim, resource)`), so that the writes of a worker whose claim was
 * taken over are refused.
 */
export interface Claim extends TokenBearer {
  readonly key: string;
  /** The key, as a fence calls it. */
  readonly name: string;
  /** Who claimed it, in the caller's own words. */
  readonly owner: string;
  /** Length of the lease in milliseconds; null for a claim for ever. */
  readonly leaseMs: number | null;
  /** What was given to `add`; null otherwise. */
  readonly body: unknown;
}

/** What names a claim for ever, where no {@link Claim} was kept. */
export interface OwnedKey {
  readonly key: string;
  readonly owner: string;
}

/** A key as the store has it. */
export interface ClaimRecord {
  readonly key: string;
  readonly state: ClaimState;
  /** Who has it, or had it last; null for one that was never claimed. */
  readonly owner: string | null;
  /** Random id of the claim; null as `owner` is. */
  readonly holder: string | null;
  /** Token of the latest claim; null as `owner` is. */
  readonly token: bigint | null;
  /** Milliseconds left of the lease, 0 once over; null where there is none. */
  readonly leaseLeftMs: number | null;
  /** What was given to `fail`. */
  readonly reason: string | null;
  readonly body: unknown;
}

/** Options of `claim` and `next` with a time. */
export interface LeaseOption {
  /** How long until somebody else may take the key over, by the store's clock. 1 ms to 10 years. */
  readonly lease: Duration;
}

/** Options of `list`. */
export interface ListOptions {
  /** Default: all states. */
  readonly state?: ClaimState;
  /** Keys after this one: the last of the page before. */
  readonly after?: string;
  /** Longest page. Default 1000, which is the most. */
  readonly limit?: number;
}

/** The calls, whose answers come at once or by a promise. */
export interface ClaimCalls<K extends When> {
  /**
   * Claims a key for ever: true for exactly one of all callers, however many call at once, and
   * false for all others, the same owner again included. There is no clock in it: if the owner
   * dies, the key stays claimed.
   *
   * After an `OutcomeUnknownError`, `inspect(key)` tells whose it is.
   *
   * @throws TypeError or RangeError for a key or owner that is not text of 1 to 512 bytes.
   */
  claim(key: string, owner: string): Answered<K, boolean>;
  /**
   * Claims a key for a time: a claim, or null while another has it. Once the time is over, by the
   * store's clock, the next caller gets the key with a higher token.
   *
   * Not promised: that the first owner has stopped by then. Its `complete` is refused, and so are
   * its writes where a fence checks the token.
   */
  claim(key: string, owner: string, options: LeaseOption): Answered<K, Claim | null>;
  /**
   * Adds a key that waits to be claimed; false when the key is there already, in whichever state.
   * `body` is kept as JSON.
   */
  add(key: string, body?: unknown): Answered<K, boolean>;
  /**
   * Claims the next key: one whose lease is over, else the one that was added first of those that
   * are pending. Null when there is none. Keys that others are just claiming are passed over.
   */
  next(owner: string, options?: LeaseOption): Answered<K, Claim | null>;
  /**
   * Ends a claim as done, for good. A second time by the same claim it does nothing. In the
   * caller's transaction (`within(tx)`), a refusal that is not caught undoes the work with it.
   *
   * @throws SupersededError when the claim is not the present one: it was taken over, or has ended
   *   otherwise. The error tells who has it (`mark`).
   */
  complete(claim: Claim | OwnedKey): Answered<K, void>;
  /** Ends a claim as failed, for good; otherwise as `complete`. */
  fail(claim: Claim | OwnedKey, reason?: string): Answered<K, void>;
  /** The key as it is now; null for one that was never added nor claimed. */
  inspect(key: string): Answered<K, ClaimRecord | null>;
  /** Keys in their order, byte by byte: a page of them. */
  list(options?: ListOptions): Answered<K, readonly ClaimRecord[]>;
}

/** Claims in a store that is no SQL database: every call is by itself. */
export interface LoneClaims extends ClaimCalls<"promised"> {
  /** Scope of the tokens. */
  readonly storeId: string;
  /** Closes what was opened here; never a client that the caller brought. */
  close(): Promise<void>;
}

/**
 * Claims in a SQL database. Each call by itself is a transaction.
 *
 * @throws UnavailableError from every call when it certainly did not happen, OutcomeUnknownError
 *   when the COMMIT was not answered.
 */
export interface Claims<K extends Dialect> extends LoneClaims {
  /**
   * The same calls in the caller's open transaction: claim and effect are there together, or
   * neither. On SQLite they answer at once.
   */
  within(tx: CallersTx<K>): ClaimCalls<K>;
  /** Runs work in a transaction of the store, for `within(tx)`. */
  transaction<R>(work: Work<K, R>): Promise<Awaited<R>>;
}
