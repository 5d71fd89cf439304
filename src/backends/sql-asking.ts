import type { Call } from "../core/backend.js";
import type { Timers } from "../core/clock.js";
import type { Faults, Limits, Result, Row } from "./sql-client.js";

/** Part of a call's time that may be spent waiting for a free connection. */
const POOL_SHARE = 0.4;
/** Grants between two sweeps of this process. */
const SWEEP_EVERY = 256;

/** What statements are run with. */
export interface AskingParts<V> {
  readonly backend: string;
  /** One statement that is a transaction by itself, on a connection of the pool. */
  readonly run: (text: string, values: readonly V[], limits: Limits) => Promise<Result>;
  readonly faults: Faults;
  readonly timers: Timers;
}

/** Statements of one backend in a pool. */
export class Asking<V> {
  readonly #parts: AskingParts<V>;
  #grants = 0;

  constructor(parts: AskingParts<V>) {
    this.#parts = parts;
  }

  /** @throws What the driver throws. */
  async ask(text: string, values: readonly V[], call: Call): Promise<readonly Row[]> {
    const { run, timers } = this.#parts;
    const patience = new AbortController();
    const timer = timers.after(call.timeoutMs * POOL_SHARE, () => patience.abort());
    try {
      return (await run(text, values, { patience: patience.signal, signal: call.signal })).rows;
    } finally {
      timer.cancel();
    }
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

  /** Every so many calls, so that what nobody gave back does not pile up. Nobody waits for it. */
  sweepNowAndThen(text: string, call: Call): void {
    if (++this.#grants % SWEEP_EVERY !== 0) return;
    const unbound = { timeoutMs: call.timeoutMs, signal: new AbortController().signal };
    this.ask(text, [], unbound).catch(() => undefined);
  }
}
