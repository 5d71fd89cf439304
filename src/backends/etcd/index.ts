/**
 * Leases in etcd: each contender a key under its process's session, the oldest is the holder's.
 *
 * - Atomicity: one transaction, on the condition that the name has no keys.
 * - Token: the revision in which the holder's key was created; the whole store has one counter.
 * - Expiry: the session's, counted by the leader of the cluster; a new leader starts all anew.
 * - Waiting: in order of creation; each waiter watches the one before it.
 * - Failover: loses nothing that a majority has. A restored snapshot goes back, tokens with it.
 */
import type { Backend, Grant, QueueWaiting } from "../../core/backend.js";
import { UnavailableError } from "../../core/errors.js";
import type { Manifest } from "../../core/manifest.js";
import type { FencingToken } from "../../core/token.js";
import { Leases } from "./leases.js";
import { checkSettings, type EtcdBackendOptions } from "./options.js";
import { Queue, TOUCH_EVERY_MS } from "./queue.js";
import { Keys } from "./records.js";
import { isCreatedIn } from "./requests.js";
import { etcdSessions } from "./sessions.js";
import { openStore, type Found } from "./setup.js";
import { MOST_OPERATIONS, Store } from "./store.js";

/** A held check: a condition for a transaction in the same cluster. */
export interface EtcdProof {
  /**
   * Holds as long as the store has this grant; in the JSON form of the gateway. To be tested
   * together with an operation: a member answers an empty transaction from what it has heard.
   */
  readonly compare: readonly object[];
}

/** A backend on etcd, with its proof typed. */
export interface EtcdBackend extends Backend {
  proof(grant: Grant): EtcdProof;
}

const ONE_YEAR_MS = 365 * 24 * 3_600_000;

const manifest: Manifest<FencingToken> = {
  backend: "etcd",
  tokens: "consensus",
  expiryClock: "session",
  deadline: "bound",
  waiting: "queue",
  fair: true,
  heldCheck: true,
  minTtlMs: 1_000,
  maxTtlMs: ONE_YEAR_MS,
  ttlScope: "session",
  renewBatch: MOST_OPERATIONS,
};

/** What is there once the backend is open. */
interface Opened {
  readonly found: Found;
  readonly store: Store;
  readonly leases: Leases;
  readonly queue: Queue;
}

/**
 * A backend on an etcd cluster.
 *
 * Once open, its manifest says what was found: `durable` instead of `consensus` where no member can
 * be lost, and the shortest TTL that the servers keep.
 *
 * @throws TypeError or RangeError for wrong options.
 */
export function etcdBackend(options: EtcdBackendOptions): EtcdBackend {
  const keys = new Keys(checkSettings(options));
  const { gateway, runtime } = options;
  let state: Opened | undefined;
  let isClosed = false;

  const opened = (): Opened => {
    if (state !== undefined && !isClosed) return state;
    throw new UnavailableError(`the etcd backend is ${isClosed ? "closed" : "not open yet"}`, {
      backend: "etcd",
      retryable: false,
    });
  };

  const waiting: QueueWaiting = {
    kind: "queue",
    touchEveryMs: TOUCH_EVERY_MS,
    enqueue: async (request, call) => opened().queue.enqueue(request, call),
    touch: async (tickets, call) => opened().queue.touch(tickets, call),
  };

  return {
    get manifest(): Manifest<FencingToken> {
      if (state === undefined) return manifest;
      const { tokens, minTtlMs } = state.found;
      return { ...manifest, tokens, minTtlMs };
    },
    get storeId() {
      return options.storeId ?? state?.found.storeId ?? opened().found.storeId;
    },
    async open(call) {
      if (isClosed) opened();
      if (state !== undefined) return;
      const found = await openStore(gateway, keys, call, () => runtime.random.id());
      const store = new Store(gateway, keys, runtime);
      const leases = new Leases(store);
      state = { found, store, leases, queue: new Queue(store, leases) };
    },
    acquire: async (request, call) => await opened().leases.acquire(request, call),
    renew: async (grants, call) => await opened().leases.renew(grants, call),
    release: async (requests, call) => {
      const { leases } = opened();
      return Promise.all(requests.map((request) => leases.release(request, call)));
    },
    break: async (name, token, call) => opened().leases.break(name, token, call),
    inspect: async (name, call) => opened().leases.inspect(name, call),
    list: (prefix, call) => opened().leases.list(prefix, call),
    sessions: etcdSessions(() => opened().store),
    waiting,
    proof: ({ name, holder, token }) => ({
      compare: [isCreatedIn(keys.lease(name, holder), token)],
    }),
    async close() {
      if (isClosed) return;
      isClosed = true;
      options.close();
    },
  };
}
