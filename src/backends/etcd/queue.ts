/**
 * Waiters of one store: the contenders of a name in order of their keys' creation. Each watches the
 * one before it and no other, so that a release wakes one.
 *
 * A waiter has its turn when nobody is before it: that cannot change again. What it is told then
 * is an offer; the key becomes a lease by one write, which fails if the key is gone.
 */
import type { AcquireRequest, Call, Grant, Ticket } from "../../core/backend.js";
import type { Leases } from "./leases.js";
import {
  isAbsent,
  isCreatedIn,
  newest,
  oldest,
  put,
  range,
  type KeyRange,
  type Kv,
  type Txn,
} from "./requests.js";
import { sessionOver, type Store } from "./store.js";

/** How often the core says that its waiters live, milliseconds. */
export const TOUCH_EVERY_MS = 1_000;
const LOOK_MS = 2_000;
/** Between two looks where a watch could not be had. */
const PAUSE_MS = 250;

/** Who stands before a waiter. */
interface Before {
  readonly key: string;
  /** Whether nobody is before that one: its end is then the waiter's turn. */
  readonly isFirst: boolean;
  /** Revision at which this was so. */
  readonly revision: string;
}

/** The waiters of this process. */
export class Queue {
  readonly #store: Store;
  readonly #leases: Leases;

  constructor(store: Store, leases: Leases) {
    this.#store = store;
    this.#leases = leases;
  }

  async enqueue(request: AcquireRequest, call: Call): Promise<Ticket> {
    const { keys } = this.#store;
    const { name, holder } = request;
    const session = this.#store.sessionOf(request);
    const key = keys.lease(name, holder);
    const all = keys.name(name);
    const waiting = this.#leases.valueOf(request, session, "waiting");
    const txn: Txn = {
      compare: [isAbsent({ key }), isAbsent({ key: keys.void(holder) })],
      success: [put(key, waiting, session), newest(all, 2)],
      failure: [range({ key })],
    };
    const answer = await this.#leases.attempt(holder, session, txn, call, name);
    const { succeeded, revision, term } = answer;
    const [seen] = answer.found;
    if (succeeded) {
      const before = beforeIn(seen?.kvs[1], (seen?.count ?? 0) === 2, revision);
      return this.#place(request, session, BigInt(revision), term, before);
    }
    const own = seen?.kvs[0];
    // Given up, before this copy of it came.
    if (own === undefined) throw sessionOver(name);
    // Here already, perhaps under a session that has been given up since.
    const token = BigInt(own.create_revision);
    if (own.lease !== session) await this.#move(own, session, call, name);
    const unknown: Before = { key: "", isFirst: false, revision };
    return this.#place(request, session, token, term, unknown);
  }

  async touch(
    tickets: readonly Ticket[],
    call: Call,
  ): Promise<readonly ("waiting" | "gone" | Grant)[]> {
    const { keys, offers } = this.#store;
    const names = [...new Set(tickets.map(({ name }) => name))];
    const { found, term } = await this.#store.read(
      [
        ...tickets.map(({ name, holder }) =>
          range({ key: keys.lease(name, holder) }, { keys_only: true }),
        ),
        ...names.map((name) => oldest(keys.name(name))),
      ],
      { during: "say that waiters live", timeoutMs: call.timeoutMs },
    );
    const firsts = new Map(
      names.map((name, i) => [name, this.#store.firstIn(found[tickets.length + i], name)]),
    );
    for (const first of firsts.values()) {
      const isOwn = tickets.some(
        ({ name, holder }) => first?.record.key === keys.lease(name, holder),
      );
      if (first === undefined || isOwn || !offers.isOver(first.record)) continue;
      await this.#store.passOver(first.record, call);
    }
    return tickets.map((ticket, i) => {
      const [own] = found[i]?.kvs ?? [];
      if (own === undefined || !(ticket instanceof Place)) return "gone";
      if (BigInt(own.create_revision) !== ticket.token) return "gone";
      const first = firsts.get(ticket.name)?.record;
      return first?.key === own.key ? ticket.offer(term) : "waiting";
    });
  }

  #place(
    request: AcquireRequest,
    session: string,
    token: bigint,
    term: string,
    before: Before | undefined,
  ): Place {
    const { name, holder } = request;
    const key = this.#store.keys.lease(name, holder);
    return new Place({
      ...{ store: this.#store, key, all: this.#store.keys.name(name), token, term, before },
      ...{ name, holder },
      leave: async (call) => void (await this.#leases.release({ name, holder }, call)),
      offer: (epoch) => {
        const grant = this.#leases.grantOf(request, session, token, epoch);
        this.#leases.offered(grant, this.#leases.valueOf(request, session, "held"));
        return grant;
      },
    });
  }

  async #move(own: Kv, session: string, call: Call, name: string): Promise<void> {
    const compare = [isCreatedIn(own.key, BigInt(own.create_revision))];
    const success = [put(own.key, own.value ?? "", session)];
    const answer = await this.#store.change({ compare, success }, "queue anew", call, name);
    if (answer.isSessionOver) throw sessionOver(name);
  }
}

interface PlaceParts {
  readonly store: Store;
  readonly name: string;
  readonly holder: string;
  readonly key: string;
  readonly all: KeyRange;
  readonly token: bigint;
  readonly term: string;
  readonly before: Before | undefined;
  offer(term: string): Grant;
  leave(call: Call): Promise<void>;
}

/** One waiter. */
class Place implements Ticket {
  readonly name: string;
  readonly holder: string;
  readonly token: bigint;
  readonly #parts: PlaceParts;
  #before: Before | undefined;

  constructor(parts: PlaceParts) {
    this.#parts = parts;
    this.name = parts.name;
    this.holder = parts.holder;
    this.token = parts.token;
    this.#before = parts.before;
  }

  async turn(signal: AbortSignal): Promise<Grant | "gone"> {
    let { term } = this.#parts;
    for (;;) {
      signal.throwIfAborted();
      if (this.#before === undefined) return this.offer(term);
      const { key, isFirst } = this.#before;
      const end = key === "" ? { term } : await this.#ended(this.#before, signal);
      signal.throwIfAborted();
      if (end !== undefined && isFirst) return this.offer(end.term);
      const seen = await this.#look().catch(() => undefined);
      if (seen === "gone") return "gone";
      if (seen === undefined) await this.#pause(signal);
      else {
        term = seen.term;
        this.#before = seen.before;
        // Without a watch, looking again is all there is.
        if (end === undefined && seen.before !== undefined) await this.#pause(signal);
      }
    }
  }

  offer(term: string): Grant {
    return this.#parts.offer(term);
  }

  leave(call: Call): Promise<void> {
    return this.#parts.leave(call);
  }

  /**
   * Resolves once the key is deleted; with undefined when the watch has ended, because the member
   * went away or the revisions since the last look were compacted, and when the signal aborts.
   */
  #ended(before: Before, signal: AbortSignal): Promise<{ readonly term: string } | undefined> {
    return new Promise((resolve) => {
      const abort = (): void => done(undefined);
      const done = (end: { readonly term: string } | undefined): void => {
        signal.removeEventListener("abort", abort);
        stop();
        resolve(end);
      };
      signal.addEventListener("abort", abort);
      const stop = this.#parts.store.gateway.watch(
        {
          key: before.key,
          start_revision: String(BigInt(before.revision) + 1n),
          filters: ["NOPUT"],
        },
        {
          message: (result) => {
            const { canceled, events, header } = result as WatchMessage;
            if (canceled === true) done(undefined);
            else if ((events?.length ?? 0) > 0) done({ term: header?.raft_term ?? "0" });
          },
          ended: () => done(undefined),
        },
      );
    });
  }

  async #look(): Promise<{ readonly before: Before | undefined; readonly term: string } | "gone"> {
    const { store, key, all, token, name } = this.#parts;
    const { found, term, revision } = await store.read(
      [
        range({ key }, { keys_only: true }),
        newest(all, 1, token - 1n),
        range(all, { limit: "1", sort_order: "ASCEND", sort_target: "CREATE", keys_only: true }),
      ],
      { during: "look at the queue", lock: name, timeoutMs: LOOK_MS },
    );
    const [own, before, first] = found.map(({ kvs }) => kvs[0]);
    if (own === undefined || BigInt(own.create_revision) !== token) return "gone";
    return { before: beforeIn(before, before?.key === first?.key, revision), term };
  }

  #pause(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        timer.cancel();
        signal.removeEventListener("abort", done);
        resolve();
      };
      const timer = this.#parts.store.runtime.timers.after(PAUSE_MS, done);
      if (signal.aborted) done();
      else signal.addEventListener("abort", done);
    });
  }
}

interface WatchMessage {
  readonly header?: { readonly raft_term?: string };
  readonly canceled?: boolean;
  readonly events?: readonly object[];
}

function beforeIn(kv: Kv | undefined, isFirst: boolean, revision: string): Before | undefined {
  return kv === undefined ? undefined : { key: kv.key, isFirst, revision };
}
