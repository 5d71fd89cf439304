/**
 * Where things are kept, and how.
 *
 * A name's contenders are keys `leases/<name>/<holder>`: the oldest is the holder's, the others
 * wait in order of arrival. In name and holder, `/` is written `%2F` and `%` is `%25`, so that no
 * name is part of another, and one name can be looked at, or cleared, by its prefix.
 */
import type { Held, HolderInfo } from "../../core/backend.js";
import { UnavailableError } from "../../core/errors.js";
import { fromBase64, startingWith, toBase64, type Kv, type KeyRange } from "./requests.js";

/** Beginning of all keys unless told otherwise. */
export const DEFAULT_PREFIX = "tenure/";

/** The value of a contender's key. */
export interface Entry {
  readonly state: "held" | "waiting";
  /** As the session keeps it, milliseconds. */
  readonly ttlMs: number;
  readonly info?: HolderInfo;
}

/** A key of a contender. */
export interface LeaseRecord extends Entry {
  readonly name: string;
  readonly holder: string;
  /** Base64, as the gateway wants it. */
  readonly key: string;
  readonly token: bigint;
  readonly modRevision: string;
  readonly session: string;
}

/** The keys of one store. */
export class Keys {
  readonly #leases: string;
  readonly #prefix: string;
  /** The name asked for last: an attempt and its release ask for the same. */
  #last = { name: "", path: "", all: { key: "" } as KeyRange };

  constructor(prefix: string) {
    this.#prefix = prefix;
    this.#leases = `${prefix}leases/`;
  }

  /** All that is ours. */
  get all(): KeyRange {
    return startingWith(this.#prefix);
  }

  get store(): string {
    return toBase64(`${this.#prefix}store`);
  }

  lease(name: string, holder: string): string {
    return toBase64(this.#of(name).path + part(holder));
  }

  /** All contenders of a name. */
  name(name: string): KeyRange {
    return this.#of(name).all;
  }

  #of(name: string): { readonly path: string; readonly all: KeyRange } {
    if (this.#last.name !== name) {
      const path = `${this.#leases}${part(name)}/`;
      this.#last = { name, path, all: startingWith(path) };
    }
    return this.#last;
  }

  /** All contenders of all names that begin with a text. */
  names(prefix: string): KeyRange {
    return startingWith(`${this.#leases}${part(prefix)}`);
  }

  /** Stands while an attempt that was given up may still arrive. */
  void(holder: string): string {
    return toBase64(`${this.#prefix}void/${part(holder)}`);
  }

  /** The record behind a key; undefined for what is not ours. */
  read(kv: Kv): LeaseRecord | undefined {
    const path = fromBase64(kv.key);
    const parts = path.slice(this.#leases.length).split("/");
    if (!path.startsWith(this.#leases) || parts.length !== 2) return undefined;
    const entry = readEntry(kv.value ?? "");
    const [name, holder] = parts.map(whole);
    if (entry === undefined || name === undefined || holder === undefined) return undefined;
    return {
      ...entry,
      ...{ name, holder, key: kv.key, session: kv.lease ?? "0" },
      token: BigInt(kv.create_revision),
      modRevision: kv.mod_revision,
    };
  }

  /** @throws ForeignKeyError for what is not ours: it would stand in the way for ever. */
  mustRead(kv: Kv, lock: string): LeaseRecord {
    const record = this.read(kv);
    if (record !== undefined) return record;
    throw new ForeignKeyError(fromBase64(kv.key), lock);
  }
}

/** Something that Tenure did not write stands among the keys of a name. */
export class ForeignKeyError extends UnavailableError {
  /** The key. */
  readonly key: string;

  constructor(key: string, lock: string) {
    super(`the key ${JSON.stringify(key)} holds something that is no lease of Tenure`, {
      backend: "etcd",
      lock,
      retryable: false,
    });
    this.key = key;
  }
}

/** The value of a contender's key. */
export function entryValue(entry: Entry): string {
  return toBase64(JSON.stringify(entry));
}

/** A record as others see it. */
export function heldOf(record: LeaseRecord, count?: number): Held {
  const { holder, token, ttlMs, info } = record;
  return {
    ...{ holder, token, ttlMs, why: "held" },
    ...(info === undefined ? {} : { holderInfo: info }),
    ...(count === undefined ? {} : { waiters: count - 1 }),
  };
}

function readEntry(value: string): Entry | undefined {
  let json: unknown;
  try {
    json = JSON.parse(fromBase64(value));
  } catch {
    return undefined;
  }
  if (typeof json !== "object" || json === null) return undefined;
  const { state, ttlMs, info } = json as Record<string, unknown>;
  if ((state !== "held" && state !== "waiting") || typeof ttlMs !== "number") return undefined;
  return { state, ttlMs, ...(info === undefined ? {} : { info: info as HolderInfo }) };
}

function part(text: string): string {
  return text.replaceAll("%", "%25").replaceAll("/", "%2F");
}

function whole(text: string): string {
  return text.replaceAll("%2F", "/").replaceAll("%25", "%");
}
