import type { Clock, Timers } from "../core/clock.js";
import type { Random } from "../core/random.js";

/** What waiting takes from the outside world. */
export interface PatienceRuntime {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly random: Random;
}

const FIRST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 250;

/** Waiting for somebody else's work by looking again, after pauses that grow. */
export class Patience {
  readonly #runtime: PatienceRuntime;
  readonly #untilMs: number;
  #pauseMs = FIRST_PAUSE_MS;

  constructor(runtime: PatienceRuntime, waitMs: number) {
    this.#runtime = runtime;
    this.#untilMs = runtime.clock.monotonicMs() + waitMs;
  }

  /** Pauses, and answers true; answers false at once when the time is over. */
  async rest(): Promise<boolean> {
    const { clock, timers, random } = this.#runtime;
    const leftMs = this.#untilMs - clock.monotonicMs();
    if (leftMs <= 0) return false;
    const pauseMs = Math.min(leftMs, this.#pauseMs * (0.5 + random.uniform() / 2));
    this.#pauseMs = Math.min(LONGEST_PAUSE_MS, this.#pauseMs * 2);
    await new Promise<void>((resolve) => timers.after(pauseMs, resolve));
    return true;
  }
}
