/**
 * Leases on a majority of independent Redis servers (Redlock): for work that should not, and may,
 * be done twice. There are no fencing tokens, so no fence can refuse the second holder.
 *
 * - Atomicity: one script per server; a lease is what a majority of them granted to one holder.
 * - Token: none. Servers that know nothing of each other cannot count grants in one order.
 * - Expiry: the wall clock of each server; the holder's deadline counts from before it asked.
 * - Waiting: waiters ask again after a pause with jitter; nobody is told, and no order is kept.
 * - Failover: a majority that loses its data, or runs its clocks forward, lets a second holder in.
 *
 * The algorithm: https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/
 */
import type { Backend } from "../../core/backend.js";
import { UnavailableError } from "../../core/errors.js";
import type { Manifest } from "../../core/manifest.js";
import { Acquiring } from "./acquiring.js";
import { STRAGGLER_MS } from "./ballot.js";
import { Leases } from "./leases.js";
import { Members } from "./members.js";
import { checkServers, checkSettings, type RedlockBackendOptions } from "./options.js";
import { namesOn } from "./names-on-servers.js";

const ONE_YEAR_MS = 365 * 24 * 3_600_000;

const manifest: Manifest<undefined> = {
  backend: "redlock",
  tokens: "none",
  expiryClock: "server",
  deadline: "bound",
  waiting: "poll",
  fair: false,
  heldCheck: false,
  minTtlMs: 10,
  maxTtlMs: ONE_YEAR_MS,
  ttlScope: "lease",
  // About 1 ms during which a server does nothing else.
  renewBatch: 500,
};

interface Opened {
  readonly members: Members;
  readonly acquiring: Acquiring;
  readonly leases: Leases;
}

/**
 * A backend on independent servers.
 *
 * `break` ends nothing: without tokens there is nothing to name a lease by. Let it expire, or
 * delete its key on the servers.
 *
 * @throws TypeError or RangeError for wrong options.
 */
export function redlockBackend(options: RedlockBackendOptions): Backend<undefined> {
  const { prefix } = checkSettings(options);
  const servers = checkServers(options.servers, "servers");
  const { timers, random, events } = options.runtime;
  const keyOf = (name: string): string => `${prefix}lock:${name}`;
  let state: Opened | "new" | "closed" = "new";

  const opened = (): Opened => {
    if (typeof state === "object") return state;
    const what = state === "new" ? "not open yet" : "closed";
    throw new UnavailableError(`the redlock backend is ${what}`, {
      backend: "redlock",
      retryable: false,
    });
  };

  // Asked anew after each await: somebody may have closed it meanwhile.
  const isClosed = (): boolean => state === "closed";

  return {
    manifest,
    get storeId() {
      return options.storeId ?? opened().members.storeId;
    },
    async open(call) {
      if (state !== "new") return void opened();
      const { faults, storeId } = options;
      const idKey = `${prefix}id`;
      const settings = { servers, faults, timers, events, idKey, freshId: random.id(), storeId };
      const members = await Members.open(settings, call);
      if (isClosed()) {
        members.close();
        return;
      }
      state = {
        members,
        acquiring: new Acquiring(members, keyOf, timers, random),
        leases: new Leases(members, keyOf),
      };
    },
    async acquire(request, call) {
      const outcome = await opened().acquiring.acquire(request, call);
      if (outcome !== true) return { held: outcome };
      const { name, holder, ttlMs } = request;
      return { grant: { name, holder, token: undefined, ttlMs } };
    },
    renew: async (grants, call) => opened().leases.renew(grants, call),
    release: async (requests, call) => opened().leases.release(requests, call),
    break: async () => false,
    inspect: async (name, call) => (await opened().leases.look([name], call))[0]!,
    async *list(prefixOfNames, call) {
      const { members, leases } = opened();
      for (const names of await namesOn(members, keyOf(prefixOfNames), keyOf("").length, call)) {
        const page = await leases.look(names, call);
        yield* page.flatMap((held, i) => (held === null ? [] : [{ name: names[i]!, ...held }]));
      }
    },
    waiting: { kind: "poll" },
    async close() {
      if (typeof state === "object") {
        const { members, acquiring } = state;
        state = "closed";
        const idle = acquiring.idle();
        const patience = new Promise<void>((resolve) => {
          const timer = timers.after(STRAGGLER_MS, resolve);
          void idle.then(() => timer.cancel());
        });
        await Promise.race([idle, patience]);
        members.close();
      }
      state = "closed";
    },
  };
}
