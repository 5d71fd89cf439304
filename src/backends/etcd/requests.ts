/** Requests as the gateway of etcd wants them, and what it answers. Keys are base64 there. */

/** Where keys begin and end; without an end, one key. */
export interface KeyRange {
  readonly key: string;
  readonly range_end?: string;
}

/** One operation of a transaction. */
export type Operation =
  | { readonly request_put: object }
  | { readonly request_delete_range: KeyRange }
  | { readonly request_range: object };

/** A transaction. */
export interface Txn {
  readonly compare: readonly object[];
  readonly success: readonly Operation[];
  readonly failure?: readonly Operation[];
}

/** A stored key. What is zero is left out by the gateway. */
export interface Kv {
  readonly key: string;
  readonly create_revision: string;
  readonly mod_revision: string;
  readonly value?: string;
  readonly lease?: string;
}

/** What a range found. */
export interface Found {
  readonly kvs: readonly Kv[];
  /** How many there are, beyond a limit, too. */
  readonly count: number;
}

/** The answer to a transaction. */
export interface TxnResult {
  readonly succeeded: boolean;
  readonly revision: string;
  readonly term: string;
  /** Of each range operation, in order. */
  readonly found: readonly Found[];
}

export const toBase64 = (text: string): string => Buffer.from(text).toString("base64");
export const fromBase64 = (text: string): string => Buffer.from(text, "base64").toString();

/** All keys that begin with a text: no byte of UTF-8 is the last there is. */
export function startingWith(text: string): KeyRange {
  const bytes = Buffer.from(text);
  const end = Buffer.from(bytes);
  end[end.length - 1]! += 1;
  return { key: bytes.toString("base64"), range_end: end.toString("base64") };
}

/**
 * That no key of the range exists: what is left out compares the version, for equality, with zero.
 * The gateway takes its time to read JSON, so a request says no more than it must.
 */
export const isAbsent = (range: KeyRange): object => range;

/** That the key was made in just this revision. */
export const isCreatedIn = (key: string, revision: bigint): object => ({
  key,
  target: "CREATE",
  create_revision: String(revision),
});

export const isPresent = (key: string): object => ({ key, result: "GREATER" });

/** That the key was last written in just this revision. */
export const isUnchangedSince = (key: string, revision: string): object => ({
  key,
  target: "MOD",
  mod_revision: revision,
});

export const put = (key: string, value: string, lease: string): Operation => ({
  request_put: { key, value, lease },
});

export const remove = (key: string): Operation => ({ request_delete_range: { key } });

export const range = (keys: KeyRange, more: object = {}): Operation => ({
  request_range: { ...keys, ...more },
});

/** The oldest key of a range: who holds. */
export const oldest = (keys: KeyRange): Operation =>
  range(keys, { limit: "1", sort_order: "ASCEND", sort_target: "CREATE" });

/** The newest keys of a range, those made after a revision left out. */
export const newest = (keys: KeyRange, limit: number, until?: bigint): Operation =>
  range(keys, {
    limit: String(limit),
    sort_order: "DESCEND",
    sort_target: "CREATE",
    keys_only: true,
    ...(until === undefined ? {} : { max_create_revision: String(until) }),
  });

/** Reads the answer to a transaction; what has no answer, because it was refused, did nothing. */
export function txnResult(body: object): TxnResult {
  const { header, succeeded, responses } = body as {
    readonly header?: { readonly revision?: string; readonly raft_term?: string };
    readonly succeeded?: boolean;
    readonly responses?: readonly { readonly response_range?: Partial<RawFound> }[];
  };
  return {
    succeeded: succeeded === true,
    revision: header?.revision ?? "0",
    term: header?.raft_term ?? "0",
    found: (responses ?? []).flatMap(({ response_range }) =>
      response_range === undefined
        ? []
        : [{ kvs: response_range.kvs ?? [], count: Number(response_range.count ?? 0) }],
    ),
  };
}

interface RawFound {
  readonly kvs: readonly Kv[];
  readonly count: string;
}
