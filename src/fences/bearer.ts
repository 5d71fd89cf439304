import { ArgumentRangeError, ArgumentTypeError, LeaseLostError } from "../core/errors.js";
import { checkName } from "../core/names.js";
import { checkTokenValue } from "../core/options.js";
import { MAX_TOKEN, type TokenBearer } from "../core/token.js";
import type { Scope } from "./decide.js";

/**
 * What a handle keeps of the lease that armed it. Taken once: the token of a handle is the one it
 * was armed with, whatever the lease object says later.
 */
export interface Armer {
  readonly scope: Scope;
  readonly token: bigint;
  readonly holder: string;
  readonly signal: AbortSignal | undefined;
  /** Milliseconds that the lease has left; Infinity where the bearer does not say. */
  remainingMs(): number;
}

/**
 * @throws TypeError for a bearer without a bigint token, such as a lease of a store that hands out
 *   no tokens, or without name, holder or store id.
 * @throws RangeError for a token outside 1 to 2^63 - 1.
 */
export function checkBearer(bearer: TokenBearer): Armer {
  const given: unknown = bearer;
  const isPromise = typeof (given as { readonly then?: unknown } | null)?.then === "function";
  if (typeof given !== "object" || given === null || isPromise) {
    throw new ArgumentTypeError("bearer", given, "a lease, or its name, token, holder and storeId");
  }
  const token: unknown = bearer.token;
  if (token === undefined) {
    throw new ArgumentTypeError("token", token, "a bigint; a lease without a token fences nothing");
  }
  checkTokenValue(token, "token");
  if (token < 1n || token > MAX_TOKEN) {
    throw new ArgumentRangeError("token", token, "between 1 and 2^63 - 1");
  }
  return {
    scope: checkScope(bearer),
    token,
    holder: checkName(bearer.holder, "holder"),
    signal: bearer.signal,
    remainingMs: () => bearer.remaining?.() ?? Infinity,
  };
}

/** @throws TypeError or RangeError unless both parts are text as names are. */
export function checkScope(scope: Scope): Scope {
  return { storeId: checkName(scope.storeId, "storeId"), name: checkName(scope.name, "name") };
}

/** @throws the signal's own reason once it is aborted: the operation is not begun. */
export function throwIfAborted(call: { readonly signal: AbortSignal | undefined }): void {
  if (call.signal?.aborted !== true) return;
  const reason: unknown = call.signal.reason;
  if (reason instanceof Error) throw reason;
  throw new LeaseLostError("the lease has ended", { reason: "deadline", cause: reason });
}
