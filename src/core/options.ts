/** Options of the public calls, checked at once and before any I/O. */
import { defaultGraceMs } from "./deadline.js";
import { parseDuration } from "./duration.js";
import type { Duration } from "./duration.js";
import { ArgumentRangeError, ArgumentTypeError } from "./errors.js";
import type { Manifest } from "./manifest.js";
import { utf8Bytes } from "./names.js";

/** Default TTL, milliseconds. */
const DEFAULT_TTL_MS = 30_000;

/** Options of a lease. */
export interface LeaseOptions {
  /** How long the store keeps the lease without renewal. Default 30 s, or the store's nearest. */
  readonly ttl?: Duration;
  /** Renew in the background until released. Default true. */
  readonly renew?: boolean;
  /** How often to renew; at most half the TTL. Default a third of it. */
  readonly renewEvery?: Duration;
  /** Time before the deadline at which `signal` aborts. Default 10 % of the TTL, at most 1 s. */
  readonly grace?: Duration;
  /** Ends the lease this long after the grant, renewed or not. Default: never. */
  readonly maxHold?: Duration;
  /**
   * Facts for people who look at the store, at most 8 KiB; host and pid are added. Never compared.
   */
  readonly holderInfo?: Readonly<Record<string, string | number>>;
}

/** Options of `acquire`. */
export interface AcquireOptions extends LeaseOptions {
  /** How long to wait; 0 tries once. Default: until granted. */
  readonly wait?: Duration;
  /** Gives up waiting; `acquire` then rejects with the signal's own reason. */
  readonly signal?: AbortSignal;
}

/** Options of `break`. */
export interface BreakOptions {
  /** The one that holds; a later one is not touched. */
  readonly token: bigint;
  /** Why, for the record. */
  readonly reason: string;
}

/** Checked options, milliseconds. */
export interface LeaseTerms {
  readonly ttlMs: number;
  readonly renew: boolean;
  readonly renewEveryMs: number;
  readonly graceMs: number;
  readonly maxHoldMs: number;
  readonly holderInfo: Readonly<Record<string, string | number>>;
}

/** Checked options of `acquire`. */
export interface AcquireTerms extends LeaseTerms {
  readonly waitMs: number;
  readonly signal: AbortSignal | undefined;
}

type Info = Readonly<Record<string, string | number>>;

/**
 * Terms of a lease on a store with this manifest.
 *
 * @throws TypeError or RangeError naming option and value.
 */
export function leaseTerms(
  options: LeaseOptions,
  manifest: Manifest,
  own: Info,
  known: readonly string[] = LEASE_OPTIONS,
): LeaseTerms {
  checkKnown(options, known);
  const ttlMs = checkTtl(options.ttl, manifest);
  const renew = checkBoolean(options.renew, "renew", true);
  const renewEveryMs =
    options.renewEvery === undefined ? ttlMs / 3 : parseDuration(options.renewEvery, "renewEvery");
  if (renewEveryMs > ttlMs / 2) {
    throw new ArgumentRangeError(
      "renewEvery",
      options.renewEvery,
      `at most ${ttlMs / 2} ms, half the TTL`,
    );
  }
  const maxHoldMs =
    options.maxHold === undefined
      ? Infinity
      : parseDuration(options.maxHold, "maxHold", { infinite: true });
  const graceMs =
    options.grace === undefined
      ? defaultGraceMs(Math.min(ttlMs, maxHoldMs))
      : parseDuration(options.grace, "grace", { zero: true });
  if (graceMs >= ttlMs / 3) {
    const must = `below ${Math.ceil(ttlMs / 3)} ms, a third of the TTL`;
    throw new ArgumentRangeError("grace", options.grace, must);
  }
  if (maxHoldMs <= graceMs) {
    throw new ArgumentRangeError("maxHold", options.maxHold, `above the grace (${graceMs} ms)`);
  }
  return {
    ttlMs,
    renew,
    renewEveryMs,
    graceMs,
    maxHoldMs,
    holderInfo: mergeInfo(options.holderInfo, own),
  };
}

/** Terms of an `acquire`. See {@link leaseTerms}. */
export function acquireTerms(options: AcquireOptions, manifest: Manifest, own: Info): AcquireTerms {
  const lease = leaseTerms(options, manifest, own, ACQUIRE_OPTIONS);
  const waitMs =
    options.wait === undefined
      ? Infinity
      : parseDuration(options.wait, "wait", { zero: true, infinite: true });
  return { ...lease, waitMs, signal: checkSignal(options.signal) };
}

/** The option `signal`. @throws TypeError for anything but an AbortSignal or nothing. */
export function checkSignal(signal: AbortSignal | undefined): AbortSignal | undefined {
  if (signal !== undefined && typeof signal?.throwIfAborted !== "function") {
    throw new ArgumentTypeError("signal", signal, "an AbortSignal");
  }
  return signal;
}

function checkTtl(ttl: unknown, manifest: Manifest): number {
  const { minTtlMs, maxTtlMs } = manifest;
  if (ttl === undefined) return Math.min(Math.max(DEFAULT_TTL_MS, minTtlMs), maxTtlMs);
  return parseDuration(ttl, "ttl", { minMs: minTtlMs, maxMs: maxTtlMs });
}

/** Most that holder information may take: every look at the name carries it, and each refusal. */
const MAX_INFO_BYTES = 8_192;

/** Holder information over the process's own. @throws TypeError naming the key; RangeError. */
export function mergeInfo(info: unknown, own: Info, option = "holderInfo"): Info {
  if (info === undefined) return own;
  checkObject(info, option);
  let bytes = 0;
  for (const [key, value] of Object.entries(info as object)) {
    if (typeof value !== "string" && !Number.isFinite(value)) {
      throw new ArgumentTypeError(`${option}.${key}`, value, "a string or a finite number");
    }
    bytes += utf8Bytes(key) + utf8Bytes(String(value));
  }
  if (bytes > MAX_INFO_BYTES) {
    const must = `at most ${MAX_INFO_BYTES} bytes of UTF-8, keys and values together`;
    throw new ArgumentRangeError(option, `${bytes} bytes`, must);
  }
  return { ...own, ...(info as Info) };
}

/** Options of `break`, checked. @throws TypeError naming the one that is wrong. */
export function checkBreak(options: BreakOptions): BreakOptions {
  checkObject(options, "options");
  const { token, reason } = options;
  checkTokenValue(token, "token");
  if (typeof reason !== "string" || reason === "") {
    throw new ArgumentTypeError("reason", reason, "a text that says why");
  }
  return options;
}

/** A token that was kept by the caller, who may have it as text. @throws TypeError for that. */
export function checkTokenValue(value: unknown, option: string): asserts value is bigint {
  if (typeof value === "bigint") return;
  throw new ArgumentTypeError(option, value, "a bigint (parseToken reads one from text)");
}

/** A boolean option. @throws TypeError for anything else. */
function checkBoolean(value: unknown, option: string, fallback: boolean): boolean {
  if (value === undefined) return fallback;
  if (typeof value !== "boolean") throw new ArgumentTypeError(option, value, "true or false");
  return value;
}

/** An options object. @throws TypeError for anything else. */
export function checkObject(value: unknown, option: string): void {
  if (typeof value !== "object" || value === null) {
    throw new ArgumentTypeError(option, value, "an object");
  }
}

const LEASE_OPTIONS = ["ttl", "renew", "renewEvery", "grace", "maxHold", "holderInfo"] as const;
const ACQUIRE_OPTIONS: readonly string[] = [...LEASE_OPTIONS, "wait", "signal"];

/** An options object of known options: a misspelt one would be the default in silence. */
export function checkKnown(options: unknown, known: readonly string[], others = ""): void {
  checkObject(options, "options");
  for (const [key, value] of Object.entries(options as object)) {
    if (known.includes(key)) continue;
    const must = `left out: the options are ${known.join(", ")}${others}`;
    throw new ArgumentTypeError(key, value, must);
  }
}

/** One of a few words. @throws TypeError for anything else. */
export function checkWord<W extends string>(
  value: unknown,
  option: string,
  words: readonly W[],
): W {
  if (!words.includes(value as W))
    throw new ArgumentTypeError(option, value, words.map((w) => `"${w}"`).join(" or "));
  return value as W;
}
