import type { Call } from "../core/backend.js";
import type { Clock, Timers } from "../core/clock.js";
import type { Faults, Limits, Result, Row } from "./sql-client.js";

/** Part of a call's time that may be spent waiting for a free connection. */
const POOL_SHARE = 0.4;
/** Part of that part in which calls that begin share one signal for its end. */
const SHARED = 1 / 8;
/** Grants between two sweeps of this process. */
const SWEEP_EVERY = 256;

/** What statements are run with. */
export interface AskingParts<V> {
  readonly backend: string;
  /** One statement that is a transaction by itself, on a connection of the pool. */
  readonly run: (text: string, values: readonly V[], limits: Limits) => Promise<Result>;
  readonly faults: Faults;
  readonly clock: Clock;
  readonly timers: Timers;
}

/** A signal that is still given out, and when it was made. */
interface Patience {
  readonly sinceMs: number;
  readonly signal: AbortSignal;
}

/** Statements of one backend in a pool. */
export class Asking<V> {
  readonly #parts: AskingParts<V>;
  /** By how long they last. */
  readonly #patience = new Map<number, Patience>();
  #grants = 0;

  constructor(parts: AskingParts<V>) {
    this.#parts = parts;
  }

  /** @throws What the driver throws. */
  async ask(text: string, values: readonly V[], call: Call): Promise<readonly Row[]> {
    const patience = this.#within(call.timeoutMs * POOL_SHARE);
    const limits = { patience, signal: call.over ?? call.signal };
    return (await this.#parts.run(text, values, limits)).rows;
  }

  /** The same, with the driver's errors explained. */
  async run(
    text: string,
    values: readonly V[],
    call: Call,
    during: string,
    lock?: string,
  ): Promise<readonly Row[]> {
    try {
      return await this.ask(text, values, call);
    } catch (error) {
      const { faults, backend } = this.#parts;
      throw faults.explain(error, { during, backend, ...(lock === undefined ? {} : { lock }) });
    }
  }

  /**
   * Aborts within this time, and not before seven eighths of it: a controller and a timer for each
   * call were a seventh of what a grant and its release cost the client.
   */
  #within(ms: number): AbortSignal {
    const { clock, timers } = this.#parts;
    const nowMs = clock.monotonicMs();
    const known = this.#patience.get(ms);
    if (known !== undefined && nowMs - known.sinceMs < ms * SHARED) return known.signal;
    const controller = new AbortController();
    const made: Patience = { sinceMs: nowMs, signal: controller.signal };
    this.#patience.set(ms, made);
    const end = (): void => {
      if (this.#patience.get(ms) === made) this.#patience.delete(ms);
      controller.abort();
    };
    timers.after(ms, end, { ref: false });
    return made.signal;
  }

  /** Every so many calls, so that what nobody gave back does not pile up. Nobody waits for it. */
  sweepNowAndThen(text: string, call: Call): void {
    if (++this.#grants % SWEEP_EVERY !== 0) return;
    const unbound = { timeoutMs: call.timeoutMs, signal: new AbortController().signal };
    this.ask(text, [], unbound).catch(() => undefined);
  }
}
