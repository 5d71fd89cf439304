/**
 * Notices of releases by blocking queries: the agent answers once the key has changed.
 *
 * A name that is free and not taken may be held back by its lock delay, whose end changes nothing
 * in the store. So as long as a key shows nobody, its waiter is woken every second.
 *
 * An agent may answer for no reason, and does so at once, again and again, where something between
 * takes the index out of its answers: after a few such answers there is a pause, too.
 */
import type { Call } from "../../core/backend.js";
import type { Runtime } from "../../core/runtime.js";
import type { Client, Entry } from "./client.js";
import type { Keys } from "./keys.js";

/** How long the agent holds a query; it adds up to a sixteenth. */
const WAIT_MS = 50_000;
const SILENT_MS = 60_000;
const LOOK_EVERY_MS = 1_000;
/** Answers in a row that may come at once and show nothing new. */
const MOST_IDLE = 3;

interface Seen {
  readonly entry: Entry | undefined;
  readonly index: bigint;
}

/** The names that waiters of this process listen for. */
export class Watches {
  readonly #client: Client;
  readonly #keys: Keys;
  readonly #runtime: Pick<Runtime, "clock" | "timers">;
  readonly #running = new Set<AbortController>();

  constructor(client: Client, keys: Keys, runtime: Pick<Runtime, "clock" | "timers">) {
    this.#client = client;
    this.#keys = keys;
    this.#runtime = runtime;
  }

  async subscribe(name: string, wake: () => void, call: Call): Promise<AsyncDisposable> {
    const key = this.#keys.lease(name);
    const { signal, timeoutMs } = call;
    const during = `listen for the release of ${JSON.stringify(name)}`;
    const first = await this.#client.watch(key, undefined, { signal, timeoutMs, during });
    const ending = new AbortController();
    this.#running.add(ending);
    void this.#follow(key, first, wake, ending.signal, during);
    return {
      [Symbol.asyncDispose]: async () => {
        this.#running.delete(ending);
        ending.abort();
      },
    };
  }

  close(): void {
    for (const ending of this.#running) ending.abort();
    this.#running.clear();
  }

  /** Never rejects. A notice that is lost here is made up for by the core's own looks. */
  async #follow(
    key: string,
    first: Seen,
    wake: () => void,
    signal: AbortSignal,
    during: string,
  ): Promise<void> {
    const { clock } = this.#runtime;
    let seen = first;
    let idle = 0;
    while (!signal.aborted) {
      if (seen.entry?.session === undefined || idle >= MOST_IDLE) await this.#pause(signal);
      const since = seen.entry?.session === undefined ? undefined : seen.index;
      try {
        const askedMs = clock.monotonicMs();
        const next = await this.#look(key, since, signal, during);
        const isFree = next.entry?.session === undefined;
        const isNew = next.entry?.index !== seen.entry?.index;
        // One that the agent has held shows as little, and is what a quiet name looks like.
        const wasHeld = clock.monotonicMs() - askedMs >= LOOK_EVERY_MS;
        idle = isNew || wasHeld ? 0 : idle + 1;
        if (!signal.aborted && (isFree || isNew)) wake();
        seen = next;
      } catch {
        // Whatever is wrong with the agent, the waiter's own tries tell it better.
        await this.#pause(signal);
      }
    }
  }

  async #look(
    key: string,
    since: bigint | undefined,
    signal: AbortSignal,
    during: string,
  ): Promise<Seen> {
    const waiting = since === undefined ? undefined : { index: since, waitMs: WAIT_MS };
    const bounds = { signal, timeoutMs: SILENT_MS, during, lane: "watches" } as const;
    const { entry, index } = await this.#client.watch(key, waiting, bounds);
    // An index that went back belongs to a store that was restored: the next look starts anew. And
    // with 0 the agent would not wait at all.
    const isBack = since !== undefined && index < since;
    return { entry, index: isBack || index < 1n ? 1n : index };
  }

  #pause(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal.aborted) {
        resolve();
        return;
      }
      const end = (): void => {
        timer.cancel();
        signal.removeEventListener("abort", end);
        resolve();
      };
      const timer = this.#runtime.timers.after(LOOK_EVERY_MS, end);
      signal.addEventListener("abort", end);
    });
  }
}
