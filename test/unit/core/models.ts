/** Stores with other ways of waiting than memory's queue: small models, for the core alone. */
import type { AcquireRequest, Backend, Grant, Held, Renewed } from "../../../src/core/backend.js";
import { memoryBackend } from "../../../src/backends/memory/index.js";
import type { MemoryStore } from "../../../src/backends/memory/store.js";
import type { FencingToken } from "../../../src/core/token.js";
import { toToken } from "../../../src/core/token.js";
import type { Simulation } from "../../../src/testing/simulated-runtime.js";

/** Memory without its queue: contenders ask again. */
export function polling(sim: Simulation, store: MemoryStore): Backend {
  const inner = memoryBackend({ runtime: sim.runtime, store });
  return {
    ...inner,
    manifest: { ...inner.manifest, waiting: "poll", fair: false },
    waiting: { kind: "poll" },
  };
}

/** Who listens for which name. */
export type Listeners = Map<string, Set<() => void>>;

/** Memory that tells listeners of a release, unless `drop` says that the notice is lost. */
export function notifying(
  sim: Simulation,
  store: MemoryStore,
  listeners: Listeners,
  drop: () => boolean = () => false,
): Backend {
  const inner = polling(sim, store);
  return {
    ...inner,
    manifest: { ...inner.manifest, waiting: "notify" },
    release: async (requests, call) => {
      const answers = await inner.release(requests, call);
      for (const { name } of requests) {
        if (!drop()) for (const wake of listeners.get(name) ?? []) wake();
      }
      return answers;
    },
    waiting: {
      kind: "notify",
      subscribe: async (name, wake) => {
        const woken = listeners.get(name) ?? new Set();
        listeners.set(name, woken.add(wake));
        return { [Symbol.asyncDispose]: async () => void woken.delete(wake) };
      },
    },
  };
}

interface SessionRecord {
  readonly holder: string;
  readonly session: string;
  readonly token: FencingToken;
}

/** A store whose records live as long as their session; shared by several clients. */
export class SessionStore {
  readonly sessions: Map<string, { ttlMs: number; untilMs: number }> = new Map();
  readonly records: Map<string, SessionRecord> = new Map();
  readonly #sim: Simulation;
  #token = 0n;

  constructor(sim: Simulation) {
    this.#sim = sim;
  }

  backend(): Backend {
    const acquire: Backend["acquire"] = async ({ name, holder, session }) => {
      this.#sweep();
      if (session === undefined || !this.sessions.has(session)) throw new Error("no such session");
      const found = this.records.get(name);
      // As Consul does: the same session may take its own lock again.
      if (found !== undefined && found.session !== session) return { held: this.#held(found) };
      const token = found?.holder === holder ? found.token : toToken(++this.#token);
      this.records.set(name, { holder, session, token });
      const { ttlMs } = this.sessions.get(session)!;
      return { grant: { name, holder, token, ttlMs, session } };
    };
    return {
      manifest: {
        backend: "session-model",
        tokens: "consensus",
        expiryClock: "session",
        deadline: "bound",
        waiting: "poll",
        fair: false,
        heldCheck: false,
        minTtlMs: 100,
        maxTtlMs: 86_400_000,
        ttlScope: "session",
        renewBatch: 100,
      },
      storeId: "session-model",
      acquire,
      renew: async (grants) => grants.map((grant) => this.#renew(grant)),
      release: async (requests) =>
        requests.map(({ name, holder }) => {
          this.#sweep();
          if (this.records.get(name)?.holder !== holder) return "not-held";
          this.records.delete(name);
          return "released";
        }),
      break: async (name, token) =>
        this.records.get(name)?.token === token && this.records.delete(name),
      inspect: async (name) => {
        this.#sweep();
        const found = this.records.get(name);
        return found === undefined ? null : this.#held(found);
      },
      list: async function* () {},
      sessions: {
        open: async (ttlMs) => {
          const id = this.#sim.runtime.random.id();
          this.sessions.set(id, { ttlMs, untilMs: this.#nowMs() + ttlMs });
          return { id, ttlMs };
        },
        keepAlive: async (id) => {
          this.#sweep();
          const session = this.sessions.get(id);
          if (session === undefined) return "gone";
          session.untilMs = this.#nowMs() + session.ttlMs;
          return "alive";
        },
        close: async (id) => {
          this.sessions.delete(id);
          this.#sweep();
        },
      },
      waiting: { kind: "poll" },
      close: async () => undefined,
    };
  }

  #renew(grant: Grant): Renewed {
    this.#sweep();
    const found = this.records.get(grant.name);
    if (found === undefined) return { lost: "absent" };
    return found.holder === grant.holder ? "renewed" : { lost: this.#held(found) };
  }

  #held({ holder, token }: SessionRecord): Held {
    return { holder, token, why: "held" };
  }

  #nowMs(): number {
    return this.#sim.runtime.clock.monotonicMs();
  }

  #sweep(): void {
    for (const [id, { untilMs }] of this.sessions) {
      if (untilMs <= this.#nowMs()) this.sessions.delete(id);
    }
    for (const [name, { session }] of this.records) {
      if (!this.sessions.has(session)) this.records.delete(name);
    }
  }
}

/** The same store with places in line; what a touch says to its waiters takes `travelMs`. */
export function queueing(
  sim: Simulation,
  store: SessionStore,
  travelMs: number,
  touchEveryMs = 1_000,
): Backend {
  const inner = store.backend();
  const asked = new Map<string, AcquireRequest>();
  return {
    ...inner,
    manifest: { ...inner.manifest, waiting: "queue", fair: true },
    waiting: {
      kind: "queue",
      touchEveryMs,
      enqueue: async (request) => {
        const { name, holder } = request;
        asked.set(holder, request);
        const turn = (signal: AbortSignal): Promise<never> =>
          new Promise((_, reject) => {
            signal.addEventListener("abort", () => reject(signal.reason));
          });
        return { name, holder, turn, leave: async () => void asked.delete(holder) };
      },
      touch: async (tickets, call) => {
        const answers = await Promise.all(
          tickets.map(async ({ holder }) => inner.acquire(asked.get(holder)!, call)),
        );
        await new Promise<void>((arrive) => sim.runtime.timers.after(travelMs, arrive));
        return answers.map((answer) => ("grant" in answer ? answer.grant : "waiting"));
      },
    },
  };
}

/** A store that compares no clocks: records carry a version, contenders watch it. */
export class ObservedStore {
  readonly records: Map<
    string,
    { holder: string; token: FencingToken; ttlMs: number; version: number; free: boolean }
  > = new Map();

  backend(): Backend {
    return {
      manifest: {
        backend: "observed-model",
        tokens: "durable",
        expiryClock: "observed",
        deadline: "bound",
        waiting: "poll",
        fair: false,
        heldCheck: false,
        minTtlMs: 100,
        maxTtlMs: 86_400_000,
        ttlScope: "lease",
        renewBatch: 25,
      },
      storeId: "observed-model",
      acquire: async ({ name, holder, ttlMs, takeOver }) => {
        const found = this.records.get(name);
        const isRipe = takeOver !== undefined && found?.version === Number(takeOver);
        if (found !== undefined && !found.free && found.holder !== holder && !isRipe) {
          return { held: this.#held(found) };
        }
        const token =
          found?.holder === holder && !found.free
            ? found.token
            : toToken((found?.token ?? 0n) + 1n);
        const version = (found?.version ?? 0) + 1;
        this.records.set(name, { holder, token, ttlMs, version, free: false });
        return { grant: { name, holder, token, ttlMs } };
      },
      renew: async (grants) =>
        grants.map(({ name, holder }) => {
          const found = this.records.get(name);
          if (found === undefined || found.free) return { lost: "absent" };
          if (found.holder !== holder) return { lost: this.#held(found) };
          found.version++;
          return "renewed";
        }),
      release: async (requests) =>
        requests.map(({ name, holder }) => {
          const found = this.records.get(name);
          if (found === undefined || found.free || found.holder !== holder) return "not-held";
          found.free = true;
          found.version++;
          return "released";
        }),
      break: async () => false,
      inspect: async (name) => {
        const found = this.records.get(name);
        return found === undefined || found.free ? null : this.#held(found);
      },
      list: async function* () {},
      waiting: { kind: "poll" },
      close: async () => undefined,
    };
  }

  #held(found: { holder: string; token: FencingToken; ttlMs: number; version: number }): Held {
    const { holder, token, ttlMs, version } = found;
    return { holder, token, ttlMs, version: String(version), why: "held" };
  }
}
