/**
 * What a fence decides: the mark of a resource, a request, and whether the two agree. Pure, and the
 * only place that knows the rules; a store's adapter has to make decision and effect one atomic
 * step, or say the same in its store's own language.
 */

/** Where tokens come from: a store and a lock name. Only tokens of one scope compare. */
export interface Scope {
  /** Id of the store that hands out the tokens. */
  readonly storeId: string;
  /** Lock name. */
  readonly name: string;
}

/** What a fence remembers of one resource. Within one scope it only ever grows. */
export interface Mark {
  readonly scope: Scope;
  readonly token: bigint;
  readonly holder: string;
  /** Number of the arming; starts at 1 with each token. */
  readonly arm: number;
  /** Number of the last accepted write of that arming. */
  readonly n: number;
}

/** The mark that a resource had under a scope which it has left. */
export interface PastMark {
  readonly scope: Scope;
  readonly token: bigint;
  readonly holder: string;
  readonly arm: number;
  /** Why the resource was moved away. */
  readonly reason: string;
}

/** The mark as a store keeps it, with those of the scopes that were left, so that none sinks. */
export interface MarkRecord extends Mark {
  readonly past: readonly PastMark[];
}

/** One operation at a resource. */
export interface FenceRequest {
  readonly op: "arm" | "read" | "write";
  readonly resource: string;
  readonly scope: Scope;
  readonly token: bigint;
  readonly holder: string;
  readonly arm: number;
  /** Of a write: its number. Of an arming: where its write numbers start. Of a read: unused. */
  readonly n: number;
}

/**
 * Why a request was refused.
 *
 * - `scope`: the token belongs to another store or lock than the mark's
 * - `stale`: the token is older than the mark's
 * - `conflict`: the same token from two holders
 * - `superseded`: a newer arming of the same holder
 * - `repeated`: a write number that is not greater than the last
 * - `unarmed`: the mark does not know this arming: it was lost, or put back to an older state
 */
export type Refusal = "scope" | "stale" | "conflict" | "superseded" | "repeated" | "unarmed";

/** The answer to a request. `record` of an accepted one is what the store keeps from now on. */
export type Verdict =
  | { readonly accepted: true; readonly record: MarkRecord }
  | { readonly accepted: false; readonly why: Refusal; readonly record: MarkRecord | null };

/** Whether two scopes are the same. */
export function isSameScope(a: Scope, b: Scope): boolean {
  return a.storeId === b.storeId && a.name === b.name;
}

/**
 * The decision. The cases in order: no mark yet takes an arming and nothing else; another scope is
 * refused; an older token is stale; a newer one must arm first; an equal one needs the same holder;
 * then armings, and within an arming its writes, must grow.
 */
export function decide(record: MarkRecord | null, request: FenceRequest): Verdict {
  const refuse = (why: Refusal): Verdict => ({ accepted: false, why, record });
  if (record === null) {
    return request.op === "arm" ? accept(request, []) : refuse("unarmed");
  }
  if (!isSameScope(record.scope, request.scope)) return refuse("scope");
  if (request.token < record.token) return refuse("stale");
  if (request.token > record.token) {
    return request.op === "arm" ? accept(request, record.past) : refuse("unarmed");
  }
  if (request.holder !== record.holder) return refuse("conflict");
  if (request.op === "arm") {
    return request.arm > record.arm ? accept(request, record.past) : refuse("superseded");
  }
  if (request.arm < record.arm) return refuse("superseded");
  if (request.arm > record.arm) return refuse("unarmed");
  if (request.op === "read") return { accepted: true, record };
  return request.n > record.n ? accept(request, record.past) : refuse("repeated");
}

function accept(request: FenceRequest, past: readonly PastMark[]): Verdict {
  const { scope, token, holder, arm, n } = request;
  const { storeId, name } = scope;
  return { accepted: true, record: { scope: { storeId, name }, token, holder, arm, n, past } };
}

/** A deliberate move of one resource to another scope. */
export interface RebaseRequest {
  readonly resource: string;
  readonly to: Scope;
  /** The lease that takes over, where there is one: older tokens of its scope are then refused. */
  readonly lease?: { readonly token: bigint; readonly holder: string };
  readonly reason: string;
}

/**
 * The record after a rebase; the same object when the resource is in that scope already.
 *
 * A scope that the resource was in before continues above its old mark, one arming higher: moving
 * there and back lowers nothing and revives no handle.
 */
export function rebase(record: MarkRecord | null, request: RebaseRequest): MarkRecord {
  const { reason, lease } = request;
  const to = { storeId: request.to.storeId, name: request.to.name };
  if (record !== null && isSameScope(record.scope, to)) return record;
  const start = { token: lease?.token ?? 0n, holder: lease?.holder ?? "", arm: 0, n: 0 };
  if (record === null) return { scope: to, ...start, past: [] };

  const { scope, token, holder, arm } = record;
  const old = record.past.find((mark) => isSameScope(mark.scope, to));
  const kept = record.past.filter((mark) => mark !== old);
  const past = [...kept, { scope, token, holder, arm, reason }];
  if (old === undefined || old.token < start.token) return { scope: to, ...start, past };
  return { scope: to, token: old.token, holder: old.holder, arm: old.arm + 1, n: 0, past };
}

/** The mark without what only the store needs. */
export function toMark(record: MarkRecord): Mark {
  const { scope, token, holder, arm, n } = record;
  return { scope, token, holder, arm, n };
}
