import { ArgumentRangeError, ArgumentTypeError } from "./errors.js";

/** Milliseconds as a bare number, never seconds; or text: `"500ms"`, `"30s"`, `"2m"`, `"1h"`. */
export type Duration = number | `${number}${"ms" | "s" | "m" | "h"}`;

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };
const FORM = "milliseconds as a number, or text such as 500ms, 30s, 2m, 1h";

/** Limits of a duration option. */
export interface DurationLimits {
  /** Smallest allowed, milliseconds. Default: anything above 0. */
  readonly minMs?: number;
  /** Largest allowed, milliseconds. Default 2^53 - 1. */
  readonly maxMs?: number;
  /** Whether 0 is allowed. Default false. */
  readonly zero?: boolean;
  /** Whether Infinity is allowed. Default false. */
  readonly infinite?: boolean;
}

/**
 * A duration in whole milliseconds; fractions are rounded up.
 *
 * @throws TypeError when `value` is not a duration at all (a bare `"500"` has no unit).
 * @throws RangeError when it is outside the limits; NaN and negative numbers always are.
 */
export function parseDuration(value: unknown, option: string, limits: DurationLimits = {}): number {
  const ms = toMs(value, option);
  if (ms === Infinity && limits.infinite === true) return Infinity;
  const min = limits.minMs ?? 0;
  const max = limits.maxMs ?? Number.MAX_SAFE_INTEGER;
  const whole = Math.ceil(ms);
  const zeroOk = limits.zero === true && whole === 0;
  if (!zeroOk && !(ms > 0 && whole >= min && whole <= max)) {
    const isShort = typeof value === "number" && value > 0 && value < min;
    const hint = isShort ? ` (a bare number is milliseconds; "${value}s" is seconds)` : "";
    throw new ArgumentRangeError(option, value, describe(min, max, limits) + hint);
  }
  return whole;
}

function toMs(value: unknown, option: string): number {
  if (typeof value === "number") return value;
  if (typeof value !== "string") throw new ArgumentTypeError(option, value, FORM);
  const match = /^([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)$/.exec(value);
  if (match === null) throw new ArgumentTypeError(option, value, FORM);
  return Number(match[1]) * UNITS[match[2]!]!;
}

function describe(min: number, max: number, limits: DurationLimits): string {
  const parts = [
    min > 0 ? `at least ${written(min)}` : limits.zero === true ? "0 or more" : "above 0",
  ];
  if (max < Number.MAX_SAFE_INTEGER) parts.push(`at most ${written(max)}`);
  else if (limits.infinite !== true) parts.push("finite");
  return parts.join(" and ");
}

/** As a person would write it: `10s`, not 10000 ms. */
function written(ms: number): string {
  const unit = ["h", "m", "s"].find((one) => ms % UNITS[one]! === 0) ?? "ms";
  return `${ms / UNITS[unit]!}${unit}`;
}
