import type { Clock } from "../core/clock.js";

/**
 * Attempts that may still arrive at the server: to say of one that nothing of it is left would be
 * wrong as long as it can be granted afterwards.
 *
 * 1. A's acquire waits for a lock in the server, or in the network; A gives it up.
 * 2. A's clean-up, on another connection, finds nothing to release.
 * 3. The acquire is granted, and stands for its whole TTL.
 */
export class Doubts {
  readonly #clock: Clock;
  /** Attempts under way: how many calls of a holder. */
  readonly #running = new Map<string, number>();
  /** Attempts whose answer was lost: until when they may arrive, on the monotonic clock. */
  readonly #lost = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  begin(holder: string): void {
    this.#running.set(holder, (this.#running.get(holder) ?? 0) + 1);
  }

  end(holder: string): void {
    const left = (this.#running.get(holder) ?? 1) - 1;
    if (left === 0) this.#running.delete(holder);
    else this.#running.set(holder, left);
  }

  /** The answer was lost: a statement that still runs there ends within `withinMs`. */
  doubt(holder: string, withinMs: number): void {
    const nowMs = this.#clock.monotonicMs();
    for (const [other, untilMs] of this.#lost) if (untilMs <= nowMs) this.#lost.delete(other);
    this.#lost.set(holder, nowMs + withinMs);
  }

  isOpen(holder: string): boolean {
    const untilMs = this.#lost.get(holder);
    return this.#running.has(holder) || (untilMs ?? 0) > this.#clock.monotonicMs();
  }
}
