/**
 * The holder's side of a lease that is kept in a row: how long it may act, by its own clocks.
 *
 * The deadline counts from **before** the request was sent that was granted or extended, since the
 * store's time begins after that. Extending begins a third of the lease later. A request that is
 * not answered does not end the lease: a further one follows at the next third, and an answer that
 * comes late still counts from its own sending, as long as the lease lasts: one that comes when its
 * end was told changes nothing. A row that shows another holder ends it at once.
 */
import type { Timer } from "../core/clock.js";
import {
  defaultGraceMs,
  elapsedMs,
  now,
  suspendedMs,
  validityMs,
  type Moment,
} from "../core/deadline.js";
import { LeaseLostError, type LostReason } from "../core/errors.js";
import type { Runtime } from "../core/runtime.js";
import { Told } from "../core/told.js";
import type { FencingToken, TokenBearer } from "../core/token.js";

/** What a row shows of its holder, and when that was asked for. */
export interface RowGrant {
  readonly name: string;
  readonly token: FencingToken;
  readonly holder: string;
  readonly storeId: string;
  readonly leaseMs: number;
  /** Before the request for it was sent. */
  readonly sentAt: Moment;
}

/** The kind of pattern, for messages and events; and how a row is extended. */
export interface RowKeeping {
  readonly kind: string;
  readonly runtime: Pick<Runtime, "clock" | "timers" | "random" | "events" | "pauses">;
  /** Sets the row's time anew, from now; false when it is another's, or its time is over. */
  extend(): Promise<boolean>;
}

/** A lease in a row, as its holder sees it. */
export class RowLease extends Told implements TokenBearer {
  readonly name: string;
  readonly token: FencingToken;
  readonly holder: string;
  readonly storeId: string;
  readonly leaseMs: number;
  readonly #keeping: RowKeeping;
  readonly #graceMs: number;
  readonly #abort = new AbortController();
  #base: Moment;
  #isEnded = false;
  #dueAtMs = Infinity;
  #isResting = false;
  #ending: Timer | undefined;
  #renewing: Timer | undefined;

  constructor(grant: RowGrant, keeping: RowKeeping) {
    super();
    this.name = grant.name;
    this.token = grant.token;
    this.holder = grant.holder;
    this.storeId = grant.storeId;
    this.leaseMs = grant.leaseMs;
    this.#graceMs = defaultGraceMs(grant.leaseMs);
    this.#keeping = keeping;
    this.#base = grant.sentAt;
    this.#watch();
  }

  /** Aborted, with a LeaseLostError, when the lease is lost or its deadline is near. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Milliseconds to the deadline, 0 once past. */
  remaining(): number {
    if (this.#isEnded || this.#isLost) return 0;
    const spentMs = elapsedMs(this.#base, now(this.#keeping.runtime.clock));
    return Math.max(0, validityMs(this.leaseMs) - spentMs);
  }

  protected get kind(): string {
    return "RowLease";
  }

  protected facts(): object {
    const { token, holder, storeId, leaseMs } = this;
    return { token, holder, storeId, leaseMs, remainingMs: Math.floor(this.remaining()) };
  }

  /** Extends it in the background until it ends. */
  keep(): void {
    this.#renewLater();
  }

  /**
   * Extends it now.
   *
   * @throws LeaseLostError when the row shows that it is over, or it is by the clocks here: also
   *   when the answer comes too late. What the store throws.
   */
  async extend(): Promise<void> {
    this.#mustLast();
    const sentAt = now(this.#keeping.runtime.clock);
    const isHeld = await this.#keeping.extend();
    if (this.#isEnded) return;
    if (!isHeld) this.#lose("taken");
    // What was told to stop is not told to go on, whatever the row shows.
    this.#mustLast();
    // Answers can come in another order than their requests.
    if (elapsedMs(this.#base, sentAt) > 0) this.#base = sentAt;
    this.#watch();
    this.#tellRenewed(sentAt);
  }

  /** Extends it no more; what is left of it stays. */
  rest(): void {
    this.#renewing?.cancel();
    this.#isResting = true;
  }

  /** It was given back. */
  end(): void {
    this.#isEnded = true;
    this.#stop();
  }

  /** Whether or not a timer has said so: after a blocked event loop they fire late. */
  #mustLast(): void {
    if (!this.#isEnded && this.remaining() <= this.#graceMs) this.#lose("deadline");
    if (this.#isLost) throw this.#abort.signal.reason;
  }

  get #isLost(): boolean {
    return this.#abort.signal.aborted;
  }

  #stop(): void {
    this.#ending?.cancel();
    this.#renewing?.cancel();
  }

  /** Timers fire late, so the clock is looked at again. */
  #watch(): void {
    this.#ending?.cancel();
    const { timers } = this.#keeping.runtime;
    const leftMs = this.remaining() - this.#graceMs;
    const look = (): void => {
      if (this.remaining() > this.#graceMs) this.#watch();
      else this.#lose("deadline");
    };
    this.#ending = timers.after(Math.max(0, leftMs), look, { ref: false });
  }

  #renewLater(): void {
    if (this.#isEnded || this.#isLost || this.#isResting) return;
    const { timers, random } = this.#keeping.runtime;
    const inMs = (this.leaseMs / 3) * (0.85 + random.uniform() * 0.15);
    this.#dueAtMs = this.#keeping.runtime.clock.monotonicMs() + inMs;
    this.#renewing = timers.after(inMs, () => {
      // One that is not answered must not hold up the next: the deadline is what ends the lease.
      this.extend().catch((error: unknown) => this.#tellUnknown(error));
      this.#renewLater();
    });
  }

  #tellRenewed(sentAt: Moment): void {
    const { kind: backend, runtime } = this.#keeping;
    if (!runtime.events.wants("renewed")) return;
    const { name, token, holder } = this;
    const roundTripMs = elapsedMs(sentAt, now(runtime.clock));
    const dueMs = sentAt.monotonicMs - this.#dueAtMs;
    const pause = {
      ...runtime.pauses.read(),
      latenessMs: Math.max(0, dueMs),
      suspendMs: suspendedMs(sentAt, now(runtime.clock)),
    };
    runtime.events.publish({ type: "renewed", name, backend, token, holder, roundTripMs, pause });
  }

  #tellUnknown(error: unknown): void {
    if (this.#isLost || this.#isEnded) return;
    const { kind: backend, runtime } = this.#keeping;
    const { name, token, holder } = this;
    const why =
      (error as { family?: unknown }).family === "unavailable" ? "unavailable" : "unknown";
    runtime.events.publish({ type: "unknown", name, backend, token, holder, why, error });
  }

  #lose(reason: LostReason): void {
    if (this.#isEnded || this.#isLost) return;
    this.#stop();
    const { kind: backend, runtime } = this.#keeping;
    const { name, token, holder } = this;
    const why = reason === "taken" ? "it is over by the store's clock" : "its deadline is near";
    const text = `the lease of ${JSON.stringify(name)} has ended: ${why}`;
    runtime.events.publish({ type: "lost", name, backend, token, holder, reason });
    this.#abort.abort(new LeaseLostError(text, { reason, backend, lock: name }));
  }
}
