/**
 * The fence: the check at the resource that refuses the stale write.
 *
 * A fence keeps a mark per resource. A holder raises the mark with its token before it reads or
 * writes anything (`arm`), and from then on nothing older is accepted: the overlap of two holders
 * is not prevented, it is made harmless. `decide.ts` has the rules, `handle.ts` the client's part
 * in them, and a `FenceStore` makes decision and effect one atomic step in one kind of store.
 */
import type { ArmTarget } from "../core/arm.js";
import type { StaleTokenError } from "../core/errors.js";
import type { Runtime } from "../core/runtime.js";
import type { TokenBearer } from "../core/token.js";
import type { FenceRequest, Mark, MarkRecord, RebaseRequest, Scope, Verdict } from "./decide.js";

/**
 * What a stale write does: `reject` throws a `StaleTokenError`, `ignore` resolves
 * `{ applied: false }`, `log` does that and publishes a warning. None applies the write. Stale
 * armings and reads always throw, and so do conflicts, superseded handles and foreign scopes.
 */
export type OnStale = "reject" | "ignore" | "log";

/** What a write resolves to where stale writes do not throw. */
export type Applied<R> =
  | { readonly applied: true; readonly result: R }
  | { readonly applied: false; readonly stale: StaleTokenError };

/** What a write resolves to: what its work returned, or whether that was applied at all. */
export type WriteOutcome<R, S extends OnStale> = S extends "reject" ? R : Applied<R>;

/** Options that all fences share. */
export interface FenceOptions<S extends OnStale = "reject"> {
  /** Default `reject`. */
  readonly onStale?: S;
}

/**
 * A resource that was armed: the only way to read or write it.
 *
 * Operations of one handle run one at a time in the order of their calls, so work must not wait for
 * another operation of the same handle. An operation is not begun once the lease's signal is
 * aborted; beyond that the mark alone decides, and a lease that has ended by its clock may write
 * until a newer holder has armed. Not so on PostgreSQL and MySQL, where a transaction has no more
 * time than its lease: there it is refused with `LeaseLostError`.
 *
 * Every operation throws what the fence refuses: `StaleTokenError` once a newer holder has armed,
 * `SupersededError` once this holder has armed again, `TokenConflictError`, `TokenScopeError`, and
 * `NotArmedError` when the mark has gone back. `UnavailableError` means that nothing happened.
 * After an `OutcomeUnknownError` of a write, the next operation arms again first.
 */
export interface ArmedHandle<Tx, Read = Tx, S extends OnStale = "reject"> {
  readonly resource: string;
  readonly scope: Scope;
  readonly token: bigint;
  readonly holder: string;
  /** Number of the present arming. */
  readonly arm: number;
  /** Reads in one step with the check of the mark. */
  read<R>(work: (tx: Read) => R): Promise<Awaited<R>>;
  /**
   * Checks and raises the mark and writes, in one atomic step; nothing of it remains when `work`
   * throws.
   */
  write<R>(work: (tx: Tx) => R): Promise<WriteOutcome<Awaited<R>, S>>;
}

/** One resource of a fence, to arm now or to name in `hold(…, { arm })`. */
export interface FencedResource<Tx, Read = Tx, S extends OnStale = "reject">
  extends ArmTarget<ArmedHandle<Tx, Read, S>> {
  readonly fence: Fence<Tx, Read, S>;
  readonly resource: string;
}

/** A fence over one store of resources. */
export interface Fence<Tx, Read = Tx, S extends OnStale = "reject"> {
  /**
   * Raises the mark of `resource` to the bearer's token: from here on no older token is accepted.
   * A second arming by the same holder ends the handle of the first.
   *
   * @throws TypeError for a bearer without a token, RangeError for a name out of bounds.
   * @throws StaleTokenError, TokenConflictError, TokenScopeError when the fence refuses.
   * @throws OutcomeUnknownError when the answer was lost: arm again.
   */
  arm(bearer: TokenBearer, resource: string): Promise<ArmedHandle<Tx, Read, S>>;
  /**
   * Arms all, one after the other in the order given; hands out all handles or none. Not promised:
   * that marks raised before a refusal go back, since a mark never does.
   */
  armAll(
    bearer: TokenBearer,
    resources: readonly string[],
  ): Promise<readonly ArmedHandle<Tx, Read, S>[]>;
  resource(name: string): FencedResource<Tx, Read, S>;
  /** The mark as it is now, or null for a resource that was never armed. */
  mark(resource: string): Promise<Mark | null>;
  /**
   * Moves a resource to another lock or store, for good: a lease passed as `to` also refuses older
   * tokens of its scope. Handles armed under the old scope are refused from then on. Nothing
   * changes when the resource is in that scope already.
   *
   * Not promised: that the old lock's holder has stopped; stop it first.
   */
  rebase(
    resource: string,
    options: { readonly to: Scope | TokenBearer; readonly reason: string },
  ): Promise<Mark>;
}

/** What bounds one call to a fence's store. */
export interface FenceCall {
  /** The step is not begun once this is aborted. */
  readonly signal: AbortSignal | undefined;
  /** Milliseconds that the lease has left: the longest a transaction may stay open. */
  remainingMs(): number;
}

/** The answer to a read or write: the refusal, or what the work returned. */
export type Ran<R> =
  | { readonly accepted: true; readonly result: R }
  | Extract<Verdict, { readonly accepted: false }>;

/** The caller's part of a step. At a store whose `work` is `sync` it never returns a promise. */
export type Work<Tx, R> = (tx: Tx) => R | PromiseLike<R>;

/**
 * What a store has to do for a fence. Each method is one atomic step: the decision of `decide` (or
 * `rebase`) on the stored record, and its effect.
 *
 * An error thrown by `work` undoes the step and comes out as it is. Anything else that goes wrong:
 * `UnavailableError` if the step certainly had no effect, `OutcomeUnknownError` otherwise; every
 * other error is taken as outcome unknown.
 */
export interface FenceStore<Tx, Read = Tx> {
  /** Short name of the kind of fence, for errors and events. */
  readonly kind: string;
  /** `sync`: work that returns a promise is refused, and undone, since nothing would await it. */
  readonly work: "sync" | "async";
  /**
   * Set where the work of a read has a connection with which it can end the transaction and write
   * after that: then an unknown outcome of a read is one. Elsewhere a read has no effect that could
   * have happened.
   */
  readonly readsCanEnd?: boolean;
  load(resource: string, call: FenceCall): Promise<MarkRecord | null>;
  arm(request: FenceRequest, call: FenceCall): Promise<Verdict>;
  /** `tx` is of no use once `work` has ended. */
  read<R>(request: FenceRequest, work: Work<Read, R>, call: FenceCall): Promise<Ran<R>>;
  /** As `read`. */
  write<R>(request: FenceRequest, work: Work<Tx, R>, call: FenceCall): Promise<Ran<R>>;
  rebase(
    request: RebaseRequest,
    call: FenceCall,
  ): Promise<{ readonly before: MarkRecord | null; readonly after: MarkRecord }>;
}

/** What fences take from the outside world. */
export type FenceRuntime = Pick<Runtime, "clock" | "timers" | "random" | "events">;
