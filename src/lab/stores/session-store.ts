/**
 * A consensus store whose records live as long as a session, as in etcd, ZooKeeper and Consul:
 * three members, of which one leads. Only the leader keeps the time of sessions; a new one gives
 * every session its whole time again. Without a majority nothing is answered but "unavailable".
 */
import type {
  AcquireRequest,
  Grant,
  Held,
  Released,
  ReleaseRequest,
  Renewed,
} from "../../core/backend.js";
import { UnavailableError } from "../../core/errors.js";
import type { Manifest } from "../../core/manifest.js";
import { toToken, type FencingToken } from "../../core/token.js";
import type { EndReason } from "../history.js";
import { SimulatedProcess } from "../process.js";
import type { SimulatedStore } from "../simulation.js";
import type { World } from "../world.js";
import { isMeant, type Acquired, type ModelSessions, type StoreModel } from "./model.js";

interface Session {
  readonly id: string;
  readonly ttlMs: number;
  /** On the leader's clock. */
  expiresMs: number;
  /** When the world saw its time begin anew. */
  sinceMs: number;
}

interface LeaseRecord {
  readonly request: AcquireRequest;
  session: string;
  readonly token: bigint;
}

/**
 * What is wrong with a session store on purpose: `dead-lease-grant` grants to a session that has
 * ended, as the lock call of one store does.
 */
export type SessionFlaw = "dead-lease-grant";

/** A session store, and what can be done to it. */
export interface SessionStore extends SimulatedStore<FencingToken> {
  readonly model: SessionTable;
  readonly members: readonly SimulatedProcess[];
  /** Another member leads: every session has its whole time again. */
  changeLeader(): void;
  /** Ends a session at once, as a leader does that was deposed and does not know it. */
  revokeEarly(name: string): void;
  /** Ends the connection behind a name, as an operator or a server that restarts does. */
  endConnection(name: string): void;
  /** A standby serves from now on. It has all revisions, and knows none of the sessions. */
  promoteStandby(): void;
}

const MEMBERS = ["m1", "m2", "m3"] as const;

/** Three members; the leader is the one that clients talk to. */
export function sessionStore(world: World, flaw?: SessionFlaw): SessionStore {
  const members = MEMBERS.map((name) => new SimulatedProcess(world, name));
  let leader = 0;
  let term = 0;
  const model = new SessionTable(
    world,
    () => members[leader]!,
    () => members.filter(({ isRunning }) => isRunning).length >= 2,
    flaw,
  );
  const changeLeader = (): void => {
    const next = members.findIndex((member, i) => i !== leader && member.isRunning);
    if (next < 0) return;
    leader = next;
    term += 1;
    world.history.add({ kind: "fault", what: "leader-change", target: members[next]!.name });
    model.startAnew();
  };
  return {
    model,
    members,
    find: () => {
      // Clients rotate to a member that answers; it forwards to the leader.
      if (!members[leader]!.isRunning && members.filter((m) => m.isRunning).length >= 2) {
        changeLeader();
      }
      return { server: members[leader]!, model, epoch: `term ${term}` };
    },
    rules: { tokensMayRepeat: false, mayHaveTwoHolders: false },
    changeLeader,
    revokeEarly: (name) => {
      world.history.add({ kind: "fault", what: "early-revoke", target: name });
      model.revoke(name);
    },
    endConnection: (name) => {
      world.history.add({ kind: "fault", what: "end-connection", target: name });
      model.revoke(name);
    },
    promoteStandby: () => {
      world.history.add({ kind: "fault", what: "failover", target: "store" });
      model.forgetSessions();
    },
  };
}

/** The replicated state: one for all members, since their log is one. */
class SessionTable implements StoreModel<FencingToken> {
  readonly storeId = "sessions";
  readonly manifest: Manifest<FencingToken> = {
    backend: "lab",
    tokens: "consensus",
    expiryClock: "session",
    deadline: "bound",
    waiting: "notify",
    fair: false,
    heldCheck: false,
    minTtlMs: 1_000,
    maxTtlMs: 600_000,
    ttlScope: "session",
    renewBatch: 100,
  };
  onFreed: (name: string) => void = () => undefined;
  readonly sessions: ModelSessions;
  readonly #world: World;
  readonly #leader: () => SimulatedProcess;
  readonly #hasMajority: () => boolean;
  readonly #flaw: SessionFlaw | undefined;
  readonly #sessions = new Map<string, Session>();
  readonly #records = new Map<string, LeaseRecord>();
  #revision = 0n;
  #ids = 0;

  constructor(
    world: World,
    leader: () => SimulatedProcess,
    hasMajority: () => boolean,
    flaw: SessionFlaw | undefined,
  ) {
    this.#world = world;
    this.#leader = leader;
    this.#hasMajority = hasMajority;
    this.#flaw = flaw;
    this.sessions = {
      open: (ttlMs) => {
        this.#step();
        const id = `s${++this.#ids}`;
        const expiresMs = this.#nowMs() + ttlMs;
        this.#sessions.set(id, { id, ttlMs, expiresMs, sinceMs: world.nowMs });
        this.#watch(id);
        return { id, ttlMs };
      },
      keepAlive: (id) => {
        this.#step();
        const session = this.#sessions.get(id);
        if (session === undefined) return "gone";
        session.expiresMs = this.#nowMs() + session.ttlMs;
        session.sinceMs = world.nowMs;
        for (const [key, { session: of, token, request }] of this.#records) {
          if (of !== id) continue;
          const { holder } = request;
          const fact = { key, token: String(token), holder, by: holder };
          world.history.add({ kind: "extend", ...fact });
        }
        return "alive";
      },
      close: (id) => {
        this.#step();
        this.#endSession(id, "released");
      },
    };
  }

  acquire(request: AcquireRequest): Acquired<FencingToken> {
    this.#step();
    const { name, holder, session } = request;
    const found = this.#records.get(name);
    if (found !== undefined && found.request.holder !== holder) return { held: heldOf(found) };
    const alive = this.#sessions.get(session ?? "");
    if (alive === undefined && this.#flaw !== "dead-lease-grant") {
      throw new UnavailableError("there is no such session", { lock: name });
    }
    const ttlMs = alive?.ttlMs ?? request.ttlMs;
    if (found !== undefined) {
      // An earlier answer was lost: the record is this holder's, and lives on with this session.
      found.session = session ?? "";
      return { grant: grantOf(found, ttlMs) };
    }
    const record = { request, session: session ?? "", token: this.#revision };
    this.#records.set(name, record);
    this.#world.history.add({
      kind: "grant",
      key: name,
      token: String(record.token),
      holder,
      client: String(request.holderInfo?.["host"] ?? "?"),
      ttlMs,
      store: "sessions",
    });
    return { grant: grantOf(record, ttlMs) };
  }

  renew(grant: Grant): Renewed {
    this.#step();
    const found = this.#records.get(grant.name);
    if (found === undefined) return { lost: "absent" };
    return isMeant(found, grant) ? "renewed" : { lost: heldOf(found) };
  }

  release(request: ReleaseRequest): Released {
    const { name, holder } = request;
    this.#step();
    const found = this.#records.get(name);
    if (found === undefined || !isMeant(found, request)) return "not-held";
    this.#end(name, "released", holder);
    return "released";
  }

  break(name: string, token: bigint): boolean {
    this.#step();
    if (this.#records.get(name)?.token !== token) return false;
    this.#end(name, "broken");
    return true;
  }

  inspect(name: string): Held | null {
    this.#step();
    const found = this.#records.get(name);
    return found === undefined ? null : heldOf(found);
  }

  list(prefix: string): readonly (Held & { readonly name: string })[] {
    this.#step();
    return [...this.#records]
      .filter(([name]) => name.startsWith(prefix))
      .map(([name, record]) => ({ name, ...heldOf(record) }));
  }

  /** A new leader knows the sessions, and not how much of their time was over. */
  startAnew(): void {
    for (const session of this.#sessions.values()) {
      session.expiresMs = this.#nowMs() + session.ttlMs;
      this.#watch(session.id);
    }
  }

  /** Ends the session behind a name before its time. */
  revoke(name: string): void {
    const record = this.#records.get(name);
    if (record !== undefined) this.#endSession(record.session, "expired", true);
  }

  /** Ends all sessions at once. */
  forgetSessions(): void {
    for (const id of [...this.#sessions.keys()]) this.#endSession(id, "forgotten", true);
  }

  /** Each request is one revision; without a majority there is none. */
  #step(): void {
    if (!this.#hasMajority()) throw new UnavailableError("the store has no majority");
    this.#revision += 1n;
  }

  #nowMs(): number {
    return this.#leader().runtime.clock.monotonicMs();
  }

  #watch(id: string): void {
    const session = this.#sessions.get(id);
    if (session === undefined) return;
    const leftMs = Math.max(0, session.expiresMs - this.#nowMs());
    this.#leader().runtime.timers.after(leftMs, () => {
      const now = this.#sessions.get(id);
      if (now === undefined) return;
      if (now.expiresMs > this.#nowMs() || !this.#hasMajority()) this.#watch(id);
      else this.#endSession(id, "expired");
    });
  }

  #endSession(id: string, why: EndReason, early = false): void {
    this.#sessions.delete(id);
    for (const [name, record] of [...this.#records]) {
      if (record.session === id) this.#end(name, why, undefined, early);
    }
  }

  #end(key: string, why: EndReason, by?: string, early = false): void {
    const record = this.#records.get(key)!;
    this.#records.delete(key);
    const { holder } = record.request;
    const fact = { kind: "end", key, token: String(record.token), holder, why } as const;
    this.#world.history.add({
      ...fact,
      ...(by === undefined ? {} : { by }),
      ...(early ? { early } : {}),
    });
    this.onFreed(key);
  }
}

function heldOf({ request, token }: LeaseRecord): Held {
  const { holder, holderInfo } = request;
  return {
    holder,
    token,
    why: "held",
    ...(holderInfo === undefined ? {} : { holderInfo }),
  };
}

function grantOf({ request, session, token }: LeaseRecord, ttlMs: number): Grant {
  return {
    name: request.name,
    holder: request.holder,
    token: toToken(token),
    ttlMs,
    session,
  };
}
