/**
 * Leases in Redis or Valkey: one server, one with replicas, or a cluster.
 *
 * - Atomicity: one Lua script for each step, with all keys of a name in one slot.
 * - Token: the server's time in microseconds, or one more than the name's last where that is ahead;
 *   so a lost counter does not go back.
 * - Expiry: the server's wall clock, asked inside each script. A forward step of that clock ends
 *   leases early.
 * - Waiting: a line in order of arrival; whoever ends a lease offers it to the first that lives.
 * - Failover: replication is asynchronous, so a grant can be lost, and its name granted again, even
 *   with the same token where the new primary's clock is behind. Then only a fence keeps the two
 *   holders apart.
 */
import type { Backend, QueueWaiting } from "../../core/backend.js";
import { UnavailableError } from "../../core/errors.js";
import { checkSettings, type RedisBackendOptions } from "./options.js";
import { Store } from "./store.js";
import { TOUCH_EVERY_MS } from "./waiters.js";

const ONE_YEAR_MS = 365 * 24 * 3_600_000;

/**
 * A backend on Redis.
 *
 * @throws TypeError or RangeError for wrong options.
 */
export function redisBackend(options: RedisBackendOptions): Backend {
  const { fair } = checkSettings(options);
  let store: Store | undefined;
  let closed = false;

  const opened = (): Store => {
    if (store !== undefined && !closed) return store;
    throw new UnavailableError(`the redis backend is ${closed ? "closed" : "not open yet"}`, {
      backend: "redis",
      retryable: false,
    });
  };

  const waiting: QueueWaiting = {
    kind: "queue",
    touchEveryMs: TOUCH_EVERY_MS,
    enqueue: async (request, call) =>
      opened().run("wait for a lease", request.name, () => opened().waiters.enqueue(request, call)),
    touch: async (tickets, call) =>
      opened().run("say that waiters live", tickets[0]?.name, () =>
        opened().waiters.touch(tickets, call),
      ),
  };

  return {
    manifest: {
      backend: "redis",
      tokens: "until-failover",
      expiryClock: "server",
      deadline: "bound",
      waiting: fair ? "queue" : "poll",
      fair,
      heldCheck: false,
      minTtlMs: 10,
      maxTtlMs: ONE_YEAR_MS,
      ttlScope: "lease",
      // About 2 ms of the server's time.
      renewBatch: 500,
    },
    get storeId() {
      return options.storeId ?? opened().storeId;
    },
    async open({ timeoutMs }) {
      if (closed) opened();
      if (store !== undefined) return;
      const opening = await Store.open(options, timeoutMs);
      if (closed) opening.close();
      else store = opening;
    },
    acquire: (request, call) => opened().acquire(request, call),
    renew: async (grants, call) =>
      opened().run("renew leases", grants[0]?.name, () => opened().renew(grants, call)),
    release: (requests) => {
      const { leases } = opened();
      const [first] = requests;
      if (requests.length !== 1 || first === undefined) {
        return Promise.all(requests.map((request) => leases.release(request)));
      }
      return leases.release(first).then((answer) => [answer]);
    },
    break: async (name, token) =>
      opened().run("break a lease", name, () => opened().leases.break(name, token)),
    inspect: async (name) => {
      const [held] = await opened().run("look at a lease", name, () =>
        opened().leases.inspect([name]),
      );
      return held ?? null;
    },
    list: (prefix, call) => opened().list(prefix, call),
    waiting: fair ? waiting : { kind: "poll" },
    async close() {
      closed = true;
      store?.close();
    },
  };
}
