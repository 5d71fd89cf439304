/**
 * The queue as this process sees it: its own waiters, and what it must look at for them.
 *
 * Whoever ends a lease offers it to the first waiter in the same transaction, then wakes that
 * waiter's process. What nobody tells is looked for: waiters keep a timer for the expiry of the
 * lease, and every touch (each 500 ms) repeats lost offers, hands on what has expired, and watches
 * the processes of the holder and of the waiter just before.
 */
import type { AcquireRequest, Answer, Call, Grant, Ticket } from "../../core/backend.js";
import type { Timer, Timers } from "../../core/clock.js";
import { grantOf, OFFER_MS, type Ledger, type Offer } from "./ledger.js";
import { infoText } from "./leases.js";
import type { Peers } from "./peers.js";
import type { LeaseRow, SessionRow } from "./schema.js";

/** Longest pause between two looks at a name, for those who do not touch; an offer lasts longer. */
const LOOK_EVERY_MS = 600;
/** How much later than the first in line the others look at an expired lease, milliseconds. */
const PATIENCE_MS = 50;

/** How often waiters say that they live; also the safety look of `queue.ts`. */
export const TOUCH_EVERY_MS = 500;

/** Runs a try until it gets the write lock. */
export type Run = <R>(during: string, call: Call, attempt: () => R) => Answer<R>;

interface Waiter {
  readonly name: string;
  readonly holder: string;
  readonly id: bigint;
  outcome: Grant | "gone" | undefined;
  hear: ((outcome: Grant | "gone") => void) | undefined;
}

/** What the queue works with. */
export interface QueueParts {
  readonly ledger: Ledger;
  readonly peers: Peers;
  readonly timers: Timers;
  readonly run: Run;
  /** Hands on an expired lease when no call is there to do it. */
  readonly lookLater: (during: string, attempt: () => void) => void;
}

interface Place {
  readonly id: bigint;
  readonly holder: string;
}

/** The waiters of this process. */
export class Queue {
  readonly #parts: QueueParts;
  readonly #waiters = new Map<string, Waiter>();
  readonly #timers = new Map<string, Timer>();

  constructor(parts: QueueParts) {
    this.#parts = parts;
  }

  async enqueue(request: AcquireRequest, call: Call): Promise<Ticket> {
    const { ledger, run } = this.#parts;
    const { name, holder } = request;
    const waiter = await run("wait for a lease", call, () => {
      const { id, row } = ledger.transact(() => this.#enqueueLocked(request));
      const outcome = row.holder === holder ? grantOf(row) : undefined;
      const placed: Waiter = { name, holder, id, outcome, hear: undefined };
      if (outcome !== undefined) return placed;
      // Known before anything else can run: an offer may come in the same turn.
      this.#waiters.set(holder, placed);
      this.#follow(name, row, id);
      return placed;
    });
    return this.#ticket(waiter);
  }

  async touch(
    tickets: readonly Ticket[],
    call: Call,
  ): Promise<readonly ("waiting" | "gone" | Grant)[]> {
    const { ledger, run } = this.#parts;
    const rows = new Map<string, LeaseRow | undefined>();
    const answers = await run("say that waiters live", call, () => {
      rows.clear();
      return ledger.transact(() => {
        ledger.statements.setSeen.run(ledger.now(), ledger.session);
        return tickets.map((ticket) => this.#standing(ticket, rows));
      });
    });
    for (const [i, { name, holder }] of tickets.entries()) {
      const answer = answers[i]!;
      if (answer !== "waiting") {
        this.#tell(holder, answer);
        continue;
      }
      const row = rows.get(name);
      const waiter = this.#waiters.get(holder);
      if (row === undefined || waiter === undefined) continue;
      rows.delete(name);
      this.#follow(name, row, waiter.id);
    }
    return answers;
  }

  /** An offer of this process's own making is committed. */
  offered({ grant, session, address }: Offer): void {
    const { ledger, peers } = this.#parts;
    if (session === ledger.session) this.#tell(grant.holder, grant);
    else if (address !== null) peers.wake({ session, address }, grant.holder);
  }

  /** Another process says that this waiter may have been offered a lease. */
  woken(holder: string): void {
    const waiter = this.#waiters.get(holder);
    if (waiter === undefined) return;
    try {
      const row = this.#parts.ledger.lease(waiter.name);
      if (row?.holder === holder) this.#tell(holder, grantOf(row));
    } catch {
      // The next touch repeats what could not be read now.
    }
  }

  /** Waiters of a process that is closing hear that their place is gone. */
  close(): void {
    for (const timer of this.#timers.values()) timer.cancel();
    this.#timers.clear();
    for (const holder of [...this.#waiters.keys()]) this.#tell(holder, "gone");
  }

  #enqueueLocked(request: AcquireRequest): { readonly id: bigint; readonly row: LeaseRow } {
    const { ledger } = this.#parts;
    const { statements, session, leaseSession, tokens } = ledger;
    const { name, holder } = request;
    const ttl = BigInt(request.ttlMs);
    const info = infoText(request.holderInfo);
    const row = ledger.settle(name);
    if (row === undefined) {
      const until = ledger.after(OFFER_MS);
      const token = tokens.take();
      statements.insertLease.run(name, holder, token, ttl, until, info, leaseSession, 1n);
      return { id: 0n, row: ledger.lease(name)! };
    }
    if (row.holder === holder) return { id: 0n, row };
    if (statements.findWaiter.get(name, holder) === undefined) {
      statements.insertWaiter.run(name, holder, ttl, info, session, name);
      statements.setSeen.run(ledger.now(), session);
      if (row.queued === 0n) statements.setQueued.run(1n, name);
    }
    const { id } = statements.findWaiter.get(name, holder) as { id: bigint };
    return { id, row };
  }

  #standing(
    { name, holder }: Ticket,
    rows: Map<string, LeaseRow | undefined>,
  ): "waiting" | "gone" | Grant {
    const { ledger } = this.#parts;
    if (!rows.has(name)) {
      if (ledger.settle(name) === undefined) ledger.handOn(name);
      rows.set(name, ledger.lease(name));
    }
    const row = rows.get(name);
    if (row?.holder === holder) return grantOf(row);
    const id = this.#waiters.get(holder)?.id ?? 0n;
    // By the id, since a place is found by that at once; but an id may have come again.
    const found = ledger.statements.hasWaiter.get(name, id) as Place | undefined;
    return found?.id === id && found.holder === holder ? "waiting" : "gone";
  }

  #tell(holder: string, outcome: Grant | "gone"): void {
    const waiter = this.#waiters.get(holder);
    if (waiter === undefined) return;
    this.#waiters.delete(holder);
    waiter.outcome = outcome;
    waiter.hear?.(outcome);
  }

  #ticket(waiter: Waiter): Ticket {
    const { name, holder } = waiter;
    return {
      name,
      holder,
      turn: (signal) =>
        new Promise((resolve, reject) => {
          signal.throwIfAborted();
          if (waiter.outcome !== undefined) {
            resolve(waiter.outcome);
            return;
          }
          const onAbort = (): void => {
            waiter.hear = undefined;
            reject(signal.reason);
          };
          waiter.hear = (outcome) => {
            signal.removeEventListener("abort", onAbort);
            resolve(outcome);
          };
          signal.addEventListener("abort", onAbort, { once: true });
        }),
      leave: (call) => this.#leave(waiter, call),
    };
  }

  async #leave({ name, holder, id }: Waiter, call: Call): Promise<void> {
    const { ledger, run } = this.#parts;
    this.#waiters.delete(holder);
    await run("leave the queue", call, () =>
      ledger.transact(() => {
        const row = ledger.lease(name);
        // A lease that was confirmed is left alone.
        if (row?.holder === holder && row.offered === 1n) ledger.handOn(name);
        else if (row !== undefined && row.holder !== holder && id > 0n) {
          const found = ledger.statements.findWaiter.get(name, holder);
          if (found !== undefined) ledger.removeWaiter(name, id);
        }
      }),
    );
  }

  /** Watches whom a waiter of this process stands behind, and the clock. */
  #follow(name: string, row: LeaseRow, id: bigint): void {
    let isFirst = false;
    try {
      const { waiterBefore } = this.#parts.ledger.statements;
      const before = waiterBefore.get(name, id) as { session: bigint } | undefined;
      isFirst = before === undefined;
      this.#watch(row.session);
      if (before !== undefined) this.#watch(before.session);
    } catch {
      // What could not be read now is read by the next look.
    }
    this.#lookAt(name, row, isFirst);
  }

  #watch(session: bigint): void {
    const { ledger, peers } = this.#parts;
    if (session === 0n || session === ledger.session) return;
    const row = ledger.statements.readSession.get(session) as SessionRow | undefined;
    const address = row?.address ?? null;
    if (address !== null) peers.watch({ session, address });
  }

  /**
   * Looks again when the lease has expired: on time for the first in line, a little later for the
   * others; and now and then in any case, in case nobody touches.
   */
  #lookAt(name: string, { expires }: LeaseRow, isFirst: boolean): void {
    const { ledger, timers, lookLater } = this.#parts;
    const leftMs = Number(expires - ledger.now()) + (isFirst ? 0 : PATIENCE_MS);
    const delayMs = Math.min(LOOK_EVERY_MS, Math.max(0, leftMs));
    const look = (): void => {
      this.#timers.delete(name);
      const mine = [...this.#waiters.values()].find((waiter) => waiter.name === name);
      if (mine === undefined) return;
      lookLater("hand on an expired lease", () => {
        let row = ledger.lease(name);
        if (row === undefined || row.expires <= ledger.now()) {
          ledger.transact(() => {
            if (ledger.settle(name) === undefined) ledger.handOn(name);
          });
          row = ledger.lease(name);
        }
        if (row !== undefined) this.woken(row.holder);
        if (!this.#waiters.has(mine.holder)) return;
        const found = ledger.statements.findWaiter.get(name, mine.holder);
        if (row === undefined || found === undefined) this.#tell(mine.holder, "gone");
        else this.#follow(name, row, mine.id);
      });
    };
    this.#timers.get(name)?.cancel();
    this.#timers.set(name, timers.after(delayMs, look, { ref: false }));
  }
}
