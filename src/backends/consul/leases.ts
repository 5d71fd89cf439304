/**
 * Leases as keys that a session locks.
 *
 * A record is written once, by the transaction that locks it, and never again: a renewal renews the
 * session alone. So the `ModifyIndex` of the key is that of the grant for as long as the record
 * stands, and it is the token. It is a place in the log of the servers, higher than all before it
 * whatever became of the key; `LockIndex` starts at 1 again when a key was deleted.
 *
 * A released record is deleted, and so is that of a session that has died (`Behavior: "delete"`):
 * nothing stays of a name that nobody holds.
 */
import type { AcquireRequest, Call, Grant, Held, Released, Renewed } from "../../core/backend.js";
import { OutcomeUnknownError, UnavailableError } from "../../core/errors.js";
import { toToken } from "../../core/token.js";
import type { Client, During, Entry, Op, TxnAnswer } from "./client.js";
import type { Keys } from "./keys.js";
import { formatRecord, parseRecord, toHeld } from "./record.js";

/** A name may change hands between our look and our write; each try is one more such change. */
const TRIES = 5;
const MOST_GRANTS = 10_000;
const LOCK_DELAY = / due to lock delay$/;
const NO_SESSION = /^invalid session/;

type Answer = { readonly grant: Grant } | { readonly held: Held };

/** A grant as a caller may bring it. */
type Brought = Pick<Grant, "name" | "holder"> & { readonly token?: bigint };

/** Calls about leases. */
export class Leases {
  readonly #client: Client;
  readonly #keys: Keys;
  /** Holders by token, of the newest grants of this backend: their release needs no look. */
  readonly #granted = new Map<bigint, string>();

  constructor(client: Client, keys: Keys) {
    this.#client = client;
    this.#keys = keys;
  }

  /**
   * The store gives a session its own lock again. So a lock alone would let two holders of one
   * process in; `check-not-exists` in the same step lets in only the first.
   */
  async acquire(request: AcquireRequest, call: Call): Promise<Answer> {
    const { name, holder, ttlMs, holderInfo = {}, session } = request;
    if (session === undefined) throw failed("acquire a lease: it needs a session", false);
    const during = { ...bounds(call), during: `acquire ${JSON.stringify(name)}` };
    const key = this.#keys.lease(name);
    const value = formatRecord({ holder, ttlMs, info: holderInfo });
    const lock: Op = { verb: "lock", key, value, session };
    let ops: readonly Op[] = [{ verb: "check-not-exists", key }, lock];
    let held: Held = { why: "held" };
    for (let tries = 0; tries < TRIES; tries++) {
      const answer = await this.#client.txn(ops, during);
      const index = locked(answer, key);
      if (index !== undefined) return { grant: this.#grant(request, index, session) };
      if (isRefused(answer, LOCK_DELAY)) return { held: { why: "lock-delay" } };
      const [entry] = await this.#client.read([key], during);
      if (isRefused(answer, NO_SESSION)) throw failed(`${during.during}: its session has ended`);
      ops = [{ verb: "check-not-exists", key }, lock];
      if (entry === undefined) continue;
      held = toHeld(entry);
      if (entry.session === undefined) {
        // Unlocked by hand, or written by a stranger: free, and ours if it is still as we saw it.
        ops = [{ verb: "check-index", key, index: entry.index }, lock];
      } else if (parseRecord(entry)?.holder !== holder) {
        return { held };
      } else if (entry.session === session) {
        return { grant: this.#grant(request, entry.index, session) };
      } else {
        // Our own attempt, under a session that takes nothing new: waiting for its end would be
        // waiting for ourselves.
        ops = [{ verb: "check-index", key, index: entry.index }, { verb: "delete", key }, lock];
      }
    }
    return { held };
  }

  /** The session was renewed before; this looks whether the records are still there. */
  async renew(grants: readonly Grant[], call: Call): Promise<readonly Renewed[]> {
    if (grants.length === 0) return [];
    const keys = grants.map(({ name }) => this.#keys.lease(name));
    const during: During = { ...bounds(call), during: "renew leases", lane: "renewals" };
    const entries = await this.#client.read(keys, during);
    return grants.map((grant, place): Renewed => {
      const entry = entries[place];
      if (entry?.session === undefined) return { lost: "absent" };
      return isOf(entry, grant) ? "renewed" : { lost: toHeld(entry) };
    });
  }

  async release(requests: readonly Brought[], call: Call): Promise<readonly Released[]> {
    const [first] = requests;
    if (requests.length === 1 && first !== undefined) return [await this.#release(first, call)];
    return Promise.all(
      requests.map((request) =>
        this.#release(request, call).catch((error: unknown) => {
          if (error instanceof OutcomeUnknownError) return "unknown" as const;
          throw error;
        }),
      ),
    );
  }

  /**
   * A record with this index is the one that was granted, or seen, since a record is written only
   * once: the transaction compares the index, and a look before it the holder.
   */
  async #release(request: Brought, call: Call): Promise<Released> {
    const { name, holder, token } = request;
    const key = this.#keys.lease(name);
    const during = { ...bounds(call), during: `release ${JSON.stringify(name)}` };
    if (token !== undefined && this.#granted.get(token) === holder) {
      const wasHeld = await this.#end(key, token, during);
      this.#granted.delete(token);
      return wasHeld ? "released" : "not-held";
    }
    const [entry] = await this.#client.read([key], during);
    if (entry?.session === undefined || !isOf(entry, request)) return "not-held";
    return (await this.#end(key, entry.index, during)) ? "released" : "not-held";
  }

  async break(name: string, token: bigint, call: Call): Promise<boolean> {
    const key = this.#keys.lease(name);
    const during = { ...bounds(call), during: `break ${JSON.stringify(name)}` };
    const [entry] = await this.#client.read([key], during);
    if (entry?.session === undefined || entry.index !== token) return false;
    return this.#end(key, token, during);
  }

  async inspect(name: string, call: Call): Promise<Held | null> {
    const during = { ...bounds(call), during: `look at ${JSON.stringify(name)}` };
    const [entry] = await this.#client.read([this.#keys.lease(name)], during);
    return entry?.session === undefined ? null : toHeld(entry);
  }

  async *list(prefix: string, call: Call): AsyncIterable<Held & { readonly name: string }> {
    const during = { ...bounds(call), during: "list leases" };
    for (const entry of await this.#client.tree(this.#keys.lease(prefix), during)) {
      const name = this.#keys.name(entry.key);
      if (name !== undefined && entry.session !== undefined) yield { name, ...toHeld(entry) };
    }
  }

  #grant({ name, holder, ttlMs }: AcquireRequest, index: bigint, session: string): Grant {
    this.#granted.set(index, holder);
    // Those that were lost are never released: the oldest are forgotten.
    const [oldest] = this.#granted.size > MOST_GRANTS ? this.#granted.keys() : [];
    if (oldest !== undefined) this.#granted.delete(oldest);
    return { name, holder, token: toToken(index), ttlMs, session };
  }

  /** Deletes the record if it is still the one that was seen. */
  async #end(key: string, index: bigint, during: During): Promise<boolean> {
    // `delete-cas` would also succeed where the key is gone already.
    const ops: readonly Op[] = [
      { verb: "check-index", key, index },
      { verb: "delete", key },
    ];
    return "done" in (await this.#client.txn(ops, during));
  }
}

function bounds({ signal, timeoutMs }: Call): Pick<Call, "signal" | "timeoutMs"> {
  return { signal, timeoutMs };
}

function isOf(entry: Entry, { holder, token }: Brought): boolean {
  return parseRecord(entry)?.holder === holder && (token === undefined || entry.index === token);
}

/** The index of the lock in an answer that says so. */
function locked(answer: TxnAnswer, key: string): bigint | undefined {
  return "done" in answer ? answer.done.findLast((entry) => entry.key === key)?.index : undefined;
}

function isRefused(answer: TxnAnswer, why: RegExp): boolean {
  return "refused" in answer && answer.refused.some(({ what }) => why.test(what));
}

function failed(what: string, retryable = true): UnavailableError {
  return new UnavailableError(`cannot ${what}`, { backend: "consul", retryable });
}
