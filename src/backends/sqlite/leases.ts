/** Granting, renewing and ending leases: each method is one try, and throws what SQLite throws. */
import type { AcquireRequest, Grant, Held, ReleaseRequest, Renewed } from "../../core/backend.js";
import { toToken } from "../../core/token.js";
import { grantOf, heldOf, type Ledger } from "./ledger.js";
import type { LeaseRow } from "./schema.js";

/** Held by somebody, and by which session. */
export interface HeldBy {
  readonly held: Held;
  readonly session: bigint;
}

/** The leases of a file. */
export class Leases {
  readonly #ledger: Ledger;

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  acquire(request: AcquireRequest): { readonly grant: Grant } | HeldBy {
    const grant = this.#grantFree(request);
    if (grant !== undefined) return { grant };
    const row = this.#ledger.lease(request.name);
    if (row !== undefined && row.holder !== request.holder && row.expires > this.#ledger.now()) {
      return this.#heldBy(row);
    }
    return this.#ledger.transact(() => this.#acquireLocked(request));
  }

  /** One outcome per grant, in one transaction. */
  renew(grants: readonly Grant[]): readonly Renewed[] {
    if (grants.length === 1) return [this.#renewOne(grants[0]!)];
    return this.#ledger.transact(() => this.#renewMany(grants), grants.length);
  }

  release(requests: readonly ReleaseRequest[]): readonly ("released" | "not-held")[] {
    if (requests.length === 1) return [this.#releaseOne(requests[0]!)];
    const work = () => requests.map((request) => this.#releaseLocked(request));
    return this.#ledger.transact(work, requests.length);
  }

  break(name: string, token: bigint): boolean {
    return this.#ledger.transact(() => {
      const row = this.#ledger.settle(name);
      if (row?.token !== token) return false;
      this.#ledger.handOn(name);
      return true;
    });
  }

  inspect(name: string): Held | null {
    const row = this.#ledger.lease(name);
    return row === undefined || row.expires <= this.#ledger.now() ? null : this.#heldBy(row).held;
  }

  /** Some live leases with names after `after`, and the last name looked at, if any is left. */
  page(after: string, prefix: string): Page {
    const rows = this.#ledger.statements.listLeases.all(after) as LeaseRow[];
    const now = this.#ledger.now();
    const leases: (Held & { readonly name: string })[] = [];
    for (const row of rows) {
      if (!row.name.startsWith(prefix)) return { leases, last: undefined };
      if (row.expires > now) leases.push({ name: row.name, ...this.#heldBy(row).held });
    }
    return { leases, last: rows.at(-1)?.name };
  }

  /**
   * The whole of an uncontended acquire is this statement. It does nothing where the name has a
   * row, or where another process took the last block of tokens.
   */
  #grantFree({ name, holder, ttlMs, holderInfo }: AcquireRequest): Grant | undefined {
    const { tokens, statements, session, leaseSession } = this.#ledger;
    const token = tokens.candidate();
    if (token === undefined) return undefined;
    const info = infoText(holderInfo);
    const expires = this.#ledger.after(ttlMs);
    const ttl = BigInt(ttlMs);
    let changes: number | bigint = 1;
    try {
      ({ changes } = statements.grantFree.run(
        name, holder, token, ttl, expires, info, leaseSession, session,
      ));
    } finally {
      // Also after an error, which may hide a grant.
      if (Number(changes) > 0) tokens.used();
    }
    if (Number(changes) === 0) return undefined;
    this.#ledger.committed();
    return { name, holder, token: toToken(token), ttlMs };
  }

  #acquireLocked(request: AcquireRequest): { readonly grant: Grant } | HeldBy {
    const { name, holder, ttlMs, holderInfo } = request;
    const { statements, tokens, leaseSession } = this.#ledger;
    const row = this.#ledger.settle(name);
    if (row === undefined) {
      const token = tokens.take();
      statements.insertLease.run(
        name, holder, token, BigInt(ttlMs), this.#ledger.after(ttlMs), infoText(holderInfo),
        leaseSession, 0n,
      );
      return { grant: { name, holder, token: toToken(token), ttlMs } };
    }
    if (row.holder !== holder) return this.#heldBy(row);
    // The core counts the deadline from the request that was answered, so a repeat starts anew.
    statements.confirmLease.run(BigInt(ttlMs), this.#ledger.after(ttlMs), leaseSession, name);
    return { grant: { ...grantOf(row), ttlMs } };
  }

  #renewOne({ name, holder, token, ttlMs }: Grant): Renewed {
    const { statements, leaseSession } = this.#ledger;
    const done = statements.renewLease.run(
      BigInt(ttlMs), this.#ledger.after(ttlMs), leaseSession, name, holder, token,
      this.#ledger.now(),
    );
    return Number(done.changes) > 0 ? "renewed" : this.#lost(name);
  }

  /**
   * One statement for all leases of the same TTL, which tells no more than how many it renewed:
   * having it tell which takes twice the time.
   */
  #renewMany(grants: readonly Grant[]): readonly Renewed[] {
    const { statements, leaseSession } = this.#ledger;
    const byTtl = new Map<number, Map<string, string>>();
    for (const { name, holder, token, ttlMs } of grants) {
      const wanted = byTtl.get(ttlMs) ?? new Map<string, string>();
      byTtl.set(ttlMs, wanted.set(name, `${token} ${holder}`));
    }
    let count = 0;
    for (const [ttlMs, wanted] of byTtl) {
      const json = JSON.stringify(Object.fromEntries(wanted));
      const done = statements.renewLeases.run(
        BigInt(ttlMs), this.#ledger.after(ttlMs), leaseSession, json, this.#ledger.now(),
      );
      count += Number(done.changes);
    }
    if (count === grants.length) return grants.map(() => "renewed");
    // Some lease is gone, or is asked for twice: each by itself.
    return grants.map((grant) => this.#renewOne(grant));
  }

  #lost(name: string): Renewed {
    const row = this.#ledger.lease(name);
    if (row === undefined || row.expires <= this.#ledger.now()) return { lost: "absent" };
    return { lost: this.#heldBy(row).held };
  }

  #releaseOne(request: ReleaseRequest): "released" | "not-held" {
    const { name, holder, token } = request;
    if (token !== undefined) {
      const { endLease } = this.#ledger.statements;
      if (Number(endLease.run(name, holder, token, this.#ledger.now()).changes) > 0) {
        this.#ledger.committed();
        return "released";
      }
      // A grant that is not there now never comes back: no need for the write lock.
      const row = this.#ledger.lease(name);
      if (row?.holder !== holder || row.token !== token) return "not-held";
    }
    return this.#ledger.transact(() => this.#releaseLocked(request));
  }

  #releaseLocked({ name, holder, token }: ReleaseRequest): "released" | "not-held" {
    const row = this.#ledger.lease(name);
    if (row === undefined) return "not-held";
    if (row.holder === holder && (token === undefined || row.token === token)) {
      const wasLive = row.expires > this.#ledger.now();
      this.#ledger.handOn(name);
      return wasLive ? "released" : "not-held";
    }
    if (token !== undefined) return "not-held";
    const { findWaiter } = this.#ledger.statements;
    const waiter = findWaiter.get(name, holder) as { id: bigint } | undefined;
    if (waiter === undefined) return "not-held";
    this.#ledger.removeWaiter(name, waiter.id);
    return "released";
  }

  #heldBy(row: LeaseRow): HeldBy {
    const { countWaiters } = this.#ledger.statements;
    const count = row.queued === 0n ? 0n : (countWaiters.get(row.name) as { n: bigint }).n;
    return { held: heldOf(row, this.#ledger.now(), count), session: row.session };
  }
}

/** Part of a list. */
export interface Page {
  readonly leases: readonly (Held & { readonly name: string })[];
  readonly last: string | undefined;
}

/** Holder info as it is stored. */
export function infoText(info: AcquireRequest["holderInfo"]): string | null {
  return info === undefined ? null : JSON.stringify(info);
}
