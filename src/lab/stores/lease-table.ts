/**
 * A single store: one table of leases on one server, whose clock ends them. What Redis, SQLite, a
 * row in Postgres and memory have in common, with the steps that a backend makes of them.
 */
import type {
  AcquireRequest,
  Grant,
  Held,
  Released,
  ReleaseRequest,
  Renewed,
} from "../../core/backend.js";
import type { Timer } from "../../core/clock.js";
import type { Manifest, TokenStrength } from "../../core/manifest.js";
import { toToken, type FencingToken } from "../../core/token.js";
import type { EndReason } from "../history.js";
import type { SimulatedProcess } from "../process.js";
import type { Acquired, ModelQueue, StoreModel, TellWaiter } from "./model.js";

/** How long an offer stands without a renewal, milliseconds. */
const OFFER_MS = 1_000;
/** A waiter that was silent for longer is passed over, milliseconds. */
const SILENT_MS = 3_000;
const TOUCH_EVERY_MS = 300;

/** One lease as the store keeps it. */
export interface LeaseRecord {
  readonly name: string;
  readonly holder: string;
  readonly token: bigint;
  readonly request: AcquireRequest;
  ttlMs: number;
  /** On the store's clock. */
  expiresMs: number;
  /** When the world saw the last acknowledged beginning of its time. */
  sinceMs: number;
  isOffer: boolean;
}

/**
 * What is wrong with a table on purpose.
 *
 * - `release-any`, `renew-any`: without comparing the holder
 * - `renew-recreates`: a renewal of a lease that is gone makes it anew
 * - `token-dies`: the counter goes with the record
 * - `renewal-moves-token`: a renewal draws a new token
 * - `no-expiry`: a lease never ends by itself
 * - `value-then-expiry`: the lease first, its time with a second command, which may never come
 */
export type TableFlaw =
  | "release-any"
  | "renew-any"
  | "renew-recreates"
  | "token-dies"
  | "renewal-moves-token"
  | "no-expiry"
  | "value-then-expiry";

/** Settings of a table. */
export interface TableOptions {
  readonly storeId?: string;
  /** How waiters learn of a release. Default `poll`. */
  readonly waiting?: "poll" | "notify" | "queue";
  readonly tokens?: Exclude<TokenStrength, "none">;
  /** Which clock of the server ends leases. Default the wall clock, as in Redis. */
  readonly clock?: "wall" | "monotonic";
  readonly flaw?: TableFlaw;
}

interface Waiter {
  readonly request: AcquireRequest;
  readonly tell: TellWaiter<FencingToken>;
  seenMs: number;
}

/** A table of leases on one server. */
export class LeaseTable implements StoreModel {
  readonly manifest: Manifest<FencingToken>;
  readonly storeId: string;
  readonly queue: ModelQueue<FencingToken> | undefined;
  onFreed: (name: string) => void = () => undefined;
  /** Told of every record that changed: what a replica is sent. */
  onChange: (name: string) => void = () => undefined;
  readonly server: SimulatedProcess;
  readonly #clock: "wall" | "monotonic";
  readonly #flaw: TableFlaw | undefined;
  readonly #records = new Map<string, LeaseRecord>();
  readonly #counters = new Map<string, bigint>();
  readonly #waiters = new Map<string, Waiter[]>();
  readonly #timers = new Map<string, Timer>();

  constructor(server: SimulatedProcess, options: TableOptions = {}) {
    const { storeId = server.name, waiting = "poll", tokens = "durable", clock = "wall" } = options;
    this.server = server;
    this.storeId = storeId;
    this.#clock = clock;
    this.#flaw = options.flaw;
    this.manifest = {
      backend: "lab",
      tokens,
      expiryClock: "server",
      deadline: "bound",
      waiting,
      fair: waiting === "queue",
      heldCheck: false,
      minTtlMs: 10,
      maxTtlMs: 86_400_000,
      ttlScope: "lease",
      renewBatch: 100,
    };
    this.queue = waiting === "queue" ? this.#makeQueue() : undefined;
  }

  acquire(request: AcquireRequest): Acquired<FencingToken> {
    const { name, holder, ttlMs } = request;
    const found = this.#look(name);
    if (found?.holder === holder) {
      this.#extend(found, ttlMs, holder);
      found.isOffer = false;
      return { grant: grantOf(found) };
    }
    if (found !== undefined) return { held: this.#heldOf(found) };
    return { grant: grantOf(this.#grant(request, ttlMs, false)) };
  }

  renew({ name, holder, token, ttlMs }: Grant): Renewed {
    const found = this.#look(name);
    if (found === undefined) {
      if (this.#flaw !== "renew-recreates") return { lost: "absent" };
      this.#put({ name, holder, ttlMs }, token, ttlMs, false);
      return "renewed";
    }
    const isOwn = found.holder === holder && found.token === token;
    if (!isOwn && this.#flaw !== "renew-any") return { lost: this.#heldOf(found) };
    if (this.#flaw === "renewal-moves-token") {
      this.#records.set(name, { ...found, token: this.#draw(name) });
    }
    found.isOffer = false;
    this.#extend(found, ttlMs, holder);
    return "renewed";
  }

  release({ name, holder, token }: ReleaseRequest): Released {
    // Of an attempt that waits, its place is all that it left behind.
    const hadPlace = token === undefined && this.#leave(name, holder);
    const found = this.#look(name);
    const isOwn = found?.holder === holder && (token === undefined || found.token === token);
    if (found === undefined || (!isOwn && this.#flaw !== "release-any")) {
      return hadPlace ? "released" : "not-held";
    }
    this.#end(found, "released", holder);
    return "released";
  }

  break(name: string, token: bigint): boolean {
    const found = this.#look(name);
    if (found?.token !== token) return false;
    this.#end(found, "broken");
    return true;
  }

  inspect(name: string): Held | null {
    const found = this.#look(name);
    return found === undefined ? null : this.#heldOf(found);
  }

  list(prefix: string): readonly (Held & { readonly name: string })[] {
    return [...this.#records.keys()]
      .filter((name) => name.startsWith(prefix))
      .flatMap((name) => {
        const held = this.inspect(name);
        return held === null ? [] : [{ name, ...held }];
      });
  }

  /** What the store has of a name: for replication, and for a restart. */
  copyOf(name: string): { readonly record?: LeaseRecord; readonly counter?: bigint } {
    const record = this.#records.get(name);
    const counter = this.#counters.get(name);
    return {
      ...(record === undefined ? {} : { record: { ...record } }),
      ...(counter === undefined ? {} : { counter }),
    };
  }

  /** Takes over what another server had of a name. */
  take(name: string, copy: ReturnType<LeaseTable["copyOf"]>): void {
    if (copy.counter === undefined) this.#counters.delete(name);
    else this.#counters.set(name, copy.counter);
    if (copy.record === undefined) this.#records.delete(name);
    else this.#records.set(name, { ...copy.record });
  }

  /** Loses everything at once: FLUSHALL, or a restart without a disk. */
  forget(what: "leases" | "all" = "all"): void {
    for (const record of [...this.#records.values()]) this.#end(record, "forgotten");
    if (what === "all") this.#counters.clear();
    for (const [name, waiters] of [...this.#waiters]) {
      this.#waiters.delete(name);
      for (const waiter of waiters) this.#leftQueue(name, waiter.request.holder);
    }
  }

  #nowMs(): number {
    const { clock } = this.server.runtime;
    return this.#clock === "wall" ? clock.wallMs() : clock.monotonicMs();
  }

  /** The record of a name after expiry has been decided. */
  #look(name: string): LeaseRecord | undefined {
    const found = this.#records.get(name);
    if (found === undefined || this.#nowMs() < found.expiresMs) return found;
    this.#end(found, "expired");
    return this.#records.get(name);
  }

  #grant(request: AcquireRequest, forMs: number, isOffer: boolean): LeaseRecord {
    return this.#put(request, this.#draw(request.name), forMs, isOffer);
  }

  #put(request: AcquireRequest, token: bigint, forMs: number, isOffer: boolean): LeaseRecord {
    const { name, holder, ttlMs } = request;
    const endless = this.#flaw === "no-expiry" || this.#flaw === "value-then-expiry";
    const record: LeaseRecord = {
      name,
      holder,
      token,
      request,
      ttlMs,
      expiresMs: endless ? Infinity : this.#nowMs() + forMs,
      sinceMs: this.server.world.nowMs,
      isOffer,
    };
    this.#records.set(name, record);
    this.server.world.history.add({
      kind: "grant",
      key: name,
      token: String(token),
      holder,
      client: String(request.holderInfo?.["host"] ?? "?"),
      ttlMs: forMs,
      store: this.server.name,
    });
    this.#watch(name);
    this.onChange(name);
    return record;
  }

  #extend(record: LeaseRecord, ttlMs: number, by: string): void {
    record.ttlMs = ttlMs;
    if (this.#flaw !== "no-expiry") record.expiresMs = this.#nowMs() + ttlMs;
    record.sinceMs = this.server.world.nowMs;
    const { name: key, token, holder } = record;
    this.server.world.history.add({ kind: "extend", key, token: String(token), holder, by });
    this.#watch(record.name);
    this.onChange(record.name);
  }

  #end(record: LeaseRecord, why: EndReason, by?: string): void {
    const { name: key, token, holder } = record;
    this.#records.delete(key);
    if (this.#flaw === "token-dies") this.#counters.delete(key);
    const heldMs = this.server.world.nowMs - record.sinceMs;
    const promisedMs = record.isOffer ? OFFER_MS : record.ttlMs;
    // Less a hair for rounding.
    const early = why === "expired" && heldMs < promisedMs * 0.999;
    this.server.world.history.add({
      kind: "end",
      key,
      token: String(token),
      holder,
      why,
      ...(by === undefined ? {} : { by }),
      ...(early ? { early } : {}),
    });
    this.onChange(key);
    const next = this.#nextWaiter(key);
    if (next === undefined) {
      this.onFreed(key);
      return;
    }
    const offer = this.#grant(next.request, OFFER_MS, true);
    this.server.world.history.add({
      kind: "served",
      key,
      client: String(next.request.holderInfo?.["host"] ?? "?"),
      holder: next.request.holder,
    });
    next.tell(grantOf(offer));
  }

  /** A counter on the scale of the server's time: one that was lost does not start again. */
  #draw(name: string): FencingToken {
    const last = this.#counters.get(name) ?? 0n;
    const floor = this.#flaw === "token-dies" ? 0n : BigInt(Math.floor(this.#nowMs() * 1_000));
    const token = last + 1n > floor ? last + 1n : floor;
    this.#counters.set(name, token);
    return toToken(token);
  }

  #heldOf({ holder, token, ttlMs, expiresMs, name, request, isOffer }: LeaseRecord): Held {
    const leftMs = Math.max(0, Math.ceil(expiresMs - this.#nowMs()));
    const waiters = this.#waiters.get(name)?.length ?? 0;
    const { holderInfo } = request;
    return {
      ...{ holder, token, waiters, why: "held" },
      ttlMs: isOffer ? OFFER_MS : ttlMs,
      ...(Number.isFinite(leftMs) ? { leftMs } : {}),
      ...(holderInfo === undefined ? {} : { holderInfo }),
    };
  }

  // The queue. Each waiter is told of its offer; a timer of the server notices an expiry.

  #makeQueue(): ModelQueue<FencingToken> {
    return {
      enqueue: (request, tell) => {
        const { name, holder } = request;
        const line = this.#waiters.get(name) ?? [];
        const mine = line.find((waiter) => waiter.request.holder === holder);
        const found = this.#look(name);
        if (found?.holder === holder) return tell(grantOf(found));
        if (mine !== undefined) return;
        const client = String(request.holderInfo?.["host"] ?? "?");
        this.server.world.history.add({ kind: "wait", key: name, client, holder });
        line.push({ request, tell, seenMs: this.server.world.nowMs });
        this.#waiters.set(name, line);
        if (found === undefined) {
          const next = this.#nextWaiter(name)!;
          const offer = this.#grant(next.request, OFFER_MS, true);
          this.server.world.history.add({ kind: "served", key: name, client, holder });
          next.tell(grantOf(offer));
        } else this.#watch(name);
      },
      touch: (name, holder) => {
        const found = this.#look(name);
        if (found?.holder === holder) return grantOf(found);
        const waiter = this.#waiters.get(name)?.find(({ request }) => request.holder === holder);
        if (waiter === undefined) return "gone";
        waiter.seenMs = this.server.world.nowMs;
        return "waiting";
      },
      leave: (name, holder) => {
        this.#leave(name, holder);
        const found = this.#look(name);
        if (found?.holder === holder && found.isOffer) this.#end(found, "released", holder);
      },
    };
  }

  #nextWaiter(name: string): Waiter | undefined {
    const line = this.#waiters.get(name);
    while (line !== undefined && line.length > 0) {
      const next = line.shift()!;
      if (line.length === 0) this.#waiters.delete(name);
      if (this.server.world.nowMs - next.seenMs <= SILENT_MS) return next;
      this.#leftQueue(name, next.request.holder);
    }
    return undefined;
  }

  /** Whether it stood there. */
  #leave(name: string, holder: string): boolean {
    const line = this.#waiters.get(name);
    const place = line?.findIndex(({ request }) => request.holder === holder) ?? -1;
    if (line === undefined || place < 0) return false;
    line.splice(place, 1);
    if (line.length === 0) this.#waiters.delete(name);
    this.#leftQueue(name, holder);
    return true;
  }

  #leftQueue(key: string, holder: string): void {
    this.server.world.history.add({ kind: "left", key, client: "?", holder });
  }

  /** Sees to it that an expiry is noticed while somebody waits. */
  #watch(name: string): void {
    this.#timers.get(name)?.cancel();
    this.#timers.delete(name);
    const record = this.#records.get(name);
    if (record === undefined || !this.#waiters.has(name)) return;
    const leftMs = record.expiresMs - this.#nowMs();
    if (!Number.isFinite(leftMs)) return;
    const check = (): void => {
      this.#timers.delete(name);
      if (this.#look(name) !== undefined) this.#watch(name);
    };
    this.#timers.set(name, this.server.runtime.timers.after(Math.max(0, leftMs), check));
  }
}

/** Milliseconds between two signs of life of a waiter. */
export const QUEUE_TOUCH_MS: number = TOUCH_EVERY_MS;

function grantOf({ name, holder, token, ttlMs }: LeaseRecord): Grant {
  return { name, holder, token: toToken(token), ttlMs };
}
