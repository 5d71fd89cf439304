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
  /** Counts the changes since it was created. */
  readonly version: string;
  readonly value?: string;
  readonly lease?: string;
}

/** Some keys as they were at one revision. */
export interface Seen {
  readonly revision: string;
  readonly kvs: readonly (Kv | undefined)[];
}

/** What stands there instead, and whether a copy of the transaction may have been carried out. */
export interface Unmet extends Seen {
  readonly isLoose: boolean;
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
    return toSeen((await this.#ask({ success }, during, true, lock)).answer);
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
  ): Promise<"done" | Unmet> {
    const { compare, changes } = txn;
    const failure = keys.map((key) => ({ request_range: { key: base64(key) } }));
    const asked = { compare, success: changes, failure };
    const { answer, isLoose } = await this.#ask(asked, during, false, lock);
    return answer.succeeded === true ? "done" : { ...toSeen(answer), isLoose };
  }

  /**
   * For a key that was to be changed, and shows another's change:
   * 1. a copy of ours was carried out, and its member fell silent;
   * 2. another change followed;
   * 3. the copy that was answered found that one.
   * One change since the look was the other's, and so not ours. Of two, one may have been.
   *
   * @throws OutcomeUnknownError where ours may have been carried out.
   */
  checkUndone(before: Kv | undefined, now: Unmet, during: string): void {
    const [after] = now.kvs;
    const isSame = after !== undefined && after.create_revision === before?.create_revision;
    const changes = isSame ? Number(after.version) - Number(before.version) : Infinity;
    if (!now.isLoose || changes <= 1) return;
    const text = `cannot ${during}, the outcome is unknown: an earlier copy may have been applied`;
    throw new OutcomeUnknownError(text, { backend: BACKEND });
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
  ): Promise<{ readonly answer: TxnAnswer; readonly isLoose: boolean }> {
    const about = lock === undefined ? {} : { lock };
    const options = { during, isRead, timeoutMs: CALL_MS, ...about };
    const { body, refused, isLoose } = await this.#gateway.ask("kv/txn", txn, options);
    if (refused === undefined) return { answer: body as TxnAnswer, isLoose };
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
