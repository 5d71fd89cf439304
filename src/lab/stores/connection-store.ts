/**
 * Locks of a connection, as the advisory locks of SQL servers: one ends with the connection that
 * took it, and no clock of the store ends it before, unless the server is told to hang up on
 * connections that say nothing.
 *
 * A connection lives as long as the kernels at its two ends: that of a stopped process answers for
 * it. So a connection is a session whose time nobody keeps.
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

/** Settings of a store of connections. */
export interface ConnectionStoreOptions {
  /** Name of its server, and its id. Default `store`. */
  readonly name?: string;
  /** The server hangs up on a connection that was silent for this long. Default: never. */
  readonly idleMs?: number;
}

/** A store of connections, and what can be done to it. */
export interface ConnectionStore extends SimulatedStore<FencingToken> {
  /** The connection that has a lock breaks: the server sees it, and its client opens another. */
  reset(name: string): void;
}

/** One server. */
export function connectionStore(
  world: World,
  { name = "store", idleMs }: ConnectionStoreOptions = {},
): ConnectionStore {
  const model = new ConnectionTable(new SimulatedProcess(world, name), idleMs);
  return {
    find: () => ({ server: model.server, model }),
    rules: { tokensMayRepeat: false, mayHaveTwoHolders: false },
    reset: (lock) => model.reset(lock),
  };
}

interface LockRecord {
  readonly request: AcquireRequest;
  readonly connection: string;
  readonly token: bigint;
  sinceMs: number;
}

class ConnectionTable implements StoreModel<FencingToken> {
  readonly manifest: Manifest<FencingToken> = {
    backend: "lab",
    tokens: "durable",
    expiryClock: "session",
    deadline: "hint",
    waiting: "poll",
    fair: false,
    heldCheck: false,
    minTtlMs: 100,
    maxTtlMs: 600_000,
    ttlScope: "session",
    renewBatch: 100,
  };
  readonly server: SimulatedProcess;
  readonly sessions: ModelSessions;
  readonly #idleMs: number | undefined;
  /** Connections, and when each spoke last on the server's clock. */
  readonly #spokeMs = new Map<string, number>();
  readonly #records = new Map<string, LockRecord>();
  #opened = 0;
  #token = 0n;

  constructor(server: SimulatedProcess, idleMs: number | undefined) {
    this.server = server;
    this.#idleMs = idleMs;
    this.sessions = {
      open: (ttlMs) => {
        const id = `connection ${++this.#opened}`;
        this.#heard(id);
        this.#watch(id);
        return { id, ttlMs };
      },
      keepAlive: (id) => {
        // A new connection in place of the old one is another one: what that had is gone.
        if (!this.#spokeMs.has(id)) return "gone";
        this.#heard(id);
        return "alive";
      },
      close: (id) => this.#hangUp(id, "released"),
    };
  }

  get storeId(): string {
    return this.server.name;
  }

  acquire(request: AcquireRequest): Acquired<FencingToken> {
    const { name, holder, session = "", ttlMs } = request;
    if (!this.#spokeMs.has(session)) {
      throw new UnavailableError("the connection is gone", { lock: name });
    }
    this.#heard(session);
    const found = this.#records.get(name);
    if (found?.request.holder === holder) return { grant: grantOf(found) };
    if (found !== undefined) return { held: heldOf(found) };
    const sinceMs = this.server.world.nowMs;
    const record = { request, connection: session, token: ++this.#token, sinceMs };
    this.#records.set(name, record);
    this.server.world.history.add({
      kind: "grant",
      key: name,
      token: String(record.token),
      holder,
      client: String(request.holderInfo?.["host"] ?? "?"),
      ttlMs,
      store: this.server.name,
    });
    return { grant: grantOf(record) };
  }

  renew(grant: Grant): Renewed {
    const found = this.#records.get(grant.name);
    if (found === undefined) return { lost: "absent" };
    return isMeant(found, grant) ? "renewed" : { lost: heldOf(found) };
  }

  release(request: ReleaseRequest): Released {
    const { name, holder } = request;
    const found = this.#records.get(name);
    if (found === undefined || !isMeant(found, request)) return "not-held";
    this.#end(found, "released", holder);
    return "released";
  }

  break(name: string, token: bigint): boolean {
    const found = this.#records.get(name);
    if (found?.token !== token) return false;
    this.#end(found, "broken");
    return true;
  }

  inspect(name: string): Held | null {
    const found = this.#records.get(name);
    return found === undefined ? null : heldOf(found);
  }

  list(prefix: string): readonly (Held & { readonly name: string })[] {
    return [...this.#records]
      .filter(([name]) => name.startsWith(prefix))
      .map(([name, record]) => ({ name, ...heldOf(record) }));
  }

  reset(name: string): void {
    const record = this.#records.get(name);
    if (record === undefined) return;
    const { world } = this.server;
    world.history.add({ kind: "fault", what: "reset", target: record.connection });
    this.#hangUp(record.connection, "expired");
  }

  #heard(id: string): void {
    this.#spokeMs.set(id, this.#nowMs());
    for (const record of this.#records.values()) {
      if (record.connection !== id) continue;
      record.sinceMs = this.server.world.nowMs;
      const { name: key, holder } = record.request;
      const fact = { key, token: String(record.token), holder, by: holder };
      this.server.world.history.add({ kind: "extend", ...fact });
    }
  }

  #watch(id: string): void {
    const idleMs = this.#idleMs;
    if (idleMs === undefined) return;
    const silentMs = this.#nowMs() - (this.#spokeMs.get(id) ?? this.#nowMs());
    // Rounding may leave a trifle, after which it would be looked at again without end.
    this.server.runtime.timers.after(Math.max(1, idleMs - silentMs), () => {
      const spokeMs = this.#spokeMs.get(id);
      if (spokeMs === undefined) return;
      if (this.#nowMs() - spokeMs < idleMs) this.#watch(id);
      else this.#hangUp(id, "expired");
    });
  }

  #hangUp(id: string, why: EndReason): void {
    this.#spokeMs.delete(id);
    for (const record of [...this.#records.values()]) {
      if (record.connection === id) this.#end(record, why);
    }
  }

  #end(record: LockRecord, why: EndReason, by?: string): void {
    const { name: key, holder, ttlMs } = record.request;
    this.#records.delete(key);
    const { world } = this.server;
    const early = why === "expired" && world.nowMs - record.sinceMs < ttlMs;
    const fact = { kind: "end", key, token: String(record.token), holder, why } as const;
    world.history.add({
      ...fact,
      ...(by === undefined ? {} : { by }),
      ...(early ? { early } : {}),
    });
  }

  #nowMs(): number {
    return this.server.runtime.clock.monotonicMs();
  }
}

function heldOf({ request, token }: LockRecord): Held {
  const { holder, holderInfo } = request;
  return {
    holder,
    token,
    why: "held",
    ...(holderInfo === undefined ? {} : { holderInfo }),
  };
}

function grantOf({ request, connection, token }: LockRecord): Grant {
  const { name, holder, ttlMs } = request;
  return { name, holder, token: toToken(token), ttlMs, session: connection };
}
