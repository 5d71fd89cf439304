import type { Timer, Timers } from "../../core/clock.js";

interface Waiting {
  readonly go: (isFree: boolean) => void;
  readonly timer: Timer;
}

/**
 * Room for so many requests at a time: a thousand releases sent at once would each be slow, look
 * lost, and be sent again.
 */
export class Slots {
  readonly #timers: Timers;
  #free: number;
  readonly #waiting = new Set<Waiting>();

  constructor(timers: Timers, count: number) {
    this.#timers = timers;
    this.#free = count;
  }

  /** Whether there is room, now or within this time. To be given back with `leave`, if so. */
  enter(withinMs: number): boolean | Promise<boolean> {
    if (this.#free > 0) {
      this.#free -= 1;
      return true;
    }
    return new Promise((resolve) => {
      const go = (isFree: boolean): void => {
        waiting.timer.cancel();
        this.#waiting.delete(waiting);
        resolve(isFree);
      };
      const waiting: Waiting = { go, timer: this.#timers.after(withinMs, () => go(false)) };
      this.#waiting.add(waiting);
    });
  }

  leave(): void {
    const [next] = this.#waiting;
    if (next === undefined) this.#free += 1;
    else next.go(true);
  }

  /** Nobody gets in any more. */
  close(): void {
    for (const { go } of [...this.#waiting]) go(false);
  }
}
