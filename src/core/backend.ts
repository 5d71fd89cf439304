/// <reference lib="esnext.disposable" preserve="true" />
/**
 * The contract between the core and one kind of store.
 *
 * A backend does no clock arithmetic and decides nothing: it carries one request to the store,
 * atomically, and says what the store said. The core counts time, retries, waits, cleans up and
 * tells the holder.
 *
 * Three values are kept apart. The **holder** is random, proves "mine" and makes acquire
 * idempotent. The **token** is ordered, one per grant, unmoved by renewals. The record **version**
 * moves on every renewal and serves compare-and-set only.
 *
 * Outcomes. A call that certainly did nothing throws `UnavailableError`; one that may have been
 * applied throws `OutcomeUnknownError`; any other error is taken as outcome unknown. Contention is
 * an answer, never an error.
 *
 * A store that answers at once, in memory or in a file, may return the answer itself instead of a
 * promise of it: that saves the timer that bounds every wait.
 */
import type { Abortable } from "./aborting.js";
import type { Manifest } from "./manifest.js";
import type { FencingToken } from "./token.js";

/** Limits of one call: the backend stops waiting at the earlier of the two. */
export interface Call {
  /** Aborted when the core no longer waits for the answer. Created on first use. */
  readonly signal: AbortSignal;
  /**
   * The end of the same, for who only listens and is called often: it costs less than a signal. The
   * core always gives it.
   */
  readonly over?: Abortable;
  /** Milliseconds from now that the core waits for the answer. */
  readonly timeoutMs: number;
}

/** Who holds, for people: host, pid, command. Stored beside the lease, never compared. */
export type HolderInfo = Readonly<Record<string, string | number>>;

/** What a contender asks for. */
export interface AcquireRequest {
  readonly name: string;
  /** New for each attempt; the same on a repeat after a lost reply. */
  readonly holder: string;
  /** Whole milliseconds. */
  readonly ttlMs: number;
  readonly holderInfo?: HolderInfo;
  /** Session to acquire under, on a backend with sessions. */
  readonly session?: string;
  /**
   * Version of a record that the core watched unchanged for its full TTL (observed expiry): the
   * backend takes over on the condition that the version is still this one.
   */
  readonly takeOver?: string;
}

/** A grant. `token` is the one of this grant for ever: a backend never re-reads it later. */
export interface Grant<T extends FencingToken | undefined = FencingToken> {
  readonly name: string;
  readonly holder: string;
  readonly token: T;
  /** As the store granted it; may differ from what was asked. Whole milliseconds. */
  readonly ttlMs: number;
  /** Incarnation of the store (replication id, timeline, term), where it has one. */
  readonly storeEpoch?: string;
  readonly session?: string;
}

/** What the store shows of a name that is not ours. */
export interface Held {
  readonly holder?: string;
  readonly holderInfo?: HolderInfo;
  readonly token?: bigint;
  /** TTL of the record. */
  readonly ttlMs?: number;
  /** Milliseconds until the store lets go, by the store's account; absent when nobody can say. */
  readonly leftMs?: number;
  /** Moves on every renewal. Needed where expiry is observed. */
  readonly version?: string;
  /** Number of waiters in the store's queue, where there is one. */
  readonly waiters?: number;
  /** `lock-delay`: free, but the store holds the name back after a session died. */
  readonly why: "held" | "lock-delay";
}

/**
 * The outcome of renewing one grant.
 *
 * - `renewed`: after the request left, the store showed this holder **and** token, and the time
 *   left is now the TTL. Never: a record re-created; never: an expired one revived.
 * - `lost`: the store shows another holder or token, or no live record (`absent`).
 * - `unavailable`: certainly not applied. `unknown`: perhaps applied.
 */
export type Renewed = "renewed" | { readonly lost: Held | "absent" } | "unavailable" | "unknown";

/** What to give back. Without `token`: whatever the attempt of this holder left behind. */
export interface ReleaseRequest<T extends FencingToken | undefined = FencingToken> {
  readonly name: string;
  readonly holder: string;
  readonly token?: T;
}

/** `unknown`: perhaps applied, ask again. */
export type Released = "released" | "not-held" | "unknown";

/** A place in the store's queue for one name. */
export interface Ticket<T extends FencingToken | undefined = FencingToken> {
  readonly name: string;
  readonly holder: string;
  /**
   * Settles when the store offers the lease to this waiter, or with `gone` when the store no
   * longer knows the waiter. Called once. Rejects with the signal's reason when `signal` aborts.
   *
   * The grant is an **offer**: valid for about a second, and a lease only after one `renew`.
   */
  turn(signal: AbortSignal): Promise<Grant<T> | "gone">;
  /** Gives up the place, or the offer if one was made: the next waiter gets it. */
  leave(call: Call): Promise<void>;
}

/** Waiters ask again after a pause. */
export interface PollWaiting {
  readonly kind: "poll";
}

/** The store tells when a name may have become free; spurious and lost notices are allowed. */
export interface NotifyWaiting {
  readonly kind: "notify";
  /** Once this resolves, any later release calls `wake`, unless the notice is lost. */
  subscribe(name: string, wake: () => void, call: Call): Promise<AsyncDisposable>;
}

/** The store keeps the waiters in order of arrival. */
export interface QueueWaiting<T extends FencingToken | undefined = FencingToken> {
  readonly kind: "queue";
  /** How often the core says that its waiters live, milliseconds. */
  readonly touchEveryMs: number;
  /** Takes a place; on a free name the turn comes at once. Idempotent by holder. */
  enqueue(request: AcquireRequest, call: Call): Promise<Ticket<T>>;
  /**
   * Says that these waiters live, and answers one entry each: still `waiting`, `gone` (the store
   * does not know it: enqueue anew), or the offer, repeated, whose notice was lost. A store may
   * rely on it to look whether an offer has lapsed and has to go to the next.
   */
  touch(
    tickets: readonly Ticket<T>[],
    call: Call,
  ): Promise<readonly ("waiting" | "gone" | Grant<T>)[]>;
}

/** Sessions of a store whose records live as long as their session. */
export interface Sessions {
  /** The TTL in the answer is the one the store keeps; it may differ from the one asked for. */
  open(ttlMs: number, call: Call): Promise<{ readonly id: string; readonly ttlMs: number }>;
  /** `gone` only when the store said so. */
  keepAlive(id: string, call: Call): Promise<"alive" | "gone">;
  close(id: string, call: Call): Promise<void>;
}

/** An answer, or a promise of it. */
export type Answer<R> = R | Promise<R>;

/** One kind of store. See the head of this file for the rules that all methods share. */
export interface Backend<T extends FencingToken | undefined = FencingToken> {
  readonly manifest: Manifest<T>;
  /** Created once and kept in the store itself. Valid once `open` has resolved. */
  readonly storeId: string;
  /**
   * Called once by `connect` before anything else: sets up, probes, and refuses a store that
   * cannot keep the manifest's promises.
   */
  open?(call: Call): Promise<void>;
  /**
   * Atomic: grant the free name, or repeat the grant of this very holder (same token, its TTL
   * starting anew, since the core counts from the request that was answered), or say who holds.
   */
  acquire(
    request: AcquireRequest,
    call: Call,
  ): Answer<{ readonly grant: Grant<T> } | { readonly held: Held }>;
  /** One outcome per grant, in order. At most `manifest.renewBatch` grants. */
  renew(grants: readonly Grant<T>[], call: Call): Answer<readonly Renewed[]>;
  /** One outcome per request, in order; compares holder and token in one atomic step. */
  release(requests: readonly ReleaseRequest<T>[], call: Call): Answer<readonly Released[]>;
  /** Ends the lease of just this token; false when it does not hold. The next token is higher. */
  break(name: string, token: bigint, call: Call): Promise<boolean>;
  /** The live lease of a name, or null. */
  inspect(name: string, call: Call): Promise<Held | null>;
  /** Live leases whose names start with `prefix`, in any order. */
  list(prefix: string, call: Call): AsyncIterable<Held & { readonly name: string }>;
  readonly sessions?: Sessions;
  readonly waiting: PollWaiting | NotifyWaiting | QueueWaiting<T>;
  /** What a transaction in the same store can test: for held checks. */
  proof?(grant: Grant<T>): unknown;
  /** Closes what the backend itself opened. */
  close(): Promise<void>;
}
