/**
 * Leases in ZooKeeper, 3.5.3 or later: a server alone, or an ensemble.
 *
 * - Atomicity: each contender makes a node that ends with its session, numbered by the server; the
 *   first in line holds. `place.ts` says why a list that is a little old misleads nobody.
 * - Token: the transaction that made the holder's node, 64 bits, ordered over all of the ensemble.
 * - Expiry: the session's, on the leader's clock. In an ensemble a session is asked for that lasts
 *   a third longer than the TTL: `sessions.ts` says what for.
 * - Waiting: a line in order of arrival; each contender watches the one before it.
 * - Failover: a new leader has every grant that was answered; it gives all sessions new time.
 */
import type { Backend, Call, Grant } from "../../core/backend.js";
import { UnavailableError } from "../../core/errors.js";
import type { Manifest } from "../../core/manifest.js";
import type { FencingToken } from "../../core/token.js";
import { Leases } from "./leases.js";
import { checkSettings, type ZookeeperBackendOptions } from "./options.js";
import { Places } from "./places.js";
import { waitingOn } from "./queue.js";
import { leaseSessions, timing } from "./sessions.js";
import { prepareStore, type Facts } from "./setup.js";

/** A held check: what a transaction of the same ensemble has to test. */
export interface ZookeeperProof {
  /** `check` this node, of any version: it exists as long as the lease, and never again. */
  readonly path: string;
}

/** A backend on ZooKeeper, with its proof typed. */
export interface ZookeeperBackend extends Backend {
  /** @throws UnavailableError for a grant that this backend does not hold any more. */
  proof(grant: Grant): ZookeeperProof;
}

/** How long sessions that nobody has closed may take to end with the backend, milliseconds. */
const CLOSE_MS = 1_000;
/** Fewest members that survive the loss of one. */
const MAJORITY_FROM = 3;

interface Opened {
  readonly facts: Facts;
  readonly leases: Leases;
  readonly places: Places;
}

/**
 * A backend on ZooKeeper.
 *
 * What its manifest says before `open` is what ZooKeeper can do; what this ensemble does stands
 * there afterwards: the bounds of the TTL are its own, and tokens are `durable` where fewer than
 * three members vote, or it does not tell how many.
 *
 * @throws TypeError or RangeError for wrong options.
 */
export function zookeeperBackend(options: ZookeeperBackendOptions): ZookeeperBackend {
  checkSettings(options);
  const base = options.client.chroot + options.root;
  const { client, faults, runtime } = options;
  let state: Opened | undefined;
  let isClosed = false;

  const opened = (): Opened => {
    if (state !== undefined && !isClosed) return state;
    throw new UnavailableError(`the zookeeper backend is ${isClosed ? "closed" : "not open yet"}`, {
      backend: "zookeeper",
      retryable: false,
    });
  };
  const leases = (): Leases => opened().leases;

  async function open(call: Call): Promise<void> {
    if (isClosed) opened();
    if (state !== undefined) return;
    const facts = await prepareStore(client, faults, runtime.random, base, call).catch(
      (error: unknown) => {
        throw faults.explain(error, { during: "open the store", backend: "zookeeper" });
      },
    );
    const folder = `${base}/leases`;
    const places = new Places({ leases: folder, faults, timers: runtime.timers });
    const { ttlOf } = timing(facts.voters);
    state = {
      facts,
      places,
      leases: new Leases({ leases: folder, places, client, faults, ttlOf }),
    };
  }

  const manifest = (): Manifest<FencingToken> => {
    const facts = state?.facts;
    const { ttlOf } = timing(facts?.voters ?? 0);
    return {
      backend: "zookeeper",
      tokens: facts === undefined || facts.voters >= MAJORITY_FROM ? "consensus" : "durable",
      expiryClock: "session",
      deadline: "bound",
      waiting: "queue",
      fair: true,
      heldCheck: true,
      minTtlMs: facts?.minSessionMs ?? 1,
      maxTtlMs: ttlOf(facts?.maxSessionMs ?? 2 ** 31 - 1),
      ttlScope: "session",
      // One request each, sent together.
      renewBatch: 100,
    };
  };

  return {
    get manifest() {
      return manifest();
    },
    get storeId() {
      return options.storeId ?? opened().facts.storeId;
    },
    open,
    acquire: (request, call) => leases().acquire(request, call),
    renew: (grants, call) => leases().renew(grants, call),
    release: (requests, call) =>
      Promise.all(requests.map((request) => leases().release(request, call))),
    break: async (name, token, call) => leases().break(name, token, call),
    inspect: async (name, call) => leases().inspect(name, call),
    list: (prefix, call) => leases().list(prefix, call),
    sessions: leaseSessions(client, faults, () => opened()),
    waiting: waitingOn(leases),
    proof: ({ name, holder, token }) => {
      const node = opened().places.find(name, holder)?.node;
      if (node?.czxid === token) return { path: node.path };
      throw new UnavailableError("this grant is not held any more: there is nothing to prove", {
        backend: "zookeeper",
        lock: name,
        retryable: false,
      });
    },
    async close() {
      if (isClosed) return;
      isClosed = true;
      const sessions = state?.places.sessions ?? [];
      for (const { id } of sessions) state?.places.drop(id);
      const own = options.keepClient === true ? undefined : client.close();
      await Promise.all([...sessions.map((session) => session.close(CLOSE_MS)), own]);
    },
  };
}
