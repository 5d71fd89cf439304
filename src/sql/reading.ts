/** Values of rows, which the client libraries give in forms of their own. */

/** An integer, exact to 64 bits. @throws TypeError for anything else. */
export function bigintOf(value: unknown): bigint {
  if (typeof value === "bigint") return value;
  if (typeof value === "number" && Number.isSafeInteger(value)) return BigInt(value);
  const isDigits = typeof value === "string" && /^-?[0-9]+$/.test(value);
  if (isDigits) return BigInt(value);
  throw new TypeError(`the store answered ${typeof value} where an integer belongs`);
}

/** An integer within 2^53: a count, a time in milliseconds. @throws TypeError for anything else. */
export function numberOf(value: unknown): number {
  const whole = Number(bigintOf(value));
  if (Number.isSafeInteger(whole)) return whole;
  throw new TypeError("the store answered an integer beyond 2^53");
}

/** A text; also from bytes, as which MySQL keeps our texts. @throws TypeError for anything else. */
export function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  if (value instanceof Uint8Array) {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(value);
  }
  throw new TypeError(`the store answered ${typeof value} where a text belongs`);
}

/** A value that may be NULL. */
export function orNull<R>(value: unknown, read: (value: unknown) => R): R | null {
  return value === null || value === undefined ? null : read(value);
}
