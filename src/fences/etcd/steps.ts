/** Looks and transactions, as the gateway of etcd wants them. */
import { OutcomeUnknownError, UnavailableError } from "../../core/errors.js";
import type { Work } from "../contract.js";
import type { EtcdGateway } from "./client.js";
import { Notebook, type EtcdTx } from "./transaction.js";

/** How long a call to the cluster may take, milliseconds. Nobody is kept out meanwhile. */
const CALL_MS = 5_000;
const BACKEND = "etcd";

/** A stored key. What is zero is left out by the gateway. */
export interface Kv {
  readonly key: string;
  readonly create_revision: string;
  readonly mod_revision: string;
  readonly value?: string;
  readonly lease?: string;
}

/** Some keys as they were at one revision. */
export interface Seen {
  readonly revision: string;
  readonly kvs: readonly (Kv | undefined)[];
}

interface TxnAnswer {
  readonly header: { readonly revision: string };
  readonly succeeded?: boolean;
  readonly responses?: readonly { readonly response_range?: { readonly kvs?: readonly Kv[] } }[];
}

/** The steps of one fence. */
export class Steps {
  readonly #gateway: EtcdGateway;

  constructor(gateway: EtcdGateway) {
    this.#gateway = gateway;
  }

  /** Keys as they are now, all at one revision. */
  async look(keys: readonly string[], during: string, lock?: string): Promise<Seen> {
    const success = keys.map((key) => ({ request_range: { key: base64(key) } }));
    return toSeen(await this.#ask({ success }, during, true, lock));
  }

  /** Runs work on what stood there at the revision that was seen. */
  async work<R>(
    { revision }: Seen,
    during: string,
    work: Work<EtcdTx, R>,
  ): Promise<{ readonly result: Awaited<R>; readonly notebook: Notebook }> {
    const notebook = new Notebook(revision, async (range) => {
      const options = { during, isRead: true, timeoutMs: CALL_MS };
      const { body, refused } = await this.#gateway.ask("kv/range", range, options);
      if (refused === undefined) return (body as { readonly kvs?: readonly Kv[] }).kvs ?? [];
      const text = `cannot ${during}: its work took so long that its revision was compacted away`;
      throw new UnavailableError(text, { backend: BACKEND });
    });
    try {
      return { result: await work(notebook.tx), notebook };
    } finally {
      notebook.end();
    }
  }

  /** Changes all or nothing; where a condition does not hold, answers what stands there. */
  async commit(
    txn: { readonly compare: readonly object[]; readonly changes: readonly object[] },
    keys: readonly string[],
    during: string,
    lock?: string,
  ): Promise<"done" | Seen> {
    const { compare, changes } = txn;
    const failure = keys.map((key) => ({ request_range: { key: base64(key) } }));
    const answer = await this.#ask({ compare, success: changes, failure }, during, false, lock);
    return answer.succeeded === true ? "done" : toSeen(answer);
  }

  put(key: string, value: string, lease?: string): object {
    const under = lease === undefined ? {} : { lease };
    return { request_put: { key: base64(key), value: base64(value), ...under } };
  }

  /** That the key is as it was seen, or still absent. */
  isUnchanged(key: string, seen: Kv | undefined): object {
    const mod_revision = seen?.mod_revision ?? "0";
    return { key: base64(key), target: "MOD", result: "EQUAL", mod_revision };
  }

  isCreatedIn(key: string, revision: bigint): object {
    const create_revision = String(revision);
    return { key: base64(key), target: "CREATE", result: "EQUAL", create_revision };
  }

  /** The value as text; undefined for no key. */
  text(kv: Kv | undefined): string | undefined {
    return kv === undefined ? undefined : Buffer.from(kv.value ?? "", "base64").toString();
  }

  async #ask(
    txn: object,
    during: string,
    isRead: boolean,
    lock: string | undefined,
  ): Promise<TxnAnswer> {
    const about = lock === undefined ? {} : { lock };
    const options = { during, isRead, timeoutMs: CALL_MS, ...about };
    const { body, refused, isLoose } = await this.#gateway.ask("kv/txn", txn, options);
    if (refused === undefined) return body as TxnAnswer;
    if (isLoose && !isRead) {
      const open = `cannot ${during}, the outcome is unknown: a lease that it names is gone now`;
      throw new OutcomeUnknownError(open, { backend: BACKEND, ...about });
    }
    const text = `cannot ${during}: a lease of etcd that it names is gone`;
    throw new UnavailableError(text, { backend: BACKEND, retryable: false, ...about });
  }
}

function toSeen({ header, responses = [] }: TxnAnswer): Seen {
  const kvs = responses.map(({ response_range }) => response_range?.kvs?.[0]);
  return { revision: header.revision, kvs };
}

function base64(text: string): string {
  return Buffer.from(text).toString("base64");
}
