/** What callers give, checked before anything is sent. */
import { parseDuration } from "../core/duration.js";
import { ArgumentRangeError, ArgumentTypeError } from "../core/errors.js";
import { canonicalJson, DEFAULT_JSON_BYTES, jsonText } from "../core/json.js";
import { checkName } from "../core/names.js";
import { checkKnown } from "../core/options.js";

const DAY_MS = 86_400_000;
const TTL_LIMITS = { minMs: 1, maxMs: 3_652 * DAY_MS };
const DEFAULT_WAIT_MS = 10_000;
const DEFAULT_LEASE_MS = 30_000;

/** How results are kept. */
export interface Keeping {
  /** A short text that equal inputs share. */
  readonly digest: (text: string) => string;
  /** Largest result, bytes of JSON. */
  readonly maxBytes: number;
}

/** One call, checked. */
export interface Terms {
  readonly key: string;
  /** Empty where no input was given. */
  readonly inputHash: string;
  readonly ttlMs: number;
  readonly waitMs: number;
  readonly leaseMs: number;
}

/** Which options a call has beside `input` and `ttl`. */
export type MoreOptions = readonly ("wait" | "lease")[];

/** Checks a call. @throws TypeError or RangeError naming what is wrong. */
export function checkTerms(
  key: unknown,
  options: unknown,
  work: unknown,
  more: MoreOptions,
  { digest }: Keeping,
): Terms {
  const name = checkName(key, "key");
  if (typeof options === "function") {
    const must = "an object such as { input: request.body }, and the work comes after it";
    throw new ArgumentTypeError("options", options, must);
  }
  checkKnown(options, ["input", "ttl", ...more]);
  const { input, ttl, wait, lease } = options as Readonly<Record<string, unknown>>;
  if (typeof work !== "function") throw new ArgumentTypeError("work", work, "a function");
  const ttlMs = ttl === undefined ? DAY_MS : parseDuration(ttl, "ttl", TTL_LIMITS);
  const waitMs =
    wait === undefined
      ? DEFAULT_WAIT_MS
      : parseDuration(wait, "wait", { zero: true, maxMs: DAY_MS });
  const leaseMs =
    lease === undefined
      ? DEFAULT_LEASE_MS
      : parseDuration(lease, "lease", { minMs: 10, maxMs: DAY_MS });
  const inputHash = input === undefined ? "" : digest(canonicalJson(input, "input"));
  return { key: name, inputHash, ttlMs, waitMs, leaseMs };
}

/** What work returned, as it is kept; null for nothing. @throws TypeError or RangeError. */
export function checkResult(result: unknown, { maxBytes }: Keeping): string | null {
  return result === undefined ? null : jsonText(result, "result", maxBytes);
}

/** What is kept, as work returned it. */
export function resultOf(text: string | null): unknown {
  return text === null ? undefined : JSON.parse(text);
}

/** The option `maxBytes`. */
export function checkMaxBytes(maxBytes: unknown = DEFAULT_JSON_BYTES): number {
  if (typeof maxBytes === "number" && Number.isSafeInteger(maxBytes) && maxBytes > 0) {
    return maxBytes;
  }
  throw new ArgumentRangeError("maxBytes", maxBytes, "a whole number of bytes above 0");
}
