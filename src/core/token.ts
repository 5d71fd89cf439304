/**
 * Fencing tokens: the number that grows with every grant of a name, and what a fence needs to know
 * of a lease. The only file that may brand a bigint as a token.
 */

declare const brand: unique symbol;

/**
 * A fencing token: strictly increasing per name over all history.
 *
 * A `bigint` in code, a decimal string on the wire, never a double: 64-bit tokens lose their last
 * digits as a JavaScript number. Not promised: that tokens are consecutive, or that tokens of two
 * names or two stores can be compared.
 */
export type FencingToken = bigint & { readonly [brand]: "FencingToken" };

/** The largest token, 2^63 - 1: what every store with 64-bit integers can keep. */
export const MAX_TOKEN: FencingToken = 9_223_372_036_854_775_807n as FencingToken;

/**
 * A token from a bigint that a store handed out.
 *
 * @throws RangeError unless 1 <= value <= 2^63 - 1.
 */
export function toToken(value: bigint): FencingToken {
  if (value < 1n || value > MAX_TOKEN) {
    throw new RangeError(`a fencing token is between 1 and 2^63 - 1, got ${value}`);
  }
  return value as FencingToken;
}

/**
 * A token from its decimal text, as it travels in headers, environment variables and JSON.
 *
 * @throws TypeError for anything but digits: signs, spaces, exponents and hexadecimal are refused,
 *   since a token that is read loosely can be compared wrongly.
 * @throws RangeError outside 1 to 2^63 - 1.
 */
export function parseToken(text: string): FencingToken {
  if (typeof text !== "string" || !/^[0-9]{1,19}$/.test(text)) {
    throw new TypeError(`a fencing token is decimal digits, got ${JSON.stringify(text)}`);
  }
  return toToken(BigInt(text));
}

/** The decimal text of a token. */
export function formatToken(token: bigint): string {
  return token.toString(10);
}

/** -1, 0 or 1: whether `a` is older than, equal to or newer than `b`, compared as numbers. */
export function compareTokens(a: bigint, b: bigint): -1 | 0 | 1 {
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * What a fence needs of a lease: a lease itself, or the same four fields come over the wire.
 *
 * A lease of a store without tokens has `token: undefined` and does not fit.
 */
export interface TokenBearer {
  /** Name of the lease. */
  readonly name: string;
  readonly token: FencingToken;
  /** Random id of the grant. */
  readonly holder: string;
  /** Id of the store that handed out the token; with `name`, the scope of the mark. */
  readonly storeId: string;
  /** Heeded where there is one: an operation is not begun once it is aborted. */
  readonly signal?: AbortSignal;
  /** Time left in milliseconds, where the bearer knows it: bounds transactions of a fence. */
  remaining?(): number;
}
