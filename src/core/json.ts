/** Values that are kept as JSON: checked, bounded in size, and the same when they are read back. */
import { ArgumentRangeError, ArgumentTypeError } from "./errors.js";
import { utf8Bytes } from "./names.js";

/** A value that JSON keeps as it is. */
export type Json =
  | string
  | number
  | boolean
  | null
  | readonly Json[]
  | { readonly [name: string]: Json | undefined };

/** Largest text unless told otherwise, bytes of UTF-8. */
export const DEFAULT_JSON_BYTES: number = 256 * 1024;

/** Largest text of what travels in a row; what is larger belongs into a table of its own. */
export const MOST_JSON_BYTES = 1_048_576;

const MUST = "JSON: text, finite numbers, true, false, null, and plain objects and arrays of these";
const DEEPEST = 200;

/**
 * A value as JSON. A property that is undefined is left out.
 *
 * @throws TypeError naming the place of what JSON would drop or change: a function, a bigint, NaN,
 *   a Date or another object with a class, a cycle. RangeError for a text of more than `maxBytes`.
 */
export function jsonText(
  value: unknown,
  option: string,
  maxBytes: number = DEFAULT_JSON_BYTES,
): string {
  check(value, option, []);
  const text = JSON.stringify(value);
  const bytes = utf8Bytes(text);
  if (bytes > maxBytes) {
    throw new ArgumentRangeError(option, `${bytes} bytes`, `at most ${maxBytes} bytes of JSON`);
  }
  return text;
}

/**
 * A value as the one JSON text that all equal values share: properties sorted by code unit, no
 * spaces.
 *
 * @throws TypeError as {@link jsonText}.
 */
export function canonicalJson(value: unknown, option: string): string {
  check(value, option, []);
  return canonical(value as Json);
}

function canonical(value: Json): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${(value as readonly Json[]).map(canonical).join(",")}]`;
  const names = Object.keys(value).sort((a, b) => (a < b ? -1 : 1));
  const parts = names.flatMap((name) => {
    const part = (value as Readonly<Record<string, Json | undefined>>)[name];
    return part === undefined ? [] : [`${JSON.stringify(name)}:${canonical(part)}`];
  });
  return `{${parts.join(",")}}`;
}

function check(value: unknown, place: string, above: readonly unknown[]): void {
  if (value === null || typeof value === "string" || typeof value === "boolean") return;
  if (typeof value === "number" && Number.isFinite(value)) return;
  if (typeof value !== "object") throw new ArgumentTypeError(place, value, MUST);
  if (above.includes(value)) throw new ArgumentTypeError(place, value, "without a cycle");
  if (above.length >= DEEPEST) {
    throw new ArgumentRangeError(place, value, `at most ${DEEPEST} levels deep`);
  }
  const path = [...above, value];
  if (Array.isArray(value)) {
    // Not forEach, which passes over holes.
    for (let i = 0; i < value.length; i++) check(value[i], `${place}[${i}]`, path);
    return;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null;
  if (!isPlain) throw new ArgumentTypeError(place, value, MUST);
  for (const [name, part] of Object.entries(value)) {
    if (part !== undefined) check(part, `${place}.${name}`, path);
  }
}
