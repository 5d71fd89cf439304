import type { Timer, Timers } from "../core/clock.js";

interface Pending {
  readonly dueMs: number;
  readonly ref: boolean;
  run: (() => void) | undefined;
}

/** Timers on a simulated monotonic clock, in order of due time, then of setting. */
export class SimulatedTimers implements Timers {
  readonly #nowMs: () => number;
  readonly #turns = new Turns();
  /** Sorted, the next one last; cancelled ones stay until their turn comes. */
  readonly #pending: Pending[] = [];

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  after(delayMs: number, run: () => void, options: { readonly ref?: boolean } = {}): Timer {
    if (Number.isNaN(delayMs)) throw new RangeError("a timer needs a delay, got NaN");
    const dueMs = this.#nowMs() + Math.max(0, delayMs);
    const timer: Pending = { dueMs, ref: options.ref ?? true, run };
    this.#pending.splice(this.#placeOf(dueMs), 0, timer);
    return { cancel: () => (timer.run = undefined) };
  }

  soon(run: () => void): Timer {
    let due: (() => void) | undefined = run;
    this.#turns.post(() => due?.());
    return { cancel: () => (due = undefined) };
  }

  /** Timers set and neither fired nor cancelled. */
  count(which: "all" | "ref"): number {
    const counts = (timer: Pending): boolean =>
      timer.run !== undefined && (which === "all" || timer.ref);
    return this.#pending.filter(counts).length;
  }

  /** Due time of the next timer, or undefined. */
  nextDueMs(): number | undefined {
    while (this.#pending.length > 0 && this.#pending.at(-1)?.run === undefined) this.#pending.pop();
    return this.#pending.at(-1)?.dueMs;
  }

  /** Fires the next timer, due or not. */
  fireNext(): void {
    if (this.nextDueMs() === undefined) return;
    const timer = this.#pending.pop();
    const run = timer?.run;
    if (timer !== undefined) timer.run = undefined;
    run?.();
  }

  /** Resolves once all promises that can settle have settled, and all `soon` calls have run. */
  async quiet(): Promise<void> {
    do await this.#turns.next();
    while (this.#turns.busy);
  }

  #placeOf(dueMs: number): number {
    let low = 0;
    let high = this.#pending.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      // A new timer has the highest order, so among equals it comes before them in this array.
      if (this.#pending[middle]!.dueMs > dueMs) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/**
 * Turns of the real event loop, by messages to ourselves: between two turns the engine runs every
 * promise reaction, however long the chain. Counting promise turns instead would be a guess.
 */
class Turns {
  readonly #channel = new MessageChannel();
  readonly #waiting: (() => void)[] = [];
  readonly #take = (): void => {
    const run = this.#waiting.shift();
    if (!this.busy) this.#channel.port1.off("message", this.#take);
    run?.();
  };

  get busy(): boolean {
    return this.#waiting.length > 0;
  }

  post(run: () => void): void {
    // Listening only while something is posted lets the process end.
    if (!this.busy) this.#channel.port1.on("message", this.#take);
    this.#waiting.push(run);
    this.#channel.port2.postMessage(0);
  }

  next(): Promise<void> {
    return new Promise((resolve) => this.post(resolve));
  }
}
