/**
 * One step of the fence as its work sees it. Reads are answered at once, all from the moment at
 * which the mark was looked at; writes are noted, and carried out together with the check when the
 * work has ended, on the condition that nothing that was read has changed.
 */
import { ArgumentTypeError } from "../../core/errors.js";

/** A key and its value. */
export interface EtcdEntry {
  readonly key: string;
  /** The value as text. */
  readonly value: string;
  /** The value as it is stored. */
  readonly bytes: Uint8Array;
}

/** What the work of a read is given. */
export interface EtcdReadTx {
  /** The entry of a key, as it was before the work. */
  get(key: string): Promise<EtcdEntry | undefined>;
  /** All entries whose keys start with a text, as they were before the work, in order of keys. */
  range(prefix: string): Promise<readonly EtcdEntry[]>;
}

/** What the work of a write is given. Of two notes about one key the last counts. */
export interface EtcdTx extends EtcdReadTx {
  /** Notes a value; under a lease of etcd, if given, by whose id it ends. */
  put(
    key: string,
    value: string | Uint8Array,
    options?: { readonly lease?: bigint | string },
  ): void;
  /** Notes that a key is to be deleted. */
  delete(key: string): void;
  /** Notes that all keys that start with a text are to be deleted. None of them may be put, too. */
  deleteRange(prefix: string): void;
}

interface Kv {
  readonly key: string;
  readonly value?: string;
  readonly mod_revision: string;
}

/** Answers the keys of a range at the revision of the step. */
export type ReadRange = (range: Readonly<Record<string, string>>) => Promise<readonly Kv[]>;

/** Collects what one piece of work reads and notes. */
export class Notebook {
  readonly tx: EtcdTx;
  readonly #revision: string;
  readonly #read: ReadRange;
  /** Conditions: what was read is as it was. */
  readonly #compare: object[] = [];
  readonly #changes = new Map<string, object>();
  readonly #deleted: Readonly<Record<string, string>>[] = [];
  #hasEnded = false;

  constructor(revision: string, read: ReadRange) {
    this.#revision = revision;
    this.#read = read;
    this.tx = {
      get: async (key) => (await this.#look(single(key)))[0],
      range: (prefix) => this.#look(startingWith(prefix)),
      put: (key, value, { lease } = {}) => {
        const { key: at } = this.#noting(single(key));
        const under = lease === undefined ? {} : { lease: String(lease) };
        this.#changes.set(at, { request_put: { key: at, value: toBase64(value), ...under } });
      },
      delete: (key) => {
        const { key: at } = this.#noting(single(key));
        this.#changes.set(at, { request_delete_range: { key: at } });
      },
      deleteRange: (prefix) => void this.#deleted.push(this.#noting(startingWith(prefix))),
    };
  }

  get compare(): readonly object[] {
    return this.#compare;
  }

  /** The noted changes, as operations of one transaction. */
  get changes(): readonly object[] {
    const ranges = this.#deleted.map((range) => ({ request_delete_range: range }));
    return [...ranges, ...this.#changes.values()];
  }

  end(): void {
    this.#hasEnded = true;
  }

  #noting<R>(range: R): R {
    if (this.#hasEnded) throw new TypeError("this read or write has ended");
    return range;
  }

  async #look(range: Readonly<Record<string, string>>): Promise<readonly EtcdEntry[]> {
    this.#noting(range);
    const kvs = await this.#read({ ...range, revision: this.#revision });
    for (const { key, mod_revision } of kvs) {
      this.#compare.push({ key, target: "MOD", result: "EQUAL", mod_revision });
    }
    // Nor has anything been added since. What is absent has revision 0.
    const after = String(BigInt(this.#revision) + 1n);
    this.#compare.push({ ...range, target: "MOD", result: "LESS", mod_revision: after });
    return kvs.map(({ key, value = "" }) => {
      const bytes = Buffer.from(value, "base64");
      return { key: Buffer.from(key, "base64").toString(), value: bytes.toString(), bytes };
    });
  }
}

function single(key: string): { readonly key: string } {
  if (typeof key === "string" && key !== "") return { key: toBase64(key) };
  throw new ArgumentTypeError("key", key, "a text that is not empty");
}

/** No byte of UTF-8 is the last there is. */
function startingWith(prefix: string): { readonly key: string; readonly range_end: string } {
  const { key } = single(prefix);
  const end = Buffer.from(key, "base64");
  end[end.length - 1]! += 1;
  return { key, range_end: end.toString("base64") };
}

function toBase64(value: string | Uint8Array): string {
  if (typeof value === "string") return Buffer.from(value).toString("base64");
  if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
  throw new ArgumentTypeError("value", value, "text or bytes");
}
