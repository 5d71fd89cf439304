/** Right backends of the kinds that memory is not, made of memory. */
import type { Grant, Held, Sessions } from "../../src/core/backend.js";
import type { Runtime } from "../../src/core/runtime.js";
import { toToken, type FencingToken } from "../../src/core/token.js";
import type { AnyBackend } from "../../src/testing/subject.js";

type AnyGrant = Grant<FencingToken | undefined>;

const call = { signal: new AbortController().signal, timeoutMs: 1_000 };

/** State that all clients of a store share. */
function perStore<S>(make: () => S): (backend: { readonly storeId: string }) => S {
  const states = new Map<string, S>();
  return ({ storeId }) => {
    const state = states.get(storeId) ?? make();
    states.set(storeId, state);
    return state;
  };
}

/** No queue: waiters ask again. */
export function pollingOver(backend: AnyBackend): AnyBackend {
  const manifest = { ...backend.manifest, waiting: "poll" as const, fair: false };
  return { ...backend, manifest, waiting: { kind: "poll" } };
}

const listenersOf = perStore(() => new Set<{ readonly name: string; readonly wake: () => void }>());

/** No queue: waiters are told of releases. */
export function noticesOver(backend: AnyBackend): AnyBackend {
  const listeners = listenersOf(backend);
  return {
    ...backend,
    manifest: { ...backend.manifest, waiting: "notify", fair: false },
    release: async (requests, its) => {
      const outcomes = await backend.release(requests, its);
      for (const { name } of requests) {
        for (const listener of listeners) if (listener.name === name) listener.wake();
      }
      return outcomes;
    },
    waiting: {
      kind: "notify",
      subscribe: async (name, wake) => {
        const listener = { name, wake };
        listeners.add(listener);
        return { [Symbol.asyncDispose]: async () => void listeners.delete(listener) };
      },
    },
  };
}

/** No tokens: a lock for efficiency. */
export function tokenlessOver(backend: AnyBackend): AnyBackend {
  const polling = pollingOver(backend);
  const bare = (held: Held): Held => {
    const { token: _, ...rest } = held;
    return rest;
  };
  const known = async ({ name, holder }: AnyGrant): Promise<FencingToken> => {
    const held = await backend.inspect(name, call);
    return toToken(held?.holder === holder ? held.token! : 1n);
  };
  const { proof: _, ...rest } = polling;
  return {
    ...rest,
    manifest: { ...polling.manifest, tokens: "none", heldCheck: false },
    acquire: async (request, its) => {
      const answer = await backend.acquire(request, its);
      if ("held" in answer) return { held: bare(answer.held) };
      return { grant: { ...answer.grant, token: undefined } };
    },
    renew: async (grants, its) => {
      const known_ = grants.map(async (grant) => ({ ...grant, token: await known(grant) }));
      return backend.renew(await Promise.all(known_), its);
    },
    inspect: async (name, its) => {
      const held = await backend.inspect(name, its);
      return held && bare(held);
    },
    async *list(prefix, its) {
      for await (const held of backend.list(prefix, its)) yield { name: held.name, ...bare(held) };
    },
  };
}

const versionsOf = perStore(() => new Map<string, { version: number; ttlMs: number }>());

/** Records never expire by themselves: contenders watch their version. */
export function observedOver(backend: AnyBackend): AnyBackend {
  const versions = versionsOf(backend);
  const polling = pollingOver(backend);
  const { proof: _, ...rest } = polling;
  const { maxTtlMs } = backend.manifest;

  function seen(name: string, held: Held): Held {
    const { leftMs: _left, ...facts } = held;
    const { version, ttlMs } = versions.get(name) ?? { version: 0, ttlMs: 0 };
    return { ...facts, version: String(version), ttlMs };
  }

  function move(name: string, ttlMs: number): void {
    versions.set(name, { version: (versions.get(name)?.version ?? 0) + 1, ttlMs });
  }

  return {
    ...rest,
    manifest: { ...polling.manifest, expiryClock: "observed", heldCheck: false },
    acquire: async (request, its) => {
      const { name, ttlMs, takeOver } = request;
      const held = await backend.inspect(name, its);
      const isRipe = held !== null && takeOver === String(versions.get(name)?.version);
      if (isRipe) await backend.break(name, held.token!, its);
      const answer = await backend.acquire({ ...request, ttlMs: maxTtlMs }, its);
      if ("held" in answer) return { held: seen(name, answer.held) };
      move(name, ttlMs);
      return { grant: { ...answer.grant, ttlMs } };
    },
    renew: async (grants, its) => {
      const lasting = grants.map((grant) => ({ ...grant, ttlMs: maxTtlMs }));
      const outcomes = await backend.renew(lasting, its);
      return outcomes.map((outcome, i) => {
        const { name, ttlMs } = grants[i]!;
        if (outcome === "renewed") move(name, ttlMs);
        if (typeof outcome === "string" || outcome.lost === "absent") return outcome;
        return { lost: seen(name, outcome.lost) };
      });
    },
    inspect: async (name, its) => {
      const held = await backend.inspect(name, its);
      return held && seen(name, held);
    },
    async *list(prefix, its) {
      for await (const { name, ...held } of backend.list(prefix, its)) {
        yield { name, ...seen(name, held) };
      }
    },
  };
}

interface Session {
  readonly ttlMs: number;
  untilMs: number;
  readonly records: Map<string, bigint>;
}

const sessionsOf = perStore(() => new Map<string, Session>());

/** Records live as long as the session that made them. */
export function sessionsOver(backend: AnyBackend, { clock, random }: Runtime): AnyBackend {
  const sessions = sessionsOf(backend);
  const polling = pollingOver(backend);
  const { proof: _, ...rest } = polling;
  const { maxTtlMs } = backend.manifest;

  async function end(id: string): Promise<void> {
    for (const [name, token] of sessions.get(id)?.records ?? []) {
      await backend.break(name, token, call);
    }
    sessions.delete(id);
  }

  async function sweep(): Promise<AnyBackend> {
    for (const [id, { untilMs }] of sessions) if (untilMs <= clock.monotonicMs()) await end(id);
    return backend;
  }

  const api: Sessions = {
    open: async (ttlMs) => {
      const id = random.id();
      sessions.set(id, { ttlMs, untilMs: clock.monotonicMs() + ttlMs, records: new Map() });
      return { id, ttlMs };
    },
    keepAlive: async (id) => {
      await sweep();
      const session = sessions.get(id);
      if (session === undefined) return "gone";
      session.untilMs = clock.monotonicMs() + session.ttlMs;
      return "alive";
    },
    close: (id) => end(id),
  };

  return {
    ...rest,
    manifest: {
      ...polling.manifest,
      expiryClock: "session",
      ttlScope: "session",
      heldCheck: false,
    },
    sessions: api,
    acquire: async (request, its) => {
      await sweep();
      const session = sessions.get(request.session ?? "");
      if (session === undefined) throw new Error(`no session ${request.session}`);
      const answer = await backend.acquire({ ...request, ttlMs: maxTtlMs }, its);
      if ("held" in answer) return { held: lasting(answer.held) };
      const { grant } = answer;
      session.records.set(grant.name, grant.token!);
      return { grant: { ...grant, ttlMs: session.ttlMs, session: request.session! } };
    },
    renew: async (grants, its) => {
      const kept = grants.map((grant) => ({ ...grant, ttlMs: maxTtlMs }));
      return (await sweep()).renew(kept, its);
    },
    release: async (requests, its) => (await sweep()).release(requests, its),
    break: async (name, token, its) => (await sweep()).break(name, token, its),
    inspect: async (name, its) => {
      const held = await (await sweep()).inspect(name, its);
      return held && lasting(held);
    },
    async *list(prefix, its) {
      await sweep();
      for await (const { name, ...held } of backend.list(prefix, its)) {
        yield { name, ...lasting(held) };
      }
    },
  };
}

/** What a store knows of a record that lasts as long as a session: not until when. */
function lasting(held: Held): Held {
  const { leftMs: _, ttlMs: _ttl, ...facts } = held;
  return facts;
}
