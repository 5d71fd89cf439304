/**
 * A simulated world: virtual time, seeded randomness, and a history of what happened.
 *
 * The world is a list of things that will happen. It takes the next one, moves time to it, runs it,
 * lets every promise that can settle do so, and takes the next. Nothing else moves time, so the
 * same seed gives the same run on every machine and every version of Node.
 */
import type { Timer } from "../core/clock.js";
import { Draws } from "./draws.js";
import { History } from "./history.js";
import { Schedule } from "./schedule.js";
import { leaveTurn, setTripwires } from "./tripwires.js";
import { turn } from "./turn.js";

/** More events than this in one run are a loop that time does not move. */
const MOST_EVENTS = 5_000_000;

/** A fault as it was meant, whether it was left out or not. */
export interface PlannedFault {
  readonly text: string;
  readonly atMs: number;
}

/** Virtual time and what happens in it. */
export class World {
  readonly seed: number;
  readonly draws: Draws;
  readonly history: History;
  readonly #schedule = new Schedule();
  #nowMs = 0;
  #events = 0;
  #failure: { readonly error: unknown } | undefined;
  /** What was done to the run, in order: faults by their number, left out ones among them. */
  readonly plan: PlannedFault[] = [];
  readonly #leaveOut: ReadonlySet<number>;

  constructor(seed: number, leaveOut: ReadonlySet<number> = new Set()) {
    this.seed = seed;
    this.#leaveOut = leaveOut;
    this.draws = new Draws(seed);
    this.history = new History(() => this.#nowMs);
  }

  /** Milliseconds since the world began, on a clock that nobody in it can see. */
  get nowMs(): number {
    return this.#nowMs;
  }

  /** How many events have happened. */
  get events(): number {
    return this.#events;
  }

  /** Runs `run` at a time that is not past. */
  at(ms: number, run: () => void): Timer {
    const entry = this.#schedule.add(Math.max(ms, this.#nowMs), run);
    return { cancel: () => (entry.run = undefined) };
  }

  /** Runs `run` after some time. */
  after(delayMs: number, run: () => void): Timer {
    return this.at(this.#nowMs + delayMs, run);
  }

  /** Resolves after some time of the world: for scenarios, not for the processes in them. */
  pass(ms: number): Promise<void> {
    return new Promise((resolve) => void this.after(ms, resolve));
  }

  /** Counts a fault, and says whether it strikes: one that is left out of the run does not. */
  strikes(text: string): boolean {
    const nth = this.plan.push({ text, atMs: this.#nowMs }) - 1;
    return !this.#leaveOut.has(nth);
  }

  /** Ends the run with an error: something that no fault explains. */
  fail(error: unknown): void {
    this.#failure ??= { error };
  }

  /**
   * Runs until a time, or until nothing is left to happen. Whoever asks for real time or randomness
   * meanwhile ends the run.
   *
   * @throws What `fail` was told, and Error when events go on without time moving.
   */
  async run(untilMs: number): Promise<void> {
    await this.#run(untilMs, () => false);
    this.#nowMs = Math.max(this.#nowMs, untilMs);
  }

  /**
   * Runs until a promise settles.
   *
   * @throws Error when it has not settled within `limitMs` of the world's time.
   */
  async until<R>(promise: Promise<R>, limitMs: number): Promise<R> {
    let settled = false;
    const note = (): void => void (settled = true);
    promise.then(note, note);
    await this.#run(this.#nowMs + limitMs, () => settled);
    if (!settled) throw new Error(`nothing settled it within ${limitMs} ms of simulated time`);
    return promise;
  }

  async #run(untilMs: number, isOver: () => boolean): Promise<void> {
    const tripped = (error: unknown): void => this.fail(error);
    const removeTripwires = setTripwires();
    try {
      await turn(tripped);
      for (;;) {
        if (this.#failure !== undefined) throw this.#failure.error;
        const next = this.#schedule.first();
        if (isOver() || next === undefined || next.atMs > untilMs) break;
        this.#schedule.take();
        this.#nowMs = next.atMs;
        if (++this.#events > MOST_EVENTS) {
          throw new Error(`${MOST_EVENTS} events by ${this.#nowMs} ms: this run does not end`);
        }
        next.run?.();
        await turn(tripped);
      }
    } finally {
      // Who awaits the run goes on within its last turn, and is no part of the world.
      leaveTurn();
      removeTripwires();
    }
  }
}
