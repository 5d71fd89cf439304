/**
 * JSON with whole numbers beyond 2^53. Indexes of Consul are unsigned 64-bit integers, written as
 * plain numbers, which `JSON.parse` rounds.
 */

/** A number that is the value of a field; within a text its quotes would be escaped. */
const INDEX_FIELD = /"([A-Za-z]*Index)":\s*(\d+)/g;

/** What begins a number on its way through `JSON.stringify`; no text of ours has a NUL. */
const MARK = "\0";
const MARKED = /"\\u0000(\d+)"/g;

/** Parses an answer; each field whose name ends in `Index` is a decimal text. */
export function parseExact(text: string): unknown {
  return JSON.parse(text.replaceAll(INDEX_FIELD, '"$1":"$2"'));
}

/** As `JSON.stringify`, and bigints are numbers. */
export function formatExact(value: unknown): string {
  const marked = (_key: string, part: unknown): unknown =>
    typeof part === "bigint" ? `${MARK}${part}` : part;
  return JSON.stringify(value, marked).replaceAll(MARKED, "$1");
}
