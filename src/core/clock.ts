/**
 * Time as the core sees it. Interfaces only: `src/platform` implements them on the real machine, a
 * simulated world implements them on virtual time, and the core cannot tell the difference.
 */

/** The three clocks of one process. All in milliseconds, fractions allowed. */
export interface Clock {
  /** Never goes back; on Linux it stands still while the machine is suspended. */
  monotonicMs(): number;
  /**
   * Time since boot including suspend, or undefined where the platform has none. May be coarse
   * (10 ms on Linux). It must never go back.
   */
  uptimeMs(): number | undefined;
  /** Wall clock: may jump either way. Never compared between machines. */
  wallMs(): number;
}

/** A timer that was set; cancelling it twice, or after it fired, does nothing. */
export interface Timer {
  cancel(): void;
}

/** Timers on the monotonic clock. */
export interface Timers {
  /**
   * Runs `run` once, not before `delayMs` have passed, whatever the size of `delayMs` (an
   * implementation splits what its platform cannot hold). `ref: false` lets the process end first.
   */
  after(delayMs: number, run: () => void, options?: { readonly ref?: boolean }): Timer;
  /** Runs `run` after other pending work of the event loop has had its turn. */
  soon(run: () => void): Timer;
}
