/**
 * A store that compares no clocks, as DynamoDB: each record has a version, and a contender that has
 * seen one unchanged for its whole time takes it over on the condition that it still is.
 */
import type {
  AcquireRequest,
  Grant,
  Held,
  Released,
  ReleaseRequest,
  Renewed,
} from "../../core/backend.js";
import type { Manifest } from "../../core/manifest.js";
import { toToken, type FencingToken } from "../../core/token.js";
import { SimulatedProcess } from "../process.js";
import type { SimulatedStore } from "../simulation.js";
import type { World } from "../world.js";
import { isMeant, type Acquired, type StoreModel } from "./model.js";

interface ObservedRecord {
  readonly request: AcquireRequest;
  readonly token: bigint;
  readonly isFree: boolean;
  readonly version: number;
  /** When the world saw its version move last. */
  readonly sinceMs: number;
}

/** An observed-expiry store on one server. */
export function observedStore(world: World): SimulatedStore<FencingToken> {
  const server = new SimulatedProcess(world, "store");
  const model = new ObservedTable(world);
  return {
    find: () => ({ server, model }),
    rules: { tokensMayRepeat: false, mayHaveTwoHolders: false },
  };
}

class ObservedTable implements StoreModel<FencingToken> {
  readonly storeId = "observed";
  readonly manifest: Manifest<FencingToken> = {
    backend: "lab",
    tokens: "durable",
    expiryClock: "observed",
    deadline: "bound",
    waiting: "poll",
    fair: false,
    heldCheck: false,
    minTtlMs: 1_000,
    maxTtlMs: 600_000,
    ttlScope: "lease",
    renewBatch: 25,
  };
  readonly #world: World;
  readonly #records = new Map<string, ObservedRecord>();

  constructor(world: World) {
    this.#world = world;
  }

  acquire(request: AcquireRequest): Acquired<FencingToken> {
    const { name, holder, takeOver } = request;
    const found = this.#records.get(name);
    const isOwn = found !== undefined && !found.isFree && found.request.holder === holder;
    if (isOwn) {
      const again = { ...found.request, ttlMs: request.ttlMs };
      this.#put({ ...found, request: again, version: found.version + 1 });
      return { grant: grantOf(found, request.ttlMs) };
    }
    if (found !== undefined && !found.isFree) {
      if (takeOver === undefined || String(found.version) !== takeOver) {
        return { held: heldOf(found) };
      }
      this.#end(found, "expired");
    }
    const token = (found?.token ?? 0n) + 1n;
    const version = (found?.version ?? 0) + 1;
    const record = this.#put({ request, token, version, isFree: false, sinceMs: 0 });
    this.#world.history.add({
      kind: "grant",
      key: name,
      token: String(token),
      holder,
      client: String(request.holderInfo?.["host"] ?? "?"),
      ttlMs: request.ttlMs,
      store: "observed",
    });
    return { grant: grantOf(record, request.ttlMs) };
  }

  renew({ name, holder, token, ttlMs }: Grant): Renewed {
    const found = this.#records.get(name);
    if (found === undefined || found.isFree) return { lost: "absent" };
    if (found.request.holder !== holder || found.token !== token) return { lost: heldOf(found) };
    this.#put({ ...found, request: { ...found.request, ttlMs }, version: found.version + 1 });
    const fact = { key: name, token: String(token), holder, by: holder };
    this.#world.history.add({ kind: "extend", ...fact });
    return "renewed";
  }

  release(request: ReleaseRequest): Released {
    const { name, holder } = request;
    const found = this.#records.get(name);
    if (found === undefined || found.isFree || !isMeant(found, request)) return "not-held";
    this.#end(found, "released", holder);
    // A tombstone: the token and the version go on from here.
    this.#put({ ...found, isFree: true, version: found.version + 1 });
    return "released";
  }

  break(name: string, token: bigint): boolean {
    const found = this.#records.get(name);
    if (found === undefined || found.isFree || found.token !== token) return false;
    this.#end(found, "broken");
    this.#put({ ...found, isFree: true, version: found.version + 1 });
    return true;
  }

  inspect(name: string): Held | null {
    const found = this.#records.get(name);
    return found === undefined || found.isFree ? null : heldOf(found);
  }

  list(prefix: string): readonly (Held & { readonly name: string })[] {
    return [...this.#records]
      .filter(([name, { isFree }]) => name.startsWith(prefix) && !isFree)
      .map(([name, record]) => ({ name, ...heldOf(record) }));
  }

  #put(record: ObservedRecord): ObservedRecord {
    const put = { ...record, sinceMs: this.#world.nowMs };
    this.#records.set(record.request.name, put);
    return put;
  }

  #end(record: ObservedRecord, why: "released" | "expired" | "broken", by?: string): void {
    const { name: key, holder } = record.request;
    const heldMs = this.#world.nowMs - record.sinceMs;
    const early = why === "expired" && heldMs < record.request.ttlMs * 0.999;
    const fact = { kind: "end", key, token: String(record.token), holder, why } as const;
    this.#world.history.add({
      ...fact,
      ...(by === undefined ? {} : { by }),
      ...(early ? { early } : {}),
    });
  }
}

function heldOf({ request, token, version }: ObservedRecord): Held {
  const { holder, holderInfo, ttlMs } = request;
  return {
    holder,
    token,
    ttlMs,
    version: String(version),
    why: "held",
    ...(holderInfo === undefined ? {} : { holderInfo }),
  };
}

function grantOf({ request, token }: ObservedRecord, ttlMs: number): Grant {
  return { name: request.name, holder: request.holder, token: toToken(token), ttlMs };
}
