import { ArgumentRangeError, ArgumentTypeError } from "./errors.js";

/** Longest name, in bytes of UTF-8. */
const MAX_NAME_BYTES = 512;

/** Bytes that a text takes in UTF-8, without encoding it. */
export function utf8Bytes(text: string): number {
  let bytes = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0x80) bytes += 1;
    else if (unit < 0x800) bytes += 2;
    else if (unit >= 0xd800 && unit < 0xdc00) {
      bytes += 4;
      i++;
    } else bytes += 3;
  }
  return bytes;
}

/**
 * A lock or resource name as given: 1 to 512 bytes of UTF-8 without NUL. Names are compared byte by
 * byte: nothing is trimmed, folded or normalised, so the two forms of "é" are two names.
 *
 * @throws TypeError for anything but well-formed text without NUL.
 * @throws RangeError for an empty text or one beyond 512 bytes.
 */
export function checkName(name: unknown, option = "name"): string {
  if (typeof name !== "string") throw new ArgumentTypeError(option, name, "a string");
  if (name.length === 0) throw new ArgumentRangeError(option, name, "1 to 512 bytes of UTF-8");
  checkText(name, option);
  if (name.length * 3 > MAX_NAME_BYTES && utf8Bytes(name) > MAX_NAME_BYTES) {
    throw new ArgumentRangeError(option, name, "1 to 512 bytes of UTF-8");
  }
  return name;
}

/** Several names, folded, in the one order that all callers share. @throws as `checkName`. */
export function checkNames(names: Iterable<string>): readonly string[] {
  if (typeof names === "string" || typeof names?.[Symbol.iterator] !== "function") {
    throw new ArgumentTypeError("names", names, "a list of names");
  }
  return [...new Set(names)].map((name) => checkName(name)).sort(compareText);
}

/** By code unit: the one order that every process computes alike, whatever its locale. */
function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** A prefix of names: as a name, and may be empty. */
export function checkPrefix(prefix: unknown): string {
  return prefix === "" ? "" : checkName(prefix, "prefix");
}

function checkText(text: string, option: string): void {
  if (text.includes("\0")) throw new ArgumentTypeError(option, text, "text without NUL");
  if (/\p{Surrogate}/u.test(text)) {
    throw new ArgumentTypeError(option, text, "well-formed text (it has half a surrogate pair)");
  }
}
