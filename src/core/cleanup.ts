/**
 * Attempts that were given up without knowing whether the store granted them.
 *
 * Each is released by its holder id until the store has said for certain that it holds nothing, or
 * until one TTL has passed, after which the store has let go by itself. A later attempt of this
 * process on the same name first asks again, so that it does not wait behind its own orphan.
 */
import type { Answer, Backend, Call, Released } from "./backend.js";
import type { Calls } from "./call.js";
import type { Timer } from "./clock.js";
import { elapsedMs, now } from "./deadline.js";
import type { Moment } from "./deadline.js";
import type { Runtime } from "./runtime.js";
import type { FencingToken } from "./token.js";

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2_000;

interface Orphan {
  readonly name: string;
  readonly holder: string;
  readonly ttlMs: number;
  readonly since: Moment;
  readonly ended: (certain: boolean) => void;
  pauseMs: number;
  timer: Timer | undefined;
  asking: Promise<boolean> | undefined;
}

/** What is known of an attempt that is given up. */
export interface GivenUp {
  readonly name: string;
  readonly holder: string;
  readonly ttlMs: number;
  /** Told once: whether the store said for certain that nothing is left, or the TTL passed. */
  readonly ended?: (certain: boolean) => void;
}

/** Releases what abandoned attempts may have left behind. */
export class Cleanup<T extends FencingToken | undefined> {
  readonly #backend: Backend<T>;
  readonly #runtime: Runtime;
  readonly #calls: Calls;
  readonly #byName = new Map<string, Set<Orphan>>();
  #isClosed = false;

  constructor(backend: Backend<T>, runtime: Runtime, calls: Calls) {
    this.#backend = backend;
    this.#runtime = runtime;
    this.#calls = calls;
  }

  /** Takes over an attempt that was given up. Returns at once. */
  take({ name, holder, ttlMs, ended }: GivenUp): void {
    const orphan: Orphan = {
      name,
      holder,
      ttlMs,
      since: now(this.#runtime.clock),
      ended: ended ?? (() => undefined),
      pauseMs: FIRST_PAUSE_MS,
      timer: undefined,
      asking: undefined,
    };
    const siblings = this.#byName.get(name) ?? new Set();
    this.#byName.set(name, siblings.add(orphan));
    void this.#ask(orphan);
  }

  /** Whether something of an earlier attempt may stand in the store. */
  isPending(name: string): boolean {
    return this.#byName.has(name);
  }

  /** Asks once more about all orphans of a name. */
  async settle(name: string): Promise<void> {
    const orphans = this.#byName.get(name);
    if (orphans === undefined) return;
    await Promise.all([...orphans].map((orphan) => this.#ask(orphan)));
  }

  /** Asks a last time and stops; what is left is ended by its TTL. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#byName.keys()].map((name) => this.settle(name)));
    for (const orphans of this.#byName.values()) {
      for (const orphan of orphans) this.#end(orphan, false);
    }
  }

  async #ask(orphan: Orphan): Promise<boolean> {
    orphan.asking ??= this.#askStore(orphan).finally(() => (orphan.asking = undefined));
    return orphan.asking;
  }

  async #askStore(orphan: Orphan): Promise<boolean> {
    orphan.timer?.cancel();
    const { name, holder } = orphan;
    const timeoutMs = Math.min(this.#calls.timeoutMs, Math.max(FIRST_PAUSE_MS, orphan.ttlMs));
    let answer: Released;
    try {
      const ask = (call: Call): Answer<readonly Released[]> =>
        this.#backend.release([{ name, holder }], call);
      const answers = await this.#calls.run("clean-up", name, ask, timeoutMs);
      answer = answers[0] ?? "unknown";
    } catch {
      // Whatever went wrong, the answer is not certain: asked again below.
      answer = "unknown";
    }
    const certain = answer !== "unknown";
    const expired = elapsedMs(orphan.since, now(this.#runtime.clock)) >= orphan.ttlMs;
    if (certain || expired || this.#isClosed) this.#end(orphan, certain);
    else this.#askLater(orphan);
    return certain;
  }

  #askLater(orphan: Orphan): void {
    if (!this.#isKnown(orphan)) return;
    const pauseMs = orphan.pauseMs * (0.75 + this.#runtime.random.uniform() / 2);
    orphan.pauseMs = Math.min(LONGEST_PAUSE_MS, orphan.pauseMs * 2);
    // The TTL is the backstop: a process that has nothing else to do may end.
    orphan.timer = this.#runtime.timers.after(pauseMs, () => void this.#ask(orphan), {
      ref: false,
    });
  }

  #isKnown(orphan: Orphan): boolean {
    return this.#byName.get(orphan.name)?.has(orphan) === true;
  }

  #end(orphan: Orphan, certain: boolean): void {
    orphan.timer?.cancel();
    const siblings = this.#byName.get(orphan.name);
    if (siblings?.delete(orphan) !== true) return;
    if (siblings.size === 0) this.#byName.delete(orphan.name);
    orphan.ended(certain);
  }
}
