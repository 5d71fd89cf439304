/**
 * Waiting where the store keeps no queue: contenders of one process queue locally, and the first of
 * them asks the store, when it is told that the name may be free, when the present lease must have
 * ended, and after a growing pause in any case, since notices get lost.
 */
import type { Attempts, Contender } from "./attempt.js";
import type { Backend, Held } from "./backend.js";
import type { Calls } from "./call.js";
import type { HeldLease } from "./lease.js";
import type { Observed } from "./observed.js";
import type { Patience } from "./patience.js";
import type { Runtime } from "./runtime.js";
import type { FencingToken } from "./token.js";

const FIRST_PAUSE_MS = 50;
/** Longest pause of a waiter between two tries, milliseconds. */
export const LONGEST_PAUSE_MS = 1_000;
/** How long a waiter relies on notices alone. */
const FALLBACK_MS = 5_000;

interface Line {
  /** Contenders behind the first, in order of arrival. */
  readonly behind: (() => void)[];
  /** Wakes the first while it pauses. */
  wake: (() => void) | undefined;
}

/** Waits on poll and notify backends. */
export class Waiting<T extends FencingToken | undefined> {
  readonly #backend: Backend<T>;
  readonly #runtime: Runtime;
  readonly #attempts: Attempts<T>;
  readonly #observed: Observed;
  readonly #calls: Calls;
  readonly #isHeldHere: (name: string) => boolean;
  readonly #lines = new Map<string, Line>();

  constructor(
    backend: Backend<T>,
    runtime: Runtime,
    attempts: Attempts<T>,
    observed: Observed,
    calls: Calls,
    isHeldHere: (name: string) => boolean,
  ) {
    this.#backend = backend;
    this.#runtime = runtime;
    this.#attempts = attempts;
    this.#observed = observed;
    this.#calls = calls;
    this.#isHeldHere = isHeldHere;
  }

  /**
   * Whether the store must not be asked: one session asking twice for one name would be granted
   * twice.
   */
  isTaken(name: string): boolean {
    return (
      this.#backend.sessions !== undefined && (this.#lines.has(name) || this.#isHeldHere(name))
    );
  }

  /** A lease of this process has ended, or a contender has left: the first may try at once. */
  freed(name: string): void {
    this.#lines.get(name)?.wake?.();
  }

  /**
   * Waits for a lease. `seen` is told whatever the store says of the holder.
   *
   * @throws PatienceOver, or what the store threw.
   */
  async wait(
    contender: Contender,
    patience: Patience,
    seen: (held: Held) => void,
  ): Promise<HeldLease<T>> {
    const line = await this.#enter(contender.name, patience);
    try {
      return await this.#first(contender, patience, line, seen);
    } finally {
      line.wake = undefined;
      this.#leave(contender.name, line);
    }
  }

  async #enter(name: string, patience: Patience): Promise<Line> {
    const line = this.#lines.get(name);
    if (line === undefined) {
      const fresh: Line = { behind: [], wake: undefined };
      this.#lines.set(name, fresh);
      return fresh;
    }
    let enter: (() => void) | undefined;
    const turn = new Promise<void>((resolve) => {
      enter = resolve;
      line.behind.push(resolve);
    });
    try {
      await patience.race(turn);
    } catch (error) {
      const place = line.behind.indexOf(enter!);
      // Not in line any more: its turn came in the same moment, and goes on to the next.
      if (place === -1) this.#leave(name, line);
      else line.behind.splice(place, 1);
      throw error;
    }
    return line;
  }

  #leave(name: string, line: Line): void {
    const next = line.behind.shift();
    if (next === undefined) this.#lines.delete(name);
    else next();
  }

  async #first(
    contender: Contender,
    patience: Patience,
    line: Line,
    seen: (held: Held) => void,
  ): Promise<HeldLease<T>> {
    // The first try costs no subscription; what is released meanwhile, the next try finds.
    if (this.#backend.waiting.kind === "notify" && !this.#isTakenHere(contender.name)) {
      const answer = await this.#try(contender, patience, undefined);
      if (answer !== undefined && "lease" in answer) return answer.lease;
      if (answer !== undefined) seen(answer.held);
    }
    // A notice that comes while the store is being asked must not be lost.
    let noticed = false;
    const subscription = await this.#subscribe(
      contender.name,
      () => {
        noticed = true;
        line.wake?.();
      },
      patience,
    );
    try {
      return await this.#loop(contender, patience, line, seen, subscription !== undefined, () => {
        const was = noticed;
        noticed = false;
        return was;
      });
    } finally {
      await subscription?.[Symbol.asyncDispose]();
    }
  }

  async #loop(
    contender: Contender,
    patience: Patience,
    line: Line,
    seen: (held: Held) => void,
    isTold: boolean,
    wasNoticed: () => boolean,
  ): Promise<HeldLease<T>> {
    const pause = new Pause(this.#runtime);
    let takeOver: string | undefined;
    for (;;) {
      wasNoticed();
      let held: Held | undefined;
      let isAnswered = true;
      if (!this.#isTakenHere(contender.name)) {
        const answer = await this.#try(contender, patience, takeOver);
        if (answer !== undefined && "lease" in answer) return answer.lease;
        isAnswered = answer !== undefined;
        held = answer?.held;
        if (held !== undefined) seen(held);
      }
      takeOver = held === undefined ? undefined : this.#observed.ripe(contender.name, held);
      if (takeOver !== undefined || wasNoticed()) continue;
      const restMs = this.#restMs(contender.name, held, pause, isTold && isAnswered);
      await patience.sleep(restMs, (wake) => (line.wake = wake));
      line.wake = undefined;
    }
  }

  #isTakenHere(name: string): boolean {
    return this.#backend.sessions !== undefined && this.#isHeldHere(name);
  }

  /** One try; undefined when the store did not answer and that is put up with. */
  async #try(
    contender: Contender,
    patience: Patience,
    takeOver: string | undefined,
  ): Promise<{ readonly lease: HeldLease<T> } | { readonly held: Held } | undefined> {
    try {
      const trying = this.#attempts.once(contender, takeOver);
      const answer = await patience.race(trying, (late) => this.#attempts.late(contender, late));
      patience.answered();
      return answer;
    } catch (error) {
      patience.tolerate(error);
      return undefined;
    }
  }

  /** How long to rest before asking again. Without an answer it may be free: nobody will tell. */
  #restMs(name: string, held: Held | undefined, pause: Pause, isTold: boolean): number {
    const limits = [isTold ? FALLBACK_MS : pause.nextMs()];
    const jitterMs = 1 + this.#runtime.random.uniform() * 10;
    if (held?.leftMs !== undefined) limits.push(held.leftMs + jitterMs);
    const ripensMs = held === undefined ? undefined : this.#observed.note(name, held);
    if (ripensMs !== undefined) limits.push(ripensMs + jitterMs);
    return Math.min(...limits);
  }

  /** A live subscription; undefined where there is none, and the waiter polls. */
  async #subscribe(
    name: string,
    wake: () => void,
    patience: Patience,
  ): Promise<AsyncDisposable | undefined> {
    const { waiting } = this.#backend;
    if (waiting.kind !== "notify") return undefined;
    const subscribing = this.#calls.run("subscribe", name, (call) =>
      waiting.subscribe(name, wake, call),
    );
    try {
      return await patience.race(subscribing, (late) => {
        if (late.status === "fulfilled") void late.value[Symbol.asyncDispose]();
      });
    } catch (error) {
      patience.tolerate(error);
      return undefined;
    }
  }
}

/** A pause that grows, with jitter so that contenders drift apart. */
export class Pause {
  readonly #runtime: Runtime;
  readonly #longestMs: number;
  #ms = FIRST_PAUSE_MS;

  constructor(runtime: Runtime, longestMs: number = LONGEST_PAUSE_MS) {
    this.#runtime = runtime;
    this.#longestMs = longestMs;
  }

  nextMs(): number {
    const ms = this.#ms * (0.5 + this.#runtime.random.uniform() / 2);
    this.#ms = Math.min(this.#longestMs, this.#ms * 1.5);
    return ms;
  }
}
