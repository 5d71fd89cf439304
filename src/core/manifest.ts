import type { FencingToken } from "./token.js";

/**
 * How far tokens can be trusted.
 *
 * - `consensus`: survive the loss of any minority of the store's nodes
 * - `durable`: as safe as the one store's committed data
 * - `until-failover`: may repeat after a failover that lost acknowledged writes
 * - `none`: the store hands out no token
 */
export type TokenStrength = "consensus" | "durable" | "until-failover" | "none";

/** Token strengths that go with a token type: a store without tokens has leases without tokens. */
export type StrengthOf<T extends FencingToken | undefined> = T extends FencingToken
  ? Exclude<TokenStrength, "none">
  : "none";

/** What a backend promises, as data. The conformance suite holds a backend to it, both ways. */
export interface Manifest<T extends FencingToken | undefined = FencingToken | undefined> {
  /** Short name of the backend, as in its URL scheme. */
  readonly backend: string;
  readonly tokens: StrengthOf<T>;
  /**
   * Whose clock ends a lease: the `server`'s, the `session`'s of the store, each contender's own
   * (`observed`, from the moment it saw the record), the `machine`'s that all holders share, or the
   * `process`'s.
   */
  readonly expiryClock: "server" | "session" | "observed" | "machine" | "process";
  /** `bound`: the holder's own deadline comes first. `hint`: the store may let go earlier. */
  readonly deadline: "bound" | "hint";
  /** How waiters learn of a release; the same as `waiting.kind` of the backend. */
  readonly waiting: "poll" | "notify" | "queue";
  /** Whether waiters are served in order of arrival, across processes. */
  readonly fair: boolean;
  /** Whether a transaction in the same store can test the lock record. */
  readonly heldCheck: boolean;
  /** Shortest TTL the store can keep, milliseconds. */
  readonly minTtlMs: number;
  /** Longest TTL the store can keep, milliseconds. */
  readonly maxTtlMs: number;
  /** Whether the TTL belongs to each lease or to a session that carries several. */
  readonly ttlScope: "lease" | "session";
  /** Most grants that one `renew` call may carry. */
  readonly renewBatch: number;
}

const STRENGTH_ORDER: readonly TokenStrength[] = ["none", "until-failover", "durable", "consensus"];

/** Whether `have` is at least as strong as `want`. */
export function isAtLeast(have: TokenStrength, want: TokenStrength): boolean {
  return STRENGTH_ORDER.indexOf(have) >= STRENGTH_ORDER.indexOf(want);
}
