/** What all parts of the backend share: the gateway, the keys, and what this process knows. */
import type { Call } from "../../core/backend.js";
import { UnavailableError } from "../../core/errors.js";
import type { Runtime } from "../../core/runtime.js";
import type { AskOptions, EtcdGateway } from "./client.js";
import { OpenAttempts } from "./attempts.js";
import { Offers } from "./offers.js";
import type { Keys, LeaseRecord } from "./records.js";
import {
  isUnchangedSince,
  oldest,
  remove,
  txnResult,
  type Found,
  type Operation,
  type Txn,
  type TxnResult,
} from "./requests.js";

/** Operations of one transaction, by default of the server: `--max-txn-ops`. */
export const MOST_OPERATIONS = 128;

/** A transaction's answer. */
export interface Answered extends TxnResult {
  /** Whether a copy of it may have been carried out, or may still be. */
  readonly isLoose: boolean;
  /** Whether a lease in it was gone: then this copy did nothing. */
  readonly isSessionOver: boolean;
}

/** One store, seen by one process. */
export class Store {
  readonly gateway: EtcdGateway;
  readonly keys: Keys;
  readonly runtime: Pick<Runtime, "clock" | "timers">;
  readonly attempts: OpenAttempts = new OpenAttempts();
  readonly offers: Offers;
  /** What the sessions of this process keep, milliseconds, by id. */
  readonly sessionTtlMs: Map<string, number> = new Map();

  constructor(gateway: EtcdGateway, keys: Keys, runtime: Pick<Runtime, "clock" | "timers">) {
    this.gateway = gateway;
    this.keys = keys;
    this.runtime = runtime;
    this.offers = new Offers(runtime.clock);
  }

  /** A transaction. */
  async change(
    txn: Txn,
    during: string,
    { timeoutMs }: Pick<Call, "timeoutMs">,
    lock: string,
    isUrgent = false,
  ): Promise<Answered> {
    const options = { during, lock, timeoutMs, isUrgent };
    const { body, refused, isLoose } = await this.gateway.ask("kv/txn", txn, options);
    return { ...txnResult(body), isLoose, isSessionOver: refused !== undefined };
  }

  /** Reads; any number of operations, a transaction for as many as one may have. */
  async read(
    operations: readonly Operation[],
    options: Omit<AskOptions, "isRead">,
  ): Promise<{
    readonly found: readonly Found[];
    readonly term: string;
    readonly revision: string;
  }> {
    const parts: Promise<TxnResult>[] = [];
    for (let from = 0; from < operations.length; from += MOST_OPERATIONS) {
      const txn: Txn = { compare: [], success: operations.slice(from, from + MOST_OPERATIONS) };
      parts.push(
        this.gateway
          .ask("kv/txn", txn, { ...options, isRead: true })
          .then(({ body }) => txnResult(body)),
      );
    }
    const results = await Promise.all(parts);
    const { term = "0", revision = "0" } = results[0] ?? {};
    return { found: results.flatMap(({ found }) => found), term, revision };
  }

  /** Who holds a name, or is called to, and how many contend for it. */
  async first(
    name: string,
    during: string,
    timeoutMs: number,
  ): Promise<{ readonly record: LeaseRecord; readonly count: number } | undefined> {
    const options = { during, lock: name, timeoutMs };
    const { found } = await this.read([oldest(this.keys.name(name))], options);
    return this.firstIn(found[0], name);
  }

  /** The record in what {@link oldest} found. @throws ForeignKeyError for what is not ours. */
  firstIn(
    found: Found | undefined,
    name: string,
  ): { readonly record: LeaseRecord; readonly count: number } | undefined {
    const kv = found?.kvs[0];
    if (found === undefined || kv === undefined) return undefined;
    return { record: this.keys.mustRead(kv, name), count: found.count };
  }

  /** Passes over an offer that nobody has confirmed in time. */
  async passOver(first: LeaseRecord, call: Pick<Call, "timeoutMs">): Promise<void> {
    const compare = [isUnchangedSince(first.key, first.modRevision)];
    const during = "pass over a waiter";
    await this.change({ compare, success: [remove(first.key)] }, during, call, first.name);
  }

  /** The session in a request. @throws UnavailableError without one: the core always names it. */
  sessionOf(request: { readonly name: string; readonly session?: string }): string {
    if (request.session !== undefined) return request.session;
    throw new UnavailableError("a lease of etcd needs a session", {
      backend: "etcd",
      lock: request.name,
      retryable: false,
    });
  }

  ttlMsOf(session: string, askedMs: number): number {
    return this.sessionTtlMs.get(session) ?? Math.ceil(askedMs / 1_000) * 1_000;
  }
}

/** Nothing was done, since the session of the attempt has ended. */
export function sessionOver(name: string): UnavailableError {
  return new UnavailableError(`the session for ${JSON.stringify(name)} has ended`, {
    backend: "etcd",
    lock: name,
  });
}
