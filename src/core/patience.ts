/** How long one call to `acquire` goes on: its time to wait, its signal, the end of the tenure. */
import { whenAborted } from "./aborting.js";
import type { Answer } from "./backend.js";
import type { Timer } from "./clock.js";
import { isNoAnswer, isPermanent } from "./call.js";
import { elapsedMs, now } from "./deadline.js";
import type { Moment } from "./deadline.js";
import type { Member } from "./members.js";
import type { Runtime } from "./runtime.js";

/** Why a waiter gave up. */
export type GivenUpBecause = "time" | "aborted" | "closed";

/** Thrown inside the core when patience has ended; never reaches the caller. */
export class PatienceOver extends Error {
  readonly because: GivenUpBecause;

  constructor(because: GivenUpBecause) {
    super(because);
    this.because = because;
  }
}

/** The patience of one call. To be disposed when the call ends. */
export class Patience implements Member {
  place = -1;
  /** Sending of the call. */
  readonly startedAt: Moment;
  readonly #runtime: Runtime;
  readonly #unansweredMs: number;
  readonly #abandoned: (undone: Promise<void>) => void;
  readonly #onOver = new Set<(over: PatienceOver) => void>();
  readonly #unlisten: () => void;
  readonly #timer: Timer | undefined;
  #controller: AbortController | undefined;
  #over: PatienceOver | undefined;
  #answeredAt: Moment;
  #failure: unknown;
  #isAsking = false;

  /**
   * @param unansweredMs how long a store that does not answer is put up with
   * @param abandoned told of each request whose late answer has still to be undone
   */
  constructor(
    runtime: Runtime,
    waitMs: number,
    caller: AbortSignal | undefined,
    unansweredMs: number,
    abandoned: (undone: Promise<void>) => void = () => undefined,
  ) {
    this.#runtime = runtime;
    this.#unansweredMs = unansweredMs;
    this.#abandoned = abandoned;
    this.startedAt = now(runtime.clock);
    this.#answeredAt = this.startedAt;
    if (waitMs !== Infinity) this.#timer = runtime.timers.after(waitMs, () => this.end("time"));
    this.#unlisten = whenAborted(caller, () => this.end("aborted"));
  }

  /** Aborted when patience ends. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#over !== undefined) this.#controller.abort(this.#over);
    return this.#controller.signal;
  }

  /** Milliseconds since the call. */
  waitedMs(): number {
    return elapsedMs(this.startedAt, now(this.#runtime.clock));
  }

  /**
   * The outcome of `work`, unless patience ends first. What a request to the store brings later
   * goes to `late`, which undoes it; closing waits for that.
   *
   * @throws PatienceOver when patience ends.
   */
  race<R>(work: Answer<R>, late?: (outcome: PromiseSettledResult<R>) => void): Promise<R> {
    // One promise and no async function: every hand-over of a lease comes through here.
    return new Promise((resolve, reject) => {
      const working = Promise.resolve(work);
      let isSettled = false;
      const settled = (): boolean => {
        if (isSettled) return false;
        isSettled = true;
        this.#onOver.delete(end);
        return true;
      };
      const end = (over: PatienceOver): void => {
        if (!settled()) return;
        reject(over);
        if (late === undefined) return;
        this.#isAsking = true;
        this.#abandoned(Promise.allSettled([working]).then(([outcome]) => late(outcome)));
      };
      working.then(
        (value) => settled() && resolve(value),
        (error: unknown) => settled() && reject(error),
      );
      if (this.#over === undefined) this.#onOver.add(end);
      // After what is there already: an outcome goes before the end of patience.
      else queueMicrotask(() => end(this.#over!));
    });
  }

  /**
   * Waits for `delayMs`, or until the function handed to `listen` is called.
   *
   * @throws PatienceOver when patience ends.
   */
  async sleep(delayMs: number, listen?: (wake: () => void) => void): Promise<void> {
    let timer: Timer | undefined;
    const rest = new Promise<void>((resolve) => {
      timer = this.#runtime.timers.after(delayMs, resolve);
      listen?.(resolve);
    });
    try {
      await this.race(rest);
    } finally {
      timer?.cancel();
    }
  }

  /** Why the store did not answer the last time; undefined when it did. */
  get failure(): unknown {
    return this.#failure;
  }

  /** Whether patience ended while a request was on its way to the store. */
  get isAsking(): boolean {
    return this.#isAsking;
  }

  /** The store has answered. */
  answered(): void {
    this.#failure = undefined;
    this.#answeredAt = now(this.#runtime.clock);
  }

  /**
   * Puts up with a store that did not answer, for a while, and in any case once: one reply that is
   * lost may cost all of that time.
   *
   * @throws the error itself when it is of another kind (the end of patience among them), when
   *   asking again cannot help, or when the store has not answered for too long.
   */
  tolerate(error: unknown): void {
    if (!isNoAnswer(error)) throw error;
    if (isPermanent(error)) throw error;
    const silentMs = elapsedMs(this.#answeredAt, now(this.#runtime.clock));
    if (silentMs >= this.#unansweredMs && this.#failure !== undefined) throw error;
    this.#failure = error;
  }

  dispose(): void {
    this.#timer?.cancel();
    this.#unlisten();
    this.#onOver.clear();
  }

  /** Ends patience, for every `race` and `sleep` under way. */
  end(because: GivenUpBecause): void {
    if (this.#over !== undefined) return;
    this.#over = new PatienceOver(because);
    this.#controller?.abort(this.#over);
    for (const tell of [...this.#onOver]) tell(this.#over);
  }
}
