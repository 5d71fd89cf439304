/** Grants of one store: acquired, renewed, given back, broken and shown. */
import type {
  AcquireRequest,
  Call,
  Grant,
  Held,
  Released,
  ReleaseRequest,
  Renewed,
} from "../../core/backend.js";
import { OutcomeUnknownError, UnavailableError } from "../../core/errors.js";
import { toToken } from "../../core/token.js";
import { entryValue, heldOf, type LeaseRecord } from "./records.js";
import {
  isAbsent,
  isCreatedIn,
  isPresent,
  oldest,
  put,
  range,
  remove,
  type Kv,
  type Txn,
} from "./requests.js";
import { sessionOver, type Answered, type Store } from "./store.js";

/** Looks before a name is called contended. */
const LOOKS = 3;
const PAGE = 500;

/** Leases of one store. */
export class Leases {
  readonly #store: Store;
  /**
   * What becomes the value of a waiter's key when it confirms its offer, so that it need not be
   * read. As long as the grant that was handed out: whether anybody ever comes with it is unknown.
   */
  readonly #offered = new WeakMap<Grant, string>();

  constructor(store: Store) {
    this.#store = store;
  }

  async acquire(
    request: AcquireRequest,
    call: Call,
  ): Promise<{ readonly grant: Grant } | { readonly held: Held }> {
    const { keys, offers } = this.#store;
    const { name, holder } = request;
    const session = this.#store.sessionOf(request);
    const key = keys.lease(name, holder);
    const [all, given] = [keys.name(name), { key: keys.void(holder) }];
    const txn: Txn = {
      compare: [isAbsent(all), isAbsent(given)],
      success: [put(key, this.valueOf(request, session, "held"), session)],
    };
    let held: Held = { why: "held" };
    for (let looks = 1; looks <= LOOKS; looks++) {
      const answer = await this.attempt(holder, session, txn, call, name);
      const { succeeded, revision, term } = answer;
      if (succeeded) return { grant: this.grantOf(request, session, BigInt(revision), term) };
      const about = { during: "look who holds", lock: name, timeoutMs: call.timeoutMs };
      // Asked for by itself: most names are free, and each operation costs the gateway its time.
      const look = [range({ key }), oldest(all), range(given)];
      const [own, first, voided] = (await this.#store.read(look, about)).found;
      if ((voided?.count ?? 0) > 0) throw givenUp(name);
      const shown = this.#store.firstIn(first, name);
      if (shown === undefined) continue;
      const { record, count } = shown;
      held = heldOf(record, count);
      if (own?.kvs[0]?.key === record.key) {
        const isOwn = await this.#takeUp(record, request, session, call);
        if (isOwn) return { grant: this.grantOf(request, session, record.token, term) };
      } else if (offers.isOver(record)) await this.#store.passOver(record, call);
      else break;
    }
    return { held };
  }

  /** A step of an attempt, kept in mind as long as a copy of it may arrive. */
  async attempt(
    holder: string,
    session: string,
    txn: Txn,
    call: Call,
    lock: string,
  ): Promise<Answered> {
    const { attempts } = this.#store;
    const wasOpen = attempts.session(holder) !== undefined;
    attempts.begin(holder, session);
    const settled = (isLoose: boolean): void => {
      if (!isLoose && !wasOpen) attempts.end(holder);
    };
    try {
      const answer = await this.#store.change(txn, "acquire a lease", call, lock);
      if (answer.isSessionOver) throw sessionOver(lock);
      settled(answer.isLoose);
      return answer;
    } catch (error) {
      settled(!(error instanceof UnavailableError));
      throw error;
    }
  }

  /** An earlier answer was lost: its record is ours, and becomes a lease of this session. */
  async #takeUp(
    record: LeaseRecord,
    request: AcquireRequest,
    session: string,
    call: Call,
  ): Promise<boolean> {
    if (record.state === "held" && record.session === session) return true;
    const { key, token, name } = record;
    const value = this.valueOf(request, session, "held");
    const txn = { compare: [isCreatedIn(key, token)], success: [put(key, value, session)] };
    const answer = await this.#store.change(txn, "acquire a lease", call, name);
    if (answer.isSessionOver) throw sessionOver(name);
    return answer.succeeded;
  }

  /** Keeps in mind what confirming an offer writes. */
  offered(grant: Grant, value: string): void {
    this.#offered.set(grant, value);
  }

  /**
   * Looks at all records in one step, and confirms those that are offers. A session's keepalive
   * proves nothing of a record: it may have been deleted, and another one may hold.
   */
  async renew(grants: readonly Grant[], call: Call): Promise<readonly Renewed[]> {
    const { keys } = this.#store;
    const all = grants.map((grant) => keys.lease(grant.name, grant.holder));
    const looked = grants.filter((grant) => !this.#offered.has(grant));
    const records = new Map<string, Kv>();
    if (looked.length > 0) {
      const operations = looked.map(({ name, holder }) => range({ key: keys.lease(name, holder) }));
      const { found } = await this.#store.read(operations, {
        ...{ during: "renew leases", isUrgent: true },
        ...{ lock: looked[0]!.name, timeoutMs: call.timeoutMs },
      });
      for (const {
        kvs: [kv],
      } of found)
        if (kv !== undefined) records.set(kv.key, kv);
    }
    return Promise.all(
      grants.map(async (grant, i): Promise<Renewed> => {
        const key = all[i]!;
        const offered = this.#offered.get(grant);
        if (offered !== undefined) return this.#confirm(grant, key, offered, call);
        const kv = records.get(key);
        const record = kv === undefined ? undefined : keys.read(kv);
        if (record?.token !== grant.token) return this.#lost(grant, call);
        if (record.session !== (grant.session ?? record.session)) return this.#lost(grant, call);
        if (record.state === "held") return "renewed";
        const { ttlMs, info } = record;
        const value = entryValue({ state: "held", ttlMs, ...(info === undefined ? {} : { info }) });
        return this.#confirm(grant, key, value, call);
      }),
    );
  }

  /** Nobody can come before a waiter that was the first once: its own record is all to look at. */
  async #confirm(grant: Grant, key: string, value: string, call: Call): Promise<Renewed> {
    const session = this.#store.sessionOf(grant);
    const txn = { compare: [isCreatedIn(key, grant.token)], success: [put(key, value, session)] };
    const answer = await this.#store.change(txn, "confirm an offer", call, grant.name, true);
    this.#offered.delete(grant);
    if (answer.isSessionOver) return { lost: "absent" };
    return answer.succeeded ? "renewed" : this.#lost(grant, call);
  }

  /** To whom a grant was lost, where the store can say; that it was lost is certain already. */
  async #lost({ name }: Grant, { timeoutMs }: Call): Promise<Renewed> {
    const first = await this.#store.first(name, "look who holds", timeoutMs).catch(() => undefined);
    const isHeld = first?.record.state === "held";
    return { lost: isHeld ? heldOf(first.record, first.count) : "absent" };
  }

  /**
   * Where a copy may have been carried out, what this answer did not find that copy may have ended:
   * then nobody can say whether the lease was there. Without a token there is nothing to say.
   */
  async release({ name, holder, token }: ReleaseRequest, call: Call): Promise<Released> {
    const { keys, attempts } = this.#store;
    const key = keys.lease(name, holder);
    const open = attempts.session(holder);
    const ban = open === undefined ? [] : [put(keys.void(holder), "", open)];
    const txn: Txn = {
      compare: [token === undefined ? isPresent(key) : isCreatedIn(key, token)],
      success: [remove(key), ...ban],
      ...(ban.length === 0 ? {} : { failure: ban }),
    };
    const answer = await this.#store.change(txn, "release a lease", call, name);
    attempts.end(holder);
    if (answer.succeeded) return "released";
    // So, too, where the session of the attempt is gone, and its record with it.
    return answer.isLoose && token !== undefined ? "unknown" : "not-held";
  }

  async break(name: string, token: bigint, call: Call): Promise<boolean> {
    const first = await this.#store.first(name, "break a lease", call.timeoutMs);
    if (first?.record.token !== token) return false;
    const { key } = first.record;
    const txn = { compare: [isCreatedIn(key, token)], success: [remove(key)] };
    const answer = await this.#store.change(txn, "break a lease", call, name);
    if (!answer.succeeded && answer.isLoose) {
      const text = `the lease of ${JSON.stringify(name)} is gone, and may have been broken by this`;
      throw new OutcomeUnknownError(text, { backend: "etcd", lock: name });
    }
    return answer.succeeded;
  }

  async inspect(name: string, { timeoutMs }: Call): Promise<Held | null> {
    const during = "look at a lease";
    const first = await this.#store.first(name, during, timeoutMs);
    // A waiter that is being called holds nothing yet.
    if (first?.record.state !== "held") return null;
    const { record, count } = first;
    const options = { during, lock: name, timeoutMs, isRead: true };
    const asked = await this.#store.gateway.ask(
      "lease/timetolive",
      { ID: record.session },
      options,
    );
    const { TTL } = asked.body as { readonly TTL?: string };
    // Ended between the two looks. The time is in whole seconds, rounded down.
    if (asked.refused !== undefined || Number(TTL ?? 0) < 0) return null;
    return { ...heldOf(record, count), leftMs: Number(TTL ?? 0) * 1_000 };
  }

  async *list(
    prefix: string,
    { timeoutMs }: Call,
  ): AsyncGenerator<Held & { readonly name: string }, void, undefined> {
    const { keys } = this.#store;
    const all = keys.names(prefix);
    const options = { during: "list leases", timeoutMs };
    let from = all.key;
    /** Contenders of a name stand together; the page may end among them. */
    let first: LeaseRecord | undefined;
    for (let isMore = true; isMore;) {
      const { found } = await this.#store.read(
        [range({ ...all, key: from }, { limit: String(PAGE) })],
        options,
      );
      const { kvs = [], count = 0 } = found[0] ?? {};
      for (const kv of kvs) {
        const record = keys.read(kv);
        if (record === undefined) continue;
        if (first !== undefined && first.name !== record.name) {
          if (first.state === "held") yield { name: first.name, ...heldOf(first) };
          first = undefined;
        }
        if (first === undefined || record.token < first.token) first = record;
      }
      isMore = count > kvs.length;
      const last = kvs.at(-1);
      if (last !== undefined) {
        from = Buffer.concat([Buffer.from(last.key, "base64"), Buffer.alloc(1)]).toString("base64");
      }
    }
    if (first?.state === "held") yield { name: first.name, ...heldOf(first) };
  }

  grantOf(
    { name, holder, ttlMs }: AcquireRequest,
    session: string,
    token: bigint,
    term: string,
  ): Grant {
    return {
      ...{ name, holder, session, storeEpoch: term },
      token: toToken(token),
      ttlMs: this.#store.ttlMsOf(session, ttlMs),
    };
  }

  /** The value of a contender's key. */
  valueOf(request: AcquireRequest, session: string, state: "held" | "waiting"): string {
    const { ttlMs, holderInfo } = request;
    const info = holderInfo === undefined ? {} : { info: holderInfo };
    return entryValue({ state, ttlMs: this.#store.ttlMsOf(session, ttlMs), ...info });
  }
}

function givenUp(name: string): UnavailableError {
  const text = `this attempt for ${JSON.stringify(name)} was given up before it arrived`;
  return new UnavailableError(text, { backend: "etcd", lock: name, retryable: false });
}
