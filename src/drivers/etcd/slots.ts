import type { Timer, Timers } from "../../core/clock.js";

/** What is known of who enters. */
interface Request {
  /** Whether it must not wait for others, and so takes no room. */
  readonly isUrgent?: boolean;
}

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

  /** Whether there is room now, as there always is for what is urgent. Given back with `leave`. */
  enterNow({ isUrgent = false }: Request): boolean {
    if (isUrgent) return true;
    if (this.#free === 0) return false;
    this.#free -= 1;
    return true;
  }

  /** Whether there is room within this time. To be given back with `leave`, if so. */
  enter(withinMs: number): Promise<boolean> {
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

  leave({ isUrgent = false }: Request): void {
    if (isUrgent) return;
    const [next] = this.#waiting;
    if (next === undefined) this.#free += 1;
    else next.go(true);
  }

  /** Nobody gets in any more. */
  close(): void {
    for (const { go } of [...this.#waiting]) go(false);
  }
}
