/** The rests between two looks of a member. */
import type { Timer } from "../core/clock.js";
import type { Runtime } from "../core/runtime.js";

const SHORTEST_PACE_MS = 50;
const LONGEST_PACE_MS = 1_000;
/** Each look that shows nothing new lengthens the next rest by so much, up to one at leisure. */
const SLOWING = 1.3;

/** Rests: at leisure while all is settled, else short ones that grow until something happens. */
export class Pacing {
  /** A third of the TTL, milliseconds. */
  readonly leisureMs: number;
  /** The short rest, milliseconds. */
  readonly paceMs: number;
  readonly #runtime: Runtime;
  #nextMs: number;
  /** Whether something happened since the last rest began. */
  #isStirred = false;
  #resting: { stir(): void; end(): void } | undefined;
  #isOver = false;

  constructor(runtime: Runtime, ttlMs: number) {
    this.#runtime = runtime;
    this.leisureMs = ttlMs / 3;
    const paceMs = Math.min(Math.max(ttlMs / 50, SHORTEST_PACE_MS), LONGEST_PACE_MS);
    this.paceMs = Math.min(paceMs, this.leisureMs);
    this.#nextMs = this.paceMs;
  }

  /** Something happened: the next look comes after a short rest. */
  stir(): void {
    this.#isStirred = true;
    this.#nextMs = this.paceMs;
    this.#resting?.stir();
  }

  /** No more rests. */
  end(): void {
    this.#isOver = true;
    this.#resting?.end();
  }

  /** Rests; `atLeisure` unless something happens meanwhile. */
  async rest(atLeisure: boolean): Promise<void> {
    const isHurried = this.#isStirred || !atLeisure;
    const restMs = isHurried ? this.#nextMs : this.leisureMs;
    this.#nextMs = isHurried ? Math.min(restMs * SLOWING, this.leisureMs) : this.paceMs;
    this.#isStirred = false;
    if (!this.#isOver) await this.#sleep(restMs);
    this.#resting = undefined;
  }

  #sleep(restMs: number): Promise<void> {
    const { timers, random } = this.#runtime;
    const jitter = 0.8 + random.uniform() / 5;
    return new Promise((resolve) => {
      let timer: Timer = timers.after(restMs * jitter, resolve);
      let isShort = restMs <= this.paceMs;
      this.#resting = {
        stir: () => {
          if (isShort) return;
          isShort = true;
          timer.cancel();
          timer = timers.after(this.paceMs * jitter, resolve);
        },
        end: () => {
          timer.cancel();
          resolve();
        },
      };
    });
  }
}
