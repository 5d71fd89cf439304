/**
 * Leases in the memory of one process: for tests, for work that only this process does, and as the
 * smallest complete example of a backend.
 *
 * - Atomicity: every step is synchronous, so nothing can come between.
 * - Token: one counter per store, seeded from the wall clock in microseconds.
 * - Expiry: the monotonic clock of the process; a suspended machine keeps its leases meanwhile.
 * - Waiting: a queue in order of arrival; a release or an expiry offers the lease to the first.
 * - Failover: none; the store ends with its process, and with it all its holders.
 */
import type { Backend, Grant, QueueWaiting, Ticket } from "../../core/backend.js";
import { ArgumentRangeError, ArgumentTypeError, UnavailableError } from "../../core/errors.js";
import { MemoryStore, type MemoryStoreOptions } from "./store.js";

/** Settings of {@link memoryBackend}. */
export interface MemoryBackendOptions extends MemoryStoreOptions {
  /** A store to share with other clients of this process. Default: a store of its own. */
  readonly store?: MemoryStore;
  /** Shortest TTL, milliseconds. Default 10. */
  readonly minTtlMs?: number;
  /** Longest TTL, milliseconds. Default one year. */
  readonly maxTtlMs?: number;
}

/** A backend in memory, with its proof typed. */
export interface MemoryBackend extends Backend {
  proof(grant: Grant): MemoryProof;
}

/** A held check of this backend: whether the lease is live at the moment of the call. */
export type MemoryProof = () => boolean;

/** Short enough that a lost notice is repeated well within the second that an offer stands. */
const TOUCH_EVERY_MS = 300;
const RENEW_BATCH = 10_000;
const ONE_YEAR_MS = 365 * 24 * 3_600_000;

/**
 * A backend in memory.
 *
 * Tokens are `durable` while the store's id is its own: a new store is another scope, and no fence
 * takes the one for the other. With a given `storeId` the store claims to be the same after a
 * restart, which rests on a wall clock that did not go back: then tokens are `until-failover`.
 *
 * Not promised: anything across processes. Two processes with one `storeId` do not exclude each
 * other.
 *
 * @throws TypeError or RangeError for wrong options.
 */
export function memoryBackend(options: MemoryBackendOptions): MemoryBackend {
  const { minTtlMs = 10, maxTtlMs = ONE_YEAR_MS } = options;
  if (options.store !== undefined && options.storeId !== undefined) {
    throw new ArgumentTypeError("storeId", options.storeId, "left out when a store is given");
  }
  if (!(Number.isSafeInteger(minTtlMs) && minTtlMs > 0)) {
    throw new ArgumentRangeError("minTtlMs", minTtlMs, "a whole number above 0");
  }
  if (!(Number.isSafeInteger(maxTtlMs) && maxTtlMs >= minTtlMs)) {
    throw new ArgumentRangeError("maxTtlMs", maxTtlMs, `a whole number, ${minTtlMs} or more`);
  }
  const own = options.store === undefined ? new MemoryStore(options) : undefined;
  const store = options.store ?? own!;
  let closed = false;

  function open(): MemoryStore {
    if (!closed) return store;
    const facts = { backend: "memory", retryable: false };
    throw new UnavailableError("the memory backend is closed", facts);
  }

  return {
    manifest: {
      backend: "memory",
      tokens: store.isNamed ? "until-failover" : "durable",
      expiryClock: "process",
      deadline: "bound",
      waiting: "queue",
      fair: true,
      heldCheck: true,
      minTtlMs,
      maxTtlMs,
      ttlScope: "lease",
      renewBatch: RENEW_BATCH,
    },
    storeId: store.storeId,
    acquire: (request) => open().acquire(request),
    renew: (grants) => grants.map((grant) => open().renew(grant)),
    release: (requests) =>
      requests.map((request) => (open().release(request) ? "released" : "not-held")),
    break: async (name, token) => open().break(name, token),
    inspect: async (name) => open().inspect(name),
    async *list(prefix) {
      yield* open().list(prefix);
    },
    waiting: waitingOn(open),
    proof: (grant) => () => !closed && store.holds(grant.name, grant.holder, grant.token),
    close: async () => {
      closed = true;
      own?.close();
    },
  };
}

function waitingOn(open: () => MemoryStore): QueueWaiting {
  return {
    kind: "queue",
    touchEveryMs: TOUCH_EVERY_MS,
    enqueue: async (request) => {
      open().enqueue(request);
      return ticketOf(open(), request.name, request.holder);
    },
    touch: async (tickets) =>
      tickets.map(({ name, holder }) => {
        const standing = open().standing(name, holder, true);
        return standing === "gone" || "token" in standing ? standing : "waiting";
      }),
  };
}

function ticketOf(store: MemoryStore, name: string, holder: string): Ticket {
  return {
    name,
    holder,
    turn: (signal) =>
      new Promise<Grant | "gone">((resolve, reject) => {
        signal.throwIfAborted();
        const standing = store.standing(name, holder, false);
        if (standing === "gone" || "token" in standing) {
          resolve(standing);
          return;
        }
        const onAbort = (): void => {
          standing.hear = undefined;
          reject(signal.reason);
        };
        standing.hear = (outcome) => {
          signal.removeEventListener("abort", onAbort);
          resolve(outcome);
        };
        signal.addEventListener("abort", onAbort, { once: true });
      }),
    leave: async () => store.leave(name, holder),
  };
}
