/** The grants of one store in their order: so two stores speak of the same ones. */
import type { Call, Grant, Held } from "../../../src/core/backend.js";
import type { FencingToken } from "../../../src/core/token.js";
import type { Terms } from "./store.js";

/** A grant of either kind of store. */
export type AnyGrant = Grant<FencingToken | undefined>;

/** Long enough for a server that elects a leader meanwhile. */
export const CALL: Call = { signal: new AbortController().signal, timeoutMs: 15_000 };

/** Steps of one comparison take less time. */
const STEPS_TAKE_MS = 300_000;

/** Grants by number, and what the store shows in their terms. */
export class Known {
  readonly grants: AnyGrant[] = [];
  readonly #terms: Terms;
  readonly #epochs: (string | undefined)[] = [];
  readonly #versions = new Map<string, string>();

  constructor(terms: Terms) {
    this.#terms = terms;
  }

  /** The one that a step is about. */
  nth(nth: number): AnyGrant | undefined {
    return this.grants[Math.floor(nth * this.grants.length)];
  }

  /** The last one of a name. */
  lastOf(name: string): AnyGrant | undefined {
    return this.grants.findLast((grant) => grant.name === name);
  }

  /** Number and rank of a grant: how its token stands to all before it of this name. */
  note(grant: AnyGrant): string {
    const { name, holder, token, ttlMs, storeEpoch } = grant;
    const before = this.grants.filter((one) => one.name === name);
    const last = before.findLast((one) => one.holder === holder && one.token === token);
    const highest = before.reduce((most, one) => (most > one.token! ? most : one.token!), -1n);
    let rank: string;
    if (last !== undefined) {
      rank = "again";
      this.grants[this.grants.indexOf(last)] = grant;
    } else {
      if (token === undefined || token > highest) rank = "the next token";
      else rank = token === highest ? "the same token" : "a lower token";
      this.grants.push(grant);
    }
    const told = [`#${this.grants.lastIndexOf(grant)}`, rank, `${ttlMs} ms`];
    if (this.#terms.epoch === true) told.push(`epoch ${this.#epoch(storeEpoch)}`);
    return told.join(", ");
  }

  /** What the store shows of a name. */
  shown(name: string, held: Held): string {
    const { holder, token, ttlMs, leftMs, version, waiters, why } = held;
    const told = [`${holder ?? "somebody"} has ${this.#numberOf(name, holder, token)}`];
    if (why !== "held") told.push(why);
    if (this.#terms.ttl === true) told.push(`${ttlMs} ms`);
    if (this.#terms.left === true) {
      const isWhole = leftMs !== undefined && ttlMs! - leftMs < STEPS_TAKE_MS && leftMs <= ttlMs!;
      told.push(isWhole ? "all of it left" : `${leftMs} ms left`);
    }
    if (this.#terms.version === true) {
      const isSame = version === this.#versions.get(name);
      told.push(isSame ? "unmoved" : "moved");
      this.#versions.set(name, version!);
    }
    if ((waiters ?? 0) > 0) told.push(`${waiters} wait`);
    return told.join(", ");
  }

  #numberOf(name: string, holder: string | undefined, token: bigint | undefined): string {
    const place = this.grants.findLastIndex(
      (one) => one.name === name && one.holder === holder && one.token === token,
    );
    return place < 0 ? "an unknown grant" : `#${place}`;
  }

  #epoch(epoch: string | undefined): string {
    if (epoch === undefined) return "untold";
    const known = this.#epochs.indexOf(epoch);
    return String(known < 0 ? this.#epochs.push(epoch) : known + 1);
  }
}
