/**
 * Calls that need the write lock, tried until they get it or their time is over.
 *
 * Waiting inside SQLite (`busy_timeout`) blocks the event loop for as long as another process
 * holds the lock, and starves: with eight processes one had a hundredth of its share. So the lock
 * is asked for without waiting, first once per turn of the event loop, then after jittered pauses.
 *
 * Calls of this process that wait are tried in order of arrival, one at the head at a time.
 */
import type { Answer, Call } from "../../core/backend.js";
import type { Clock, Timers } from "../../core/clock.js";
import { UnavailableError, type TenureError } from "../../core/errors.js";
import type { Random } from "../../core/random.js";

/** Thrown by a try that needs a token when none is left below the durable ceiling. */
export class CeilingReached extends Error {}

/** What a try is measured and paced with. */
export interface Pacing {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly random: Random;
}

/** How a failed try is taken. */
export interface TryAgain {
  isBusy(error: unknown): boolean;
  explain(error: unknown, during: string): TenureError;
  /** Makes room for further tokens. */
  raiseCeiling(): Promise<void>;
}

interface Waiting {
  readonly during: string;
  readonly call: Call;
  readonly dueMs: number;
  /** Tries once; true when it is settled. */
  attempt(): boolean;
  reject(error: unknown): void;
}

/** Tries that follow at once; most locks are held for less than a millisecond. */
const EAGER_TRIES = 6;
const SHORTEST_PAUSE_MS = 0.5;
const LONGEST_PAUSE_MS = 6;
/** Longest stretch of work in one turn of the event loop, milliseconds. */
const TURN_MS = 5;
/** Part of a call's time that may be spent trying: the answer must come before the caller stops. */
const SHARE_OF_CALL = 0.9;

/** The calls of one process that wait for the write lock. */
export class Writes {
  readonly #pacing: Pacing;
  readonly #again: TryAgain;
  readonly #waiting: Waiting[] = [];
  #tries = 0;
  #scheduled = false;

  constructor(pacing: Pacing, again: TryAgain) {
    this.#pacing = pacing;
    this.#again = again;
  }

  /**
   * Runs `attempt` until it neither finds the lock taken nor lacks a token. It must have no effect
   * when it throws.
   *
   * Where nothing is in the way the answer itself is returned, or the error thrown.
   *
   * @throws UnavailableError when the lock was not to be had in the call's time.
   */
  run<R>(during: string, call: Call, attempt: () => R): Answer<R> {
    if (this.#waiting.length > 0) return this.#wait(during, call, attempt);
    try {
      return attempt();
    } catch (error) {
      if (this.#again.isBusy(error)) return this.#wait(during, call, attempt);
      if (error instanceof CeilingReached) {
        return this.#again.raiseCeiling().then(() => this.run(during, call, attempt));
      }
      throw this.#again.explain(error, during);
    }
  }

  /** Fails every call that still waits. */
  close(error: unknown): void {
    for (const waiting of this.#waiting.splice(0)) waiting.reject(error);
  }

  #wait<R>(during: string, call: Call, attempt: () => R): Promise<R> {
    return new Promise<R>((resolve, reject) => {
      this.#waiting.push({
        during,
        call,
        dueMs: this.#pacing.clock.monotonicMs() + call.timeoutMs * SHARE_OF_CALL,
        attempt: () => {
          try {
            resolve(attempt());
          } catch (error) {
            if (this.#again.isBusy(error)) return false;
            if (error instanceof CeilingReached) {
              this.#again.raiseCeiling().then(
                () => resolve(this.run(during, call, attempt)),
                reject,
              );
            } else reject(this.#again.explain(error, during));
          }
          return true;
        },
        reject,
      });
      this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#scheduled || this.#waiting.length === 0) return;
    this.#scheduled = true;
    const run = (): void => {
      this.#scheduled = false;
      this.#turn();
      this.#schedule();
    };
    this.#tries += 1;
    if (this.#tries <= EAGER_TRIES) this.#pacing.timers.soon(run);
    else {
      const spread = LONGEST_PAUSE_MS - SHORTEST_PAUSE_MS;
      const pauseMs = SHORTEST_PAUSE_MS + spread * this.#pacing.random.uniform();
      this.#pacing.timers.after(pauseMs, run);
    }
  }

  #turn(): void {
    const { clock } = this.#pacing;
    const startMs = clock.monotonicMs();
    this.#dropLate(startMs);
    while (this.#waiting.length > 0 && clock.monotonicMs() - startMs < TURN_MS) {
      if (!this.#waiting[0]!.attempt()) return;
      this.#waiting.shift();
      this.#tries = 0;
    }
  }

  #dropLate(nowMs: number): void {
    for (const waiting of [...this.#waiting]) {
      const aborted = waiting.call.signal.aborted;
      if (!aborted && nowMs < waiting.dueMs) continue;
      this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
      waiting.reject(
        aborted
          ? waiting.call.signal.reason
          : new UnavailableError(
              `cannot ${waiting.during}: another process kept the SQLite database locked for ` +
                `${Math.round(waiting.call.timeoutMs * SHARE_OF_CALL)} ms; is one stopped?`,
              { backend: "sqlite" },
            ),
      );
    }
  }
}
