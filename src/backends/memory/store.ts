import type { AcquireRequest, Grant, Held, ReleaseRequest, Renewed } from "../../core/backend.js";
import type { Timer } from "../../core/clock.js";
import { ArgumentTypeError } from "../../core/errors.js";
import type { Runtime } from "../../core/runtime.js";
import { toToken, type FencingToken } from "../../core/token.js";
import { Queue, type Waiter } from "./queue.js";

/** How long an offer stands without a renewal, milliseconds. */
const OFFER_MS = 1_000;
const BEAT_MS = 1_000;
/** Beats without a touch after which a waiter is taken for dead. */
const SILENT_BEATS = 4;
const SWEEP_FROM = 1_024;

/** What the store needs of a runtime. */
export type StoreRuntime = Pick<Runtime, "clock" | "timers" | "random">;

/** Settings of one store in memory. */
export interface MemoryStoreOptions {
  /** Clock, timers and randomness. */
  readonly runtime: StoreRuntime;
  /** Default: a random id. */
  readonly storeId?: string;
  /** The first token. Default: the wall clock in microseconds. */
  readonly firstToken?: bigint;
}

/** The one record of a name: a lease, or (while `offered`) the offer to a waiter. */
interface Entry {
  readonly name: string;
  request: AcquireRequest;
  token: FencingToken;
  expiresMs: number;
  offered: boolean;
  /** Present once somebody has waited; an entry with waiters always has a record. */
  queue: Queue | undefined;
  timer: Timer | undefined;
}

/**
 * The state that several clients of one process share. All steps are synchronous, and so atomic.
 *
 * A name has one entry, which is a lease or an offer. When a lease is released, broken or expires,
 * the first waiter gets the entry as an offer; when nobody waits the entry is deleted. An offer
 * that is not renewed expires like a lease and goes to the next.
 *
 * Expiry is decided whenever a name is looked at. A timer exists only for names with waiters, to
 * hand over on time; one store-wide beat drops waiters that went silent. Beats are counted, not
 * milliseconds: after a blocked event loop the beat fires once, so the block is not held against
 * waiters whose own timers were stopped by it.
 */
export class MemoryStore {
  readonly storeId: string;
  /** Whether the id was given, and so may outlive this store. */
  readonly isNamed: boolean;
  readonly #runtime: StoreRuntime;
  readonly #entries = new Map<string, Entry>();
  readonly #contended = new Set<Entry>();
  #nextToken: bigint;
  #sweepAt = SWEEP_FROM;
  #beat = 0;
  #beatTimer: Timer | undefined;

  /** @throws TypeError or RangeError for wrong options. */
  constructor(options: MemoryStoreOptions) {
    const { storeId, firstToken } = options;
    if (storeId !== undefined && (typeof storeId !== "string" || storeId === "")) {
      throw new ArgumentTypeError("storeId", storeId, "text of 1 character or more");
    }
    if (firstToken !== undefined) toToken(firstToken);
    this.#runtime = options.runtime;
    this.storeId = storeId ?? options.runtime.random.id();
    this.isNamed = storeId !== undefined;
    const wallUs = Math.floor(options.runtime.clock.wallMs() * 1_000);
    this.#nextToken = firstToken ?? BigInt(wallUs);
  }

  /** Number of records kept, expired ones included until they are looked at or swept. */
  get size(): number {
    return this.#entries.size;
  }

  acquire(request: AcquireRequest): { readonly grant: Grant } | { readonly held: Held } {
    const entry = this.#look(request.name);
    if (entry === undefined) return { grant: grantOf(this.#grant(request, request.ttlMs, false)) };
    if (entry.request.holder !== request.holder) return { held: this.#heldOf(entry) };
    // The core counts the deadline from the request that was answered, so a repeat starts anew.
    entry.request = request;
    this.#confirm(entry, request.ttlMs);
    return { grant: grantOf(entry) };
  }

  renew(grant: Grant): Renewed {
    const entry = this.#look(grant.name);
    if (entry === undefined) return { lost: "absent" };
    if (!isOf(entry, grant.holder, grant.token)) return { lost: this.#heldOf(entry) };
    this.#confirm(entry, grant.ttlMs);
    return "renewed";
  }

  release(request: ReleaseRequest): boolean {
    const entry = this.#look(request.name);
    if (entry === undefined) return false;
    if (isOf(entry, request.holder, request.token)) {
      this.#pass(entry);
      return true;
    }
    return request.token === undefined && this.#leaveQueue(entry, request.holder);
  }

  break(name: string, token: bigint): boolean {
    const entry = this.#look(name);
    if (entry === undefined || entry.token !== token) return false;
    this.#pass(entry);
    return true;
  }

  inspect(name: string): Held | null {
    const entry = this.#look(name);
    return entry === undefined ? null : this.#heldOf(entry);
  }

  *list(prefix: string): Iterable<Held & { readonly name: string }> {
    for (const name of [...this.#entries.keys()]) {
      if (!name.startsWith(prefix)) continue;
      const held = this.inspect(name);
      if (held !== null) yield { name, ...held };
    }
  }

  /** Takes a place, or the offer at once on a free name. */
  enqueue(request: AcquireRequest): void {
    const entry = this.#look(request.name);
    if (entry === undefined) {
      this.#grant(request, OFFER_MS, true);
      return;
    }
    if (entry.request.holder === request.holder) return;
    if (entry.queue?.get(request.holder) !== undefined) return;
    entry.queue ??= new Queue();
    entry.queue.add(request, this.#beat);
    this.#contended.add(entry);
    if (entry.timer === undefined) this.#armTimer(entry);
    this.#armBeat();
  }

  /** Where a waiter stands; with `alive` also noted as living. */
  standing(name: string, holder: string, alive: boolean): Waiter | Grant | "gone" {
    const entry = this.#look(name);
    if (entry === undefined) return "gone";
    if (entry.request.holder === holder) return grantOf(entry);
    const waiter = entry.queue?.get(holder);
    if (waiter === undefined) return "gone";
    if (alive) waiter.beat = this.#beat;
    return waiter;
  }

  /** Gives up a place or an offer; a lease that was confirmed is left alone. */
  leave(name: string, holder: string): void {
    const entry = this.#look(name);
    if (entry === undefined) return;
    if (entry.request.holder !== holder) this.#leaveQueue(entry, holder);
    else if (entry.offered) this.#pass(entry);
  }

  /** Whether exactly this lease is live, decided in the same turn of the event loop. */
  holds(name: string, holder: string, token: bigint): boolean {
    const entry = this.#look(name);
    return entry !== undefined && !entry.offered && isOf(entry, holder, token);
  }

  /** Drops all records and timers; waiters hear that their place is gone. */
  close(): void {
    for (const entry of this.#contended) {
      for (const waiter of entry.queue?.all() ?? []) this.#drop(entry, waiter);
    }
    this.#entries.clear();
  }

  /** The entry of a name after expiry has been decided. */
  #look(name: string): Entry | undefined {
    const entry = this.#entries.get(name);
    if (entry === undefined || this.#runtime.clock.monotonicMs() < entry.expiresMs) return entry;
    this.#pass(entry);
    return this.#entries.get(name);
  }

  #grant(request: AcquireRequest, forMs: number, offered: boolean): Entry {
    if (this.#entries.size >= this.#sweepAt) this.#sweep();
    const entry: Entry = {
      name: request.name,
      request,
      token: this.#drawToken(),
      expiresMs: this.#runtime.clock.monotonicMs() + forMs,
      offered,
      queue: undefined,
      timer: undefined,
    };
    this.#entries.set(request.name, entry);
    return entry;
  }

  #confirm(entry: Entry, ttlMs: number): void {
    entry.offered = false;
    if (entry.request.ttlMs !== ttlMs) entry.request = { ...entry.request, ttlMs };
    entry.expiresMs = this.#runtime.clock.monotonicMs() + ttlMs;
    if (entry.queue !== undefined) this.#armTimer(entry);
  }

  /** Ends the present lease or offer: the first waiter gets an offer, or the entry goes. */
  #pass(entry: Entry): void {
    const next = entry.queue?.shift();
    if (next === undefined) {
      this.#entries.delete(entry.name);
      return;
    }
    entry.request = next.request;
    entry.token = this.#drawToken();
    entry.expiresMs = this.#runtime.clock.monotonicMs() + OFFER_MS;
    entry.offered = true;
    this.#settleQueue(entry);
    next.hear?.(grantOf(entry));
  }

  #leaveQueue(entry: Entry, holder: string): boolean {
    const waiter = entry.queue?.get(holder);
    if (waiter === undefined) return false;
    this.#drop(entry, waiter);
    return true;
  }

  #drop(entry: Entry, waiter: Waiter): void {
    entry.queue?.remove(waiter);
    this.#settleQueue(entry);
    waiter.hear?.("gone");
  }

  #settleQueue(entry: Entry): void {
    if (entry.queue !== undefined && entry.queue.size > 0) {
      this.#armTimer(entry);
      return;
    }
    entry.timer?.cancel();
    entry.timer = undefined;
    entry.queue = undefined;
    this.#contended.delete(entry);
    if (this.#contended.size > 0) return;
    this.#beatTimer?.cancel();
    this.#beatTimer = undefined;
  }

  #armTimer(entry: Entry): void {
    entry.timer?.cancel();
    const leftMs = Math.max(0, entry.expiresMs - this.#runtime.clock.monotonicMs());
    entry.timer = this.#runtime.timers.after(
      leftMs,
      () => {
        entry.timer = undefined;
        if (this.#look(entry.name) === entry && entry.queue !== undefined) this.#armTimer(entry);
      },
      { ref: false },
    );
  }

  #armBeat(): void {
    this.#beatTimer ??= this.#runtime.timers.after(
      BEAT_MS,
      () => {
        this.#beatTimer = undefined;
        this.#beat += 1;
        for (const entry of [...this.#contended]) {
          for (const waiter of entry.queue?.all() ?? []) {
            if (this.#beat - waiter.beat > SILENT_BEATS) this.#drop(entry, waiter);
          }
        }
        if (this.#contended.size > 0) this.#armBeat();
      },
      { ref: false },
    );
  }

  /** Forgets expired records that nobody looks at; its cost is spread over as many grants. */
  #sweep(): void {
    for (const name of [...this.#entries.keys()]) this.#look(name);
    this.#sweepAt = Math.max(SWEEP_FROM, this.#entries.size * 2);
  }

  #drawToken(): FencingToken {
    const token = toToken(this.#nextToken);
    this.#nextToken += 1n;
    return token;
  }

  #heldOf(entry: Entry): Held {
    const { holder, holderInfo, ttlMs } = entry.request;
    const leftMs = Math.max(0, Math.ceil(entry.expiresMs - this.#runtime.clock.monotonicMs()));
    const waiters = entry.queue?.size ?? 0;
    const held: Held = { holder, token: entry.token, ttlMs, leftMs, waiters, why: "held" };
    return holderInfo === undefined ? held : { ...held, holderInfo };
  }
}

function isOf(entry: Entry, holder: string, token: bigint | undefined): boolean {
  return entry.request.holder === holder && (token === undefined || entry.token === token);
}

function grantOf(entry: Entry): Grant {
  const { name, holder, ttlMs } = entry.request;
  return { name, holder, token: entry.token, ttlMs };
}
