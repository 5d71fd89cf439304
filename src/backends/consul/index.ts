/**
 * Leases in Consul: keys that sessions lock, kept by the servers' consensus.
 *
 * - Atomicity: one transaction that finds no record and locks the key; all calls compare its index.
 * - Token: the `ModifyIndex` of the grant, a place in the log of the servers.
 * - Expiry: the leader's clock ends a session one to two TTLs after its last renewal, and a new
 *   leader starts its time anew. Then a lock delay holds the name back.
 * - Waiting: blocking queries where somebody waits. Not fair.
 * - Failover: with three servers or more a new leader has every grant; one server is as safe as its
 *   disk. A snapshot that is restored elsewhere may let tokens begin again at its own index.
 */
import type { Backend, Call, Grant } from "../../core/backend.js";
import { UnavailableError } from "../../core/errors.js";
import type { Manifest } from "../../core/manifest.js";
import type { FencingToken } from "../../core/token.js";
import { Keys } from "./keys.js";
import { Leases } from "./leases.js";
import { checkSettings, MAX_TTL_MS, type ConsulBackendOptions } from "./options.js";
import { sessionsOf } from "./sessions.js";
import { provideStoreId } from "./store.js";
import { Watches } from "./watches.js";

/** A held check: what a transaction of the same store can test. */
export interface ConsulProof {
  readonly key: string;
  /** For the verb `check-session`. */
  readonly session: string;
  /** For the verb `check-index`: the token. */
  readonly index: bigint;
}

/** A backend on Consul, with its proof typed. */
export interface ConsulBackend extends Backend {
  /**
   * The key of the lease, the session and the index to check in a transaction. Not tested: whether
   * the time is over. A grant passes until the servers have ended its session.
   */
  proof(grant: Grant): ConsulProof;
}

/** As many servers can lose one and go on. */
const SERVERS_OF_CONSENSUS = 3;

/**
 * A backend on Consul.
 *
 * Its manifest says `tokens: "consensus"`, and `durable` once `open` has found fewer than three
 * servers.
 *
 * @throws TypeError or RangeError for wrong options.
 */
export function consulBackend(options: ConsulBackendOptions): ConsulBackend {
  const { prefix, lockDelayMs, minTtlMs, storeId: givenId } = checkSettings(options);
  const { client, runtime } = options;
  const keys = new Keys(prefix);
  const leases = new Leases(client, keys);
  const watches = new Watches(client, keys, runtime);
  let state: { readonly storeId: string; readonly servers: number } | undefined;
  let isClosed = false;

  const opened = (): { readonly storeId: string; readonly servers: number } => {
    if (state !== undefined && !isClosed) return state;
    throw new UnavailableError(`the consul backend is ${isClosed ? "closed" : "not open yet"}`, {
      backend: "consul",
      retryable: false,
    });
  };
  const use = (): Leases => {
    opened();
    return leases;
  };

  const open = async (call: Call): Promise<typeof state> => {
    const { signal, timeoutMs } = call;
    const during = { signal, timeoutMs, during: "open the store" };
    const [servers, storeId] = await Promise.all([
      client.countServers(during),
      givenId ?? provideStoreId(client, keys.storeId, runtime.random, during),
    ]);
    return { storeId, servers };
  };

  return {
    get manifest(): Manifest<FencingToken> {
      const isMany = (state?.servers ?? Infinity) >= SERVERS_OF_CONSENSUS;
      return {
        backend: "consul",
        tokens: isMany ? "consensus" : "durable",
        expiryClock: "session",
        deadline: "bound",
        waiting: "notify",
        fair: false,
        heldCheck: true,
        minTtlMs,
        maxTtlMs: MAX_TTL_MS,
        ttlScope: "session",
        // What a transaction could carry in every version that has them.
        renewBatch: 64,
      };
    },
    get storeId() {
      return givenId ?? state?.storeId ?? opened().storeId;
    },
    async open(call) {
      if (isClosed) opened();
      state ??= await open(call);
    },
    acquire: async (request, call) => await use().acquire(request, call),
    renew: async (grants, call) => await use().renew(grants, call),
    release: async (requests, call) => await use().release(requests, call),
    break: async (name, token, call) => use().break(name, token, call),
    inspect: async (name, call) => use().inspect(name, call),
    list: (prefixOfNames, call) => use().list(prefixOfNames, call),
    sessions: sessionsOf(client, lockDelayMs),
    waiting: {
      kind: "notify",
      async subscribe(name, wake, call) {
        opened();
        return watches.subscribe(name, wake, call);
      },
    },
    proof({ name, token, session }) {
      if (session === undefined) throw new TypeError("a grant of Consul has a session");
      return { key: keys.lease(name), session, index: token };
    },
    async close() {
      isClosed = true;
      watches.close();
      client.close();
    },
  };
}
