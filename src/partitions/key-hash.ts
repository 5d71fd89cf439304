/**
 * The partition of a key: murmur2 of its bytes, seed 0x9747b28c, without the sign, modulo the
 * number of partitions. That is what Kafka's own producers do with a key, so a message and what is
 * kept beside it fall to the same number; and it is a dozen lines in any other language.
 */
import { ArgumentRangeError, ArgumentTypeError } from "../core/errors.js";

const SEED = 0x9747b28c;
const MULTIPLIER = 0x5bd1e995;

/**
 * Number of the partition that a key falls to, from 0; text counts as its bytes of UTF-8. The same
 * in every version, process and language; another one as soon as `count` is another.
 *
 * @throws TypeError for a key that is neither text nor bytes. RangeError for a count that is no
 *   whole number from 1.
 */
export function partitionOf(key: string | Uint8Array, count: number): number {
  if (!Number.isInteger(count) || count < 1) {
    throw new ArgumentRangeError("count", count, "a whole number from 1");
  }
  if (typeof key !== "string" && !(key instanceof Uint8Array)) {
    throw new ArgumentTypeError("key", key, "a string or bytes");
  }
  const bytes = typeof key === "string" ? new TextEncoder().encode(key) : key;
  return (murmur2(bytes) & 0x7fff_ffff) % count;
}

/** 32 bits, signed. */
export function murmur2(bytes: Uint8Array): number {
  const { length } = bytes;
  const whole = length & ~3;
  const view = new DataView(bytes.buffer, bytes.byteOffset, length);
  let hash = SEED ^ length;
  for (let at = 0; at < whole; at += 4) {
    let word = Math.imul(view.getInt32(at, true), MULTIPLIER);
    word = Math.imul(word ^ (word >>> 24), MULTIPLIER);
    hash = Math.imul(hash, MULTIPLIER) ^ word;
  }
  if (length > whole) {
    for (let at = length - 1; at >= whole; at--) hash ^= bytes[at]! << (8 * (at - whole));
    hash = Math.imul(hash, MULTIPLIER);
  }
  hash = Math.imul(hash ^ (hash >>> 13), MULTIPLIER);
  return hash ^ (hash >>> 15);
}
