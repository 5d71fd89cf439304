/** Write transactions of one session, and the one step they share: handing a name on. */
import type { Grant, Held, HolderInfo } from "../../core/backend.js";
import { toToken } from "../../core/token.js";
import type { Connection, Machine } from "./client.js";
import type { LeaseRow, WaiterRow } from "./schema.js";
import type { Statements } from "./statements.js";
import type { Tokens } from "./tokens.js";
import { transact } from "./transaction.js";

/** How long an offer stands without a renewal, milliseconds. */
export const OFFER_MS = 1_000n;
/** How long a process may be silent before its waiters are passed over, milliseconds. */
const SILENT_MS = 5_000n;

/** A lease that was offered to a waiter. */
export interface Offer {
  readonly grant: Grant;
  readonly session: bigint;
  /** Where the process of the waiter listens. */
  readonly address: string | null;
}

/** What a ledger works with. */
export interface LedgerParts {
  readonly db: Connection;
  readonly statements: Statements;
  readonly tokens: Tokens;
  readonly machine: Machine;
  /** The session of this process. */
  readonly session: bigint;
  /** Whether leases of this process end when it does. */
  readonly endWithProcess: boolean;
  /** Told of each offer once it is committed. */
  readonly offered: (offer: Offer) => void;
  /** Told of each commit, with about how many rows it wrote. */
  readonly committed: (rows: number) => void;
}

/** The write side of one connection. */
export class Ledger {
  readonly statements: Statements;
  readonly tokens: Tokens;
  readonly session: bigint;
  /** What a lease's row says of the process that keeps it. */
  readonly leaseSession: bigint;
  readonly #parts: LedgerParts;
  #offers: Offer[] = [];

  constructor(parts: LedgerParts) {
    this.#parts = parts;
    this.statements = parts.statements;
    this.tokens = parts.tokens;
    this.session = parts.session;
    this.leaseSession = parts.endWithProcess ? parts.session : 0n;
  }

  /** Now, rounded down: a lease is live while its `expires` is greater. */
  now(): bigint {
    return BigInt(Math.floor(this.#parts.machine.nowMs()));
  }

  /** `ms` from now, rounded up: the store lets go late rather than early. */
  after(ms: number | bigint): bigint {
    return BigInt(Math.ceil(this.#parts.machine.nowMs())) + BigInt(ms);
  }

  /** A transaction of about `rows` rows, with the write lock from its start. All or nothing. */
  transact<R>(work: () => R, rows = 1): R {
    const { db, statements, tokens } = this.#parts;
    const undone = (): void => {
      this.#offers = [];
      tokens.forget();
    };
    const result = transact(db, statements, work, undone);
    const offers = this.#offers;
    if (offers.length > 0) this.#offers = [];
    for (const offer of offers) this.#parts.offered(offer);
    this.#parts.committed(rows);
    return result;
  }

  /** A single statement has committed by itself. */
  committed(): void {
    this.#parts.committed(1);
  }

  lease(name: string): LeaseRow | undefined {
    return this.statements.readLease.get(name) as LeaseRow | undefined;
  }

  /** The live lease or offer of a name, after an expired one was handed on. In a transaction. */
  settle(name: string): LeaseRow | undefined {
    const row = this.lease(name);
    if (row === undefined || row.expires > this.now()) return row;
    this.handOn(name);
    return row.queued === 0n ? undefined : this.lease(name);
  }

  /**
   * Ends the lease of a name: the first waiter that lives gets an offer, or the row goes. In a
   * transaction.
   */
  handOn(name: string): void {
    const { statements } = this;
    for (;;) {
      const first = statements.firstWaiter.get(name) as WaiterRow | undefined;
      if (first === undefined) break;
      statements.deleteWaiter.run(name, first.id);
      if (first.seen === null || first.seen + SILENT_MS <= this.now()) continue;
      this.#offer(name, first);
      return;
    }
    statements.deleteLease.run(name);
  }

  /** Takes a waiter out of the queue of a name. In a transaction. */
  removeWaiter(name: string, id: bigint): void {
    this.statements.deleteWaiter.run(name, id);
    if (!this.#hasWaiter(name)) this.statements.setQueued.run(0n, name);
  }

  #hasWaiter(name: string): boolean {
    return this.statements.hasWaiter.get(name, 0n) !== undefined;
  }

  #offer(name: string, { holder, ttl, info, session, address }: WaiterRow): void {
    const token = this.tokens.take();
    const queued = this.#hasWaiter(name) ? 1n : 0n;
    this.statements.offerLease.run(
      name, holder, token, ttl, this.after(OFFER_MS), info, session, queued,
    );
    const grant = { name, holder, token: toToken(token), ttlMs: Number(ttl) };
    this.#offers.push({ grant, session, address });
  }
}

/** The grant that a row stands for. */
export function grantOf({ name, holder, token, ttl }: LeaseRow): Grant {
  return { name, holder, token: toToken(token), ttlMs: Number(ttl) };
}

/** What a live row says to others. */
export function heldOf(row: LeaseRow, now: bigint, waiters: bigint): Held {
  const held: Held = {
    holder: row.holder,
    token: row.token,
    ttlMs: Number(row.ttl),
    // Rounded up on entry and down here, it could show a millisecond more than the TTL.
    leftMs: Math.min(Number(row.ttl), Math.max(0, Number(row.expires - now))),
    waiters: Number(waiters),
    why: "held",
  };
  return row.info === null ? held : { ...held, holderInfo: JSON.parse(row.info) as HolderInfo };
}
