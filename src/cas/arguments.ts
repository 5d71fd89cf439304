/** What callers give, checked before anything is sent. */
import { ArgumentRangeError, ArgumentTypeError } from "../core/errors.js";
import { DEFAULT_JSON_BYTES } from "../core/json.js";
import { checkKnown, checkSignal } from "../core/options.js";

const DEFAULT_ATTEMPTS = 20;

/** Options of an update, checked. */
export interface UpdateTerms {
  readonly attempts: number;
  readonly signal: AbortSignal | undefined;
}

/** Checks an update. */
export function checkUpdate(change: unknown, options: unknown = {}): UpdateTerms {
  if (typeof change !== "function") throw new ArgumentTypeError("change", change, "a function");
  checkKnown(options, ["attempts", "signal"]);
  const { attempts = DEFAULT_ATTEMPTS, signal } = options as {
    readonly attempts?: unknown;
    readonly signal?: AbortSignal;
  };
  const must = "a whole number above 0, or Infinity";
  if (typeof attempts !== "number") throw new ArgumentTypeError("attempts", attempts, must);
  const isWhole = Number.isSafeInteger(attempts) || attempts === Infinity;
  if (!isWhole || attempts < 1) throw new ArgumentRangeError("attempts", attempts, must);
  return { attempts, signal: checkSignal(signal) };
}

/** The version that a write rests on. */
export function checkVersion(options: unknown): bigint | null {
  checkKnown(options, ["version"]);
  const { version } = options as { readonly version?: unknown };
  if (version === null || typeof version === "bigint") return version;
  throw new ArgumentTypeError("version", version, "a bigint, or null where there was no value");
}

/** The option `maxBytes`. */
export function checkMaxBytes(maxBytes: unknown = DEFAULT_JSON_BYTES): number {
  if (typeof maxBytes === "number" && Number.isSafeInteger(maxBytes) && maxBytes > 0) {
    return maxBytes;
  }
  throw new ArgumentRangeError("maxBytes", maxBytes, "a whole number of bytes above 0");
}
