/// <reference lib="esnext.disposable" preserve="true" />
/**
 * A lease in the hands of its holder.
 *
 * The state machine. A lease begins **held**. When a renewal fails, or the clock is in doubt, it is
 * **unknown** until a renewal answers, and then held again. It is **lost** when its deadline
 * passes, when the store shows that it is gone, or when it outlasted `maxHold`; **released** when
 * its holder said so. Lost and released are final.
 *
 * Every question (`state`, `remaining`, `assertHeld`) looks at the clock first, because after a
 * blocked event loop the timers fire late; `signal` is a courtesy that the timers deliver.
 */
import type { Due } from "./agenda.js";
import type { Grant, Held } from "./backend.js";
import type { Clock } from "./clock.js";
import { doubtMs, elapsedMs, now, validityMs, wallAheadMs } from "./deadline.js";
import type { Moment } from "./deadline.js";
import { parseDuration } from "./duration.js";
import { LeaseLostError, UnverifiedError } from "./errors.js";
import type { LostReason } from "./errors.js";
import type { Member } from "./members.js";
import type { LeaseTerms } from "./options.js";
import { Told } from "./told.js";
import type { FencingToken } from "./token.js";

/**
 * What rounding of sums of fractions can differ by, milliseconds: at the moment that `nextLookMs`
 * named, the time left must not come out a trifle too long, or the keeper would look for ever.
 */
const ROUNDING_MS = 1e-6;

/** State of a lease; see the head of this file. */
export type LeaseState = "held" | "unknown" | "lost" | "released";

/**
 * The right to act on a name until a deadline; what `acquire` returns.
 *
 * `JSON.stringify` and `console.log` show what the properties say, and the time left; in JSON the
 * token is decimal text.
 */
export interface Lease<T extends FencingToken | undefined = FencingToken> extends AsyncDisposable {
  readonly name: string;
  /** The fencing token of this grant; never re-read. */
  readonly token: T;
  /** Random id of this grant. */
  readonly holder: string;
  /** Id of the store that granted it. */
  readonly storeId: string;
  /** Incarnation of the store at the grant, where the store has one. */
  readonly storeEpoch: string | undefined;
  /** TTL as the store granted it, milliseconds. */
  readonly ttlMs: number;
  /** Looks at the clock. */
  readonly state: LeaseState;
  /**
   * Aborted with a `LeaseLostError` at loss, or `grace` before the deadline so that the work can
   * stop in time; from then on the lease is not renewed. Not aborted by a release. Not promised:
   * that it aborts in time while the event loop is blocked.
   */
  readonly signal: AbortSignal;
  /** Milliseconds to the deadline by the holder's own clocks; 0 once past, lost or released. */
  remaining(): number;
  /**
   * Nothing, when the lease is held for at least `minMs` more (default: at all).
   *
   * Not promised: that it is still held when the next statement runs. Only a fence promises that.
   *
   * @throws LeaseLostError otherwise.
   * @throws UnverifiedError while the clock is in doubt.
   */
  assertHeld(minMs?: number): void;
  /**
   * Renews now. The time left becomes the TTL; it is never added to.
   *
   * @throws LeaseLostError when it is lost. UnavailableError, OutcomeUnknownError when the store
   *   did not answer; the lease then goes on until its deadline.
   */
  renew(): Promise<void>;
  /**
   * Gives the lease back. Answers `not-held` when the store no longer had it, without throwing;
   * further calls repeat the answer without asking the store.
   *
   * @throws UnavailableError, OutcomeUnknownError when the store did not answer: call again, or
   *   leave it to the TTL.
   */
  release(): Promise<"released" | "not-held">;
}

/** What a lease asks of its keeper. */
export interface Keeper<T extends FencingToken | undefined> {
  readonly clock: Clock;
  readonly storeId: string;
  readonly backend: string;
  /** The lease wants a renewal at once: its clock is in doubt. */
  hurry(lease: HeldLease<T>): void;
  renew(lease: HeldLease<T>): Promise<void>;
  release(lease: HeldLease<T>): Promise<"released" | "not-held">;
  ending(lease: HeldLease<T>): void;
  doubted(lease: HeldLease<T>): void;
  lost(lease: HeldLease<T>, error: LeaseLostError): void;
}

/** The one implementation of {@link Lease}; its keeper moves it. */
export class HeldLease<T extends FencingToken | undefined>
  extends Told
  implements Lease<T>, Due, Member
{
  readonly grant: Grant<T>;
  readonly terms: LeaseTerms;
  readonly storeId: string;
  /** Sending of the request that was granted. */
  readonly startedAt: Moment;
  /** Sending of the last request that the store granted or renewed. */
  base: Moment;
  /** When the keeper means to renew, on the monotonic clock. */
  renewAtMs = 0;
  /** Renewals sent and not answered. */
  unanswered = 0;
  /** Failed renewals since the last answer. */
  failures = 0;
  /** Whether half the TTL has passed unrenewed and was told. */
  toldUnrenewed = false;
  /** Whether its holder tried to give it back while it was held. */
  wasGivenBack = false;
  /** How late the last renewal left, and how much of that the machine was suspended. */
  latenessMs = 0;
  suspendMs = 0;
  /** Where the lease stands on the agenda of its keeper. */
  dueMs = 0;
  slot = -1;
  /** Among the open leases of its keeper, and later among those that it owes the store. */
  place = -1;

  readonly #keeper: Keeper<T>;
  #doubtedAt: Moment | undefined;
  #ending = false;
  #released = false;
  /** How it came to be released. */
  #over = "was released";
  #lost: LeaseLostError | undefined;
  #controller: AbortController | undefined;
  #releasing: Promise<"released" | "not-held"> | undefined;

  constructor(grant: Grant<T>, terms: LeaseTerms, sentAt: Moment, keeper: Keeper<T>) {
    super();
    this.grant = grant;
    this.terms = terms;
    // Kept, since a closed backend does not tell it, and a lease is shown after that, too.
    this.storeId = keeper.storeId;
    this.startedAt = sentAt;
    this.base = sentAt;
    this.#keeper = keeper;
  }

  get name(): string {
    return this.grant.name;
  }

  get token(): T {
    return this.grant.token;
  }

  get holder(): string {
    return this.grant.holder;
  }

  get storeEpoch(): string | undefined {
    return this.grant.storeEpoch;
  }

  get ttlMs(): number {
    return this.grant.ttlMs;
  }

  get state(): LeaseState {
    this.look(now(this.#keeper.clock));
    if (this.#lost !== undefined) return "lost";
    if (this.#released) return "released";
    return this.failures > 0 || this.#doubtedAt !== undefined ? "unknown" : "held";
  }

  get signal(): AbortSignal {
    this.look(now(this.#keeper.clock));
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#lost !== undefined || this.#ending) this.#controller.abort(this.#reason());
    }
    return this.#controller.signal;
  }

  /** Neither lost nor released, by what is known so far. */
  get isOpen(): boolean {
    return this.#lost === undefined && !this.#released;
  }

  /** Within the grace of its deadline: the work was told to stop and nothing is renewed. */
  get isEnding(): boolean {
    return this.#ending;
  }

  remaining(): number {
    const at = now(this.#keeper.clock);
    this.look(at);
    return this.isOpen ? Math.max(0, this.leftMs(at)) : 0;
  }

  assertHeld(minMs = 0): void {
    const wanted = parseDuration(minMs, "minMs", { zero: true });
    const left = this.remaining();
    if (this.#lost !== undefined) throw this.#lost;
    if (this.#released) throw this.#error("released", this.#over);
    if (left < wanted) {
      throw this.#error("deadline", `has ${Math.floor(left)} ms left, ${wanted} ms were wanted`);
    }
    if (this.#doubtedAt !== undefined) {
      throw new UnverifiedError(
        `the clock is in doubt: the wall clock ran ahead, so the machine may have been paused; ` +
          `wait until a renewal of ${JSON.stringify(this.name)} has answered`,
        { lock: this.name, backend: this.#keeper.backend },
      );
    }
  }

  async renew(): Promise<void> {
    this.look(now(this.#keeper.clock));
    if (this.#lost !== undefined) throw this.#lost;
    if (this.#released) throw this.#error("released", this.#over);
    if (this.#ending) throw this.#reason();
    await this.#keeper.renew(this);
  }

  release(): Promise<"released" | "not-held"> {
    this.look(now(this.#keeper.clock));
    this.#released ||= this.#lost === undefined;
    this.#releasing ??= this.#keeper.release(this).catch((error: unknown) => {
      this.#releasing = undefined;
      throw error;
    });
    return this.#releasing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  protected get kind(): string {
    return "Lease";
  }

  protected facts(): object {
    const { name, token, holder, storeId, storeEpoch, ttlMs, state } = this;
    const epoch = storeEpoch === undefined ? {} : { storeEpoch };
    const remainingMs = Math.floor(this.remaining());
    return { name, token, holder, storeId, ...epoch, ttlMs, state, remainingMs };
  }

  /** Somebody else goes on with it: from here on this handle renews and releases nothing. */
  handOver(): void {
    this.#over = "was handed over to another process (detach)";
    this.#released = true;
    this.#releasing = Promise.resolve("not-held");
  }

  /** Why it was lost, looking at the clock first; undefined when it was not. */
  lostError(): LeaseLostError | undefined {
    this.look(now(this.#keeper.clock));
    return this.#lost;
  }

  /** What its release showed where it was held here and the store had it no more. */
  removedError(): LeaseLostError {
    return this.#error("absent", "was not in the store any more when it was given back");
  }

  /** Milliseconds to the deadline at a moment; negative once past. */
  leftMs(at: Moment): number {
    const toDeadline = validityMs(this.ttlMs) - elapsedMs(this.base, at);
    return Math.min(toDeadline, this.terms.maxHoldMs - elapsedMs(this.startedAt, at));
  }

  /** Takes note of what the clocks say. */
  look(at: Moment): void {
    if (!this.isOpen) return;
    const left = this.leftMs(at) - ROUNDING_MS;
    if (left <= 0) {
      const overHeld = elapsedMs(this.startedAt, at) >= this.terms.maxHoldMs;
      if (overHeld) this.lose("max-hold", `was held longer than ${this.terms.maxHoldMs} ms`);
      else this.lose("deadline", `was not renewed before its deadline (TTL ${this.ttlMs} ms)`);
      return;
    }
    if (left <= this.terms.graceMs && !this.#ending) this.#end();
    if (wallAheadMs(this.base, at) > doubtMs(this.ttlMs) && this.#doubtedAt === undefined) {
      this.#doubtedAt = at;
      this.#keeper.doubted(this);
      if (this.isOpen && !this.#ending) this.#keeper.hurry(this);
    }
  }

  /** The store renewed a request sent at `sentAt`. A late answer to an old request counts too. */
  renewed(sentAt: Moment): void {
    if (!this.isOpen || this.#ending) return;
    if (sentAt.monotonicMs >= this.base.monotonicMs) this.base = sentAt;
    this.failures = 0;
    this.toldUnrenewed = false;
    const doubted = this.#doubtedAt;
    if (doubted !== undefined && sentAt.monotonicMs >= doubted.monotonicMs) {
      this.#doubtedAt = undefined;
    }
  }

  lose(reason: LostReason, how: string, by?: Held): void {
    if (!this.isOpen) return;
    this.#lost = this.#error(reason, how, by);
    this.#controller?.abort(this.#lost);
    this.#keeper.lost(this, this.#lost);
  }

  /** When the keeper has to look next, on the monotonic clock. */
  nextLookMs(): number {
    const deadlineMs = Math.min(
      this.base.monotonicMs + validityMs(this.ttlMs),
      this.startedAt.monotonicMs + this.terms.maxHoldMs,
    );
    if (this.#ending) return deadlineMs;
    const next = Math.min(deadlineMs - this.terms.graceMs, this.renewAtMs);
    return this.toldUnrenewed ? next : Math.min(next, this.halfMs());
  }

  /** When half the TTL has passed since the last renewal was sent. */
  halfMs(): number {
    return this.base.monotonicMs + this.ttlMs / 2;
  }

  #end(): void {
    this.#ending = true;
    this.#controller?.abort(this.#reason());
    this.#keeper.ending(this);
  }

  #reason(): LeaseLostError {
    const how = `was not renewed in time: its deadline is near, or past (TTL ${this.ttlMs} ms)`;
    return this.#lost ?? this.#error("deadline", how);
  }

  #error(reason: LostReason, how: string, by?: Held): LeaseLostError {
    return new LeaseLostError(`the lease ${JSON.stringify(this.name)} ${how}`, {
      lock: this.name,
      backend: this.#keeper.backend,
      reason,
      ...(by === undefined ? {} : { by }),
    });
  }
}
