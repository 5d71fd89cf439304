/// <reference lib="esnext.disposable" preserve="true" />
/**
 * A term of leadership in the hands of its leader.
 *
 * A term is **leading** from its grant and ends once, **revoked**: because its lease was lost or
 * is within the grace of its deadline, because its leader resigned, because the caller's signal
 * aborted, or because the tenure is being closed. Revoked is final: a store that answers again
 * later does not bring a term back.
 */
import { whenAborted } from "../core/aborting.js";
import { LeaseLostError, NotLeaderError } from "../core/errors.js";
import type { EventSink, RevokedReason } from "../core/events.js";
import type { Lease } from "../core/lease.js";
import { Told } from "../core/told.js";
import type { FencingToken, TokenBearer } from "../core/token.js";

/**
 * The right to lead until a deadline; what `campaign` resolves with. A fence takes it like a lease.
 *
 * Not promised: that nobody else leads while this one believes to. A leader that was frozen
 * believes it until its next statement, and what it had sent still arrives. What protects the data
 * is a fence that was armed with the term, not the signal and no look at the clock.
 */
export interface Leadership extends TokenBearer, AsyncDisposable {
  /** Name of the election. */
  readonly name: string;
  /** The term: the fencing token of the grant, higher than that of every term before. */
  readonly term: FencingToken;
  /** The same as `term`, for fences. */
  readonly token: FencingToken;
  /** Random id of this grant. */
  readonly holder: string;
  /** Id of the store that granted it. */
  readonly storeId: string;
  /** TTL as the store granted it, milliseconds. */
  readonly ttlMs: number;
  /**
   * Aborts when the term is revoked: the grace before the deadline, or at once when the store shows
   * that the lease is gone. Its reason is a `LeaseLostError`, a `NotLeaderError` after `resign`,
   * the caller's own reason, or an `UnavailableError` when the tenure is closed.
   */
  readonly signal: AbortSignal;
  /**
   * Milliseconds to the deadline by this process's own clocks; 0 once past. Within the grace the
   * term is revoked and time remains, to stop in order.
   */
  remaining(): number;
  /**
   * Nothing, while this term leads and at least `minMs` remain (default: any).
   *
   * Not promised: that it still leads when the next statement runs. Only a fence promises that.
   *
   * @throws NotLeaderError otherwise. UnverifiedError while the clock is in doubt.
   */
  assertLeading(minMs?: number): void;
  /**
   * Ends the term and lets the next candidate in: the last thing that a leader does. Answers
   * `not-held` when the store no longer had it. Never touches a later term.
   *
   * @throws UnavailableError, OutcomeUnknownError when the store did not answer: call again, or
   *   leave it to the TTL.
   */
  resign(): Promise<"released" | "not-held">;
}

/** What a term works with. */
export interface TermParts {
  readonly events: EventSink;
  readonly backend: string;
  readonly closing: AbortSignal;
  readonly waitedMs: number;
  /** Told once, when it is revoked. */
  readonly onRevoked: (reason: RevokedReason) => void;
}

/** The one implementation of {@link Leadership}. */
export class Term extends Told implements Leadership {
  readonly #lease: Lease;
  readonly #parts: TermParts;
  readonly #controller = new AbortController();
  readonly #stopListening: readonly (() => void)[];
  #reason: RevokedReason | undefined;

  constructor(lease: Lease, parts: TermParts) {
    super();
    this.#lease = lease;
    this.#parts = parts;
    const { events, backend, closing, waitedMs } = parts;
    const { name, token: term, holder } = lease;
    events.publish({ type: "elected", name, backend, term, holder, waitedMs });
    this.#stopListening = [
      whenAborted(lease.signal, () => this.#lost()),
      whenAborted(closing, () => this.revoke("closed", closing.reason)),
    ];
    // It may have ended before its first listener was there.
    if (this.#reason !== undefined) this.#stop();
  }

  get name(): string {
    return this.#lease.name;
  }

  get term(): FencingToken {
    return this.#lease.token;
  }

  get token(): FencingToken {
    return this.#lease.token;
  }

  get holder(): string {
    return this.#lease.holder;
  }

  get storeId(): string {
    return this.#lease.storeId;
  }

  get ttlMs(): number {
    return this.#lease.ttlMs;
  }

  get signal(): AbortSignal {
    this.#look();
    return this.#controller.signal;
  }

  /** Why it was revoked, looking at the clock first; undefined while it leads. */
  get revokedBecause(): RevokedReason | undefined {
    this.#look();
    return this.#reason;
  }

  remaining(): number {
    return this.#lease.remaining();
  }

  assertLeading(minMs = 0): void {
    try {
      this.#lease.assertHeld(minMs);
    } catch (error) {
      throw error instanceof LeaseLostError ? this.#notLeader(error) : error;
    }
    // Within the grace the lease is held, and the term is over.
    if (this.#reason !== undefined) throw this.#notLeader(this.#controller.signal.reason);
  }

  resign(): Promise<"released" | "not-held"> {
    this.over();
    return this.#lease.release();
  }

  protected get kind(): string {
    return "Leadership";
  }

  protected facts(): object {
    const { name, term, holder, storeId, ttlMs, revokedBecause } = this;
    const revoked = revokedBecause === undefined ? {} : { revokedBecause };
    const remainingMs = Math.floor(this.remaining());
    return { name, term, holder, storeId, ttlMs, remainingMs, ...revoked };
  }

  /** Ends the term as its leader wished, if it has not ended otherwise. */
  over(): void {
    this.#look();
    this.revoke("resigned", this.#notLeader());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.resign();
  }

  /** Ends the term, if it has not ended. */
  revoke(reason: RevokedReason, why: unknown): void {
    if (this.#reason !== undefined) return;
    this.#reason = reason;
    this.#stop();
    const { name, term, holder } = this;
    const { backend, events, onRevoked } = this.#parts;
    this.#controller.abort(why);
    events.publish({ type: "revoked", name, backend, term, holder, reason });
    onRevoked(reason);
  }

  #lost(): void {
    const { reason } = this.#lease.signal as { readonly reason: LeaseLostError };
    this.revoke(reason.reason, reason);
  }

  /** A lease notices by its clock, and aborts, when it is asked. */
  #look(): void {
    void this.#lease.state;
  }

  #stop(): void {
    // Not yet there while the constructor listens.
    for (const stop of this.#stopListening ?? []) stop();
  }

  #notLeader(cause?: unknown): NotLeaderError {
    const what = `term ${this.term} of ${JSON.stringify(this.name)}`;
    const text = cause === undefined ? `${what} was resigned` : `${what} does not lead`;
    const because = cause instanceof Error ? `: ${cause.message}` : "";
    return new NotLeaderError(`${text}${because}`, {
      lock: this.name,
      backend: this.#parts.backend,
      ...(cause === undefined ? {} : { cause }),
    });
  }
}
