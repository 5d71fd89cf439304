/**
 * One step of the fence as its work sees it. What it writes is noted, and sent in one transaction
 * with the check of the mark once the work has ended. What it reads is read at once, each time in
 * one step with a look at the mark; a write is applied only if none of it has changed since.
 */
import { ArgumentRangeError, ArgumentTypeError } from "../../core/errors.js";
import type { Entry, Op } from "./client.js";

/** What the work of a read is given. */
export interface ConsulReader {
  /** The value of a key as text of UTF-8, or null where there is none. */
  get(key: string): Promise<string | null>;
  /** The value of a key as bytes, or null where there is none. */
  getBytes(key: string): Promise<Uint8Array | null>;
}

/** What the work of a write is given. */
export interface ConsulTx extends ConsulReader {
  /** Notes a write. A later one of the same key wins. */
  set(key: string, value: string | Uint8Array): void;
  /** Notes a deletion. */
  delete(key: string): void;
  /** Notes the deletion of all keys that begin with `prefix`. */
  deleteTree(prefix: string): void;
}

/** A transaction takes 128; some are the fence's own. */
const MOST_OPS = 120;

/** Notes what the work of one step does. */
export class Notebook {
  readonly tx: ConsulTx;
  readonly #look: (key: string) => Promise<Entry | undefined>;
  readonly #checks = new Map<string, Op>();
  readonly #writes: Op[] = [];
  #hasEnded = false;

  /** `look` reads a key in one step with the mark, and throws where the mark refuses. */
  constructor(look: (key: string) => Promise<Entry | undefined>) {
    this.#look = look;
    this.tx = {
      get: async (key) => {
        const entry = await this.#read(key);
        return entry === undefined ? null : new TextDecoder().decode(entry.value);
      },
      getBytes: async (key) => (await this.#read(key))?.value ?? null,
      set: (key, value) => {
        this.#note({ verb: "set", key: checkKey(key, "key"), value: checkValue(value) });
      },
      delete: (key) => this.#note({ verb: "delete", key: checkKey(key, "key") }),
      deleteTree: (prefix) => {
        this.#note({ verb: "delete-tree", key: checkKey(prefix, "prefix") });
      },
    };
  }

  /** Nothing can be added any more. */
  end(): void {
    this.#hasEnded = true;
  }

  /** What must still be as it was read, and then what is to be written. */
  get ops(): readonly Op[] {
    return [...this.#checks.values(), ...this.#writes];
  }

  async #read(key: string): Promise<Entry | undefined> {
    this.#checkOpen();
    const entry = await this.#look(checkKey(key, "key"));
    // The first look counts: a second one that saw something else must not hide the change.
    if (!this.#checks.has(key)) {
      this.#checkRoom();
      const isThere = entry !== undefined;
      const check: Op = isThere
        ? { verb: "check-index", key, index: entry.index }
        : { verb: "check-not-exists", key };
      this.#checks.set(key, check);
    }
    return entry;
  }

  #note(op: Op): void {
    this.#checkOpen();
    this.#checkRoom();
    this.#writes.push(op);
  }

  #checkOpen(): void {
    if (this.#hasEnded) throw new TypeError("this read or write has ended");
  }

  #checkRoom(): void {
    const count = this.#checks.size + this.#writes.length + 1;
    if (count <= MOST_OPS) return;
    throw new ArgumentRangeError("work", count, `at most ${MOST_OPS} keys read and written`);
  }
}

/** The caller's own keys: only what no request could carry is refused. */
function checkKey(key: unknown, option: string): string {
  if (typeof key === "string" && key !== "" && !/[\0\p{Surrogate}]/u.test(key)) return key;
  throw new ArgumentTypeError(option, key, "a key: text that is not empty, without NUL");
}

function checkValue(value: unknown): string | Uint8Array {
  if (typeof value === "string" || value instanceof Uint8Array) return value;
  throw new ArgumentTypeError("value", value, "text or a Uint8Array");
}
