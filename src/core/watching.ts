/**
 * Looking on at a name for as long as somebody wants to know who holds it.
 *
 * All observers of a name share one watch, which asks the store again after a pause that grows to
 * half a second, and at once when the store tells of a release. After each change it begins with
 * short pauses: where a lease has just ended the next one is near. Notices are a shortcut and
 * nothing rests on them: grants and expiries have none, and notices get lost.
 *
 * A slow observer is told the newest state alone, so that nothing piles up for it.
 */
import { whenAborted } from "./aborting.js";
import type { Backend, Call, Held } from "./backend.js";
import { isNoAnswer } from "./call.js";
import type { Calls } from "./call.js";
import type { Timer } from "./clock.js";
import { UnavailableError } from "./errors.js";
import { inspection } from "./inspection.js";
import type { Inspection } from "./inspection.js";
import type { Runtime } from "./runtime.js";
import type { FencingToken } from "./token.js";
import { Pause } from "./waiting.js";

/** Longest pause between two looks, milliseconds: an observer is to know within a second. */
const LONGEST_PAUSE_MS = 500;
/** How long the first look waits for its answer; each look without one doubles it. */
const FIRST_TIMEOUT_MS = 1_000;

/** What watches work with. */
export interface WatchParts {
  readonly backend: Backend<FencingToken | undefined>;
  readonly runtime: Runtime;
  readonly calls: Calls;
}

/** All watches of one tenure. */
export class Watches {
  readonly #parts: WatchParts;
  readonly #byName = new Map<string, Watch>();
  #over: { readonly error: unknown } | undefined;

  constructor(parts: WatchParts) {
    this.#parts = parts;
  }

  /** The present state first, then each change. Ends when the signal aborts. */
  async *watch(
    name: string,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Inspection | null, void, undefined> {
    if (this.#over !== undefined) throw this.#over.error;
    yield* (this.#byName.get(name) ?? this.#begin(name)).observe(signal);
  }

  /** Ends all watches; their observers get the error. Waits for the end of all subscriptions. */
  async stop(error: unknown): Promise<void> {
    this.#over = { error };
    await Promise.all([...this.#byName.values()].map((watch) => watch.fail(error)));
  }

  #begin(name: string): Watch {
    const watch = new Watch(name, this.#parts, () => {
      if (this.#byName.get(name) === watch) this.#byName.delete(name);
    });
    this.#byName.set(name, watch);
    return watch;
  }
}

/** The watch of one name: looks while it has observers. */
class Watch {
  readonly #name: string;
  readonly #parts: WatchParts;
  readonly #forget: () => void;
  /** What wakes each observer. */
  readonly #observers = new Set<() => void>();
  #state: Inspection | null = null;
  /** Observers that have come so far, and how many of them had come before the last look began. */
  #came = 0;
  #served = 0;
  #failure: { readonly error: unknown } | undefined;
  #isLooking = false;
  #looksAgain = false;
  #timer: Timer | undefined;
  #pause: Pause;
  /** Looks without an answer since the last answer. */
  #silent = 0;
  #subscription: Promise<AsyncDisposable | undefined> | undefined;

  constructor(name: string, parts: WatchParts, forget: () => void) {
    this.#name = name;
    this.#parts = parts;
    this.#forget = forget;
    this.#pause = this.#freshPause();
  }

  async *observe(
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Inspection | null, void, undefined> {
    let wake = (): void => undefined;
    const ring = (): void => wake();
    const unlisten = whenAborted(signal, ring);
    const place = ++this.#came;
    this.#observers.add(ring);
    this.#subscription ??= this.#subscribe();
    this.#lookNow();
    let told: Inspection | null | undefined;
    try {
      while (signal?.aborted !== true) {
        if (this.#failure !== undefined) throw this.#failure.error;
        if (this.#served >= place && (told === undefined || isChange(told, this.#state))) {
          told = this.#state;
          yield told;
        } else {
          await new Promise<void>((resolve) => (wake = resolve));
        }
      }
    } finally {
      unlisten();
      this.#observers.delete(ring);
      if (this.#observers.size === 0) void this.#end();
    }
  }

  /** Ends it; resolves when it has unsubscribed. */
  fail(error: unknown): Promise<void> {
    this.#failure = { error };
    this.#tell();
    return this.#end();
  }

  #tell(): void {
    for (const ring of [...this.#observers]) ring();
  }

  /** Never rejects: a subscription that cannot be ended in order ends with its connection. */
  async #end(): Promise<void> {
    this.#forget();
    this.#timer?.cancel();
    this.#timer = undefined;
    const subscribing = this.#subscription;
    this.#subscription = undefined;
    try {
      await (await subscribing)?.[Symbol.asyncDispose]();
    } catch (error) {
      this.#tellSilent(error);
    }
  }

  get #isOver(): boolean {
    return this.#failure !== undefined || this.#observers.size === 0;
  }

  /** Looks at once, or once more when a look is under way: that one may have read too early. */
  #lookNow(): void {
    if (this.#isOver) return;
    this.#timer?.cancel();
    this.#timer = undefined;
    if (this.#isLooking) this.#looksAgain = true;
    else void this.#look();
  }

  async #look(): Promise<void> {
    this.#isLooking = true;
    this.#looksAgain = false;
    const came = this.#came;
    try {
      const held = await this.#ask();
      this.#silent = 0;
      this.#served = came;
      const state = held === null ? null : inspection(this.#name, held);
      if (isChange(this.#state, state)) this.#pause = this.#freshPause();
      this.#state = state;
      this.#tell();
    } catch (error) {
      this.#tolerate(error);
    }
    this.#isLooking = false;
    if (this.#isOver) return;
    if (this.#looksAgain) void this.#look();
    else {
      const { timers } = this.#parts.runtime;
      this.#timer = timers.after(this.#pause.nextMs(), () => this.#lookNow());
    }
  }

  async #ask(): Promise<Held | null> {
    const { backend, calls } = this.#parts;
    // An answer that got lost must not make the observers blind for a whole call time-out.
    const timeoutMs = Math.min(calls.timeoutMs, FIRST_TIMEOUT_MS * 2 ** this.#silent);
    const ask = (call: Call): Promise<Held | null> => backend.inspect(this.#name, call);
    return calls.run("inspect", this.#name, ask, timeoutMs);
  }

  /** A store that does not answer is asked again for as long as somebody observes. */
  #tolerate(error: unknown): void {
    if (this.#failure !== undefined) return;
    if (!isNoAnswer(error) || (error instanceof UnavailableError && !error.retryable)) {
      void this.fail(error);
    } else if (this.#silent++ === 0) {
      this.#tellSilent(error);
    }
  }

  #tellSilent(error: unknown): void {
    const { backend, runtime } = this.#parts;
    const about = { name: this.#name, backend: backend.manifest.backend };
    runtime.events.publish({ type: "unavailable", ...about, during: "watch", error });
  }

  /** A live subscription, or undefined where there is none: pauses alone are enough. */
  async #subscribe(): Promise<AsyncDisposable | undefined> {
    const { backend, calls } = this.#parts;
    const { waiting } = backend;
    if (waiting.kind !== "notify") return undefined;
    const wake = (): void => this.#lookNow();
    const ask = (call: Call): Promise<AsyncDisposable> => waiting.subscribe(this.#name, wake, call);
    try {
      return await calls.run("subscribe", this.#name, ask);
    } catch (error) {
      this.#tellSilent(error);
      return undefined;
    }
  }

  #freshPause(): Pause {
    return new Pause(this.#parts.runtime, LONGEST_PAUSE_MS);
  }
}

/** Whether it is another lease, or none; renewals are no change. */
function isChange(from: Inspection | null, to: Inspection | null): boolean {
  return from?.token !== to?.token || from?.holder !== to?.holder;
}
