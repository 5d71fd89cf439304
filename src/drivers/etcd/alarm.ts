import type { Clock, Timer, Timers } from "../../core/clock.js";

/** Something that has to look after itself at a time, on the monotonic clock. */
export interface Due {
  readonly dueMs: number;
  look(nowMs: number): void;
}

/**
 * One timer for all questions under way. Most are answered long before they are due: it is left to
 * run out, and not set anew for each.
 */
export class Alarm {
  readonly #clock: Clock;
  readonly #timers: Timers;
  readonly #all = new Set<Due>();
  #timer: Timer | undefined;
  #atMs = Infinity;

  constructor(clock: Clock, timers: Timers) {
    this.#clock = clock;
    this.#timers = timers;
  }

  /** To be called again when it is due earlier than before. */
  add(one: Due): void {
    this.#all.add(one);
    this.#set(one.dueMs);
  }

  delete(one: Due): void {
    this.#all.delete(one);
  }

  close(): void {
    this.#all.clear();
    this.#timer?.cancel();
  }

  #set(atMs: number): void {
    if (this.#timer !== undefined) {
      if (this.#atMs <= atMs) return;
      this.#timer.cancel();
    }
    this.#atMs = atMs;
    const delayMs = Math.max(0, atMs - this.#clock.monotonicMs());
    // What a question waits for keeps the process alive, not this.
    this.#timer = this.#timers.after(delayMs, () => this.#ring(), { ref: false });
  }

  #ring(): void {
    this.#timer = undefined;
    const nowMs = this.#clock.monotonicMs();
    for (const one of [...this.#all]) if (one.dueMs <= nowMs) one.look(nowMs);
    const next = Math.min(...[...this.#all].map(({ dueMs }) => dueMs));
    if (next !== Infinity) this.#set(next);
  }
}
