/** A mark as JSON, for stores that keep text. Tokens are decimal strings, as on every wire. */
import { checkName } from "../core/names.js";
import { formatToken, parseToken } from "../core/token.js";
import type { MarkRecord, PastMark, Scope } from "./decide.js";

/** The JSON form of a record. */
export function recordToJson(record: MarkRecord): object {
  const { scope, token, holder, arm, n } = record;
  return { scope, token: formatToken(token), holder, arm, n, past: pastToJson(record.past) };
}

/** The JSON form of the marks that a resource left behind. */
export function pastToJson(past: readonly PastMark[]): object[] {
  return past.map((mark) => ({ ...mark, token: formatToken(mark.token) }));
}

/**
 * @throws TypeError or RangeError for anything that `recordToJson` does not make: a damaged mark is
 *   never taken for a lower one, nor for none.
 */
export function recordFromJson(json: unknown): MarkRecord {
  const { scope, token, holder, arm, n, past } = fields(json, "mark");
  return {
    scope: readScope(scope),
    token: readToken(token),
    holder: readText(holder, "holder"),
    arm: readCount(arm, "arm"),
    n: readCount(n, "n"),
    past: pastFromJson(past),
  };
}

/** @throws as `recordFromJson` does. */
export function pastFromJson(json: unknown): PastMark[] {
  if (!Array.isArray(json)) throw new TypeError("past is not a list");
  return json.map((entry: unknown) => {
    const { scope, token, holder, arm, reason } = fields(entry, "past mark");
    return {
      scope: readScope(scope),
      token: readToken(token),
      holder: readText(holder, "holder"),
      arm: readCount(arm, "arm"),
      reason: readText(reason, "reason"),
    };
  });
}

function fields(json: unknown, what: string): Record<string, unknown> {
  if (typeof json === "object" && json !== null) return json as Record<string, unknown>;
  throw new TypeError(`the ${what} is not an object`);
}

function readScope(json: unknown): Scope {
  const { storeId, name } = fields(json, "scope");
  return { storeId: checkName(storeId, "storeId"), name: checkName(name) };
}

/** 0 is the token of a resource that was moved to a scope and not armed since. */
function readToken(json: unknown): bigint {
  return json === "0" ? 0n : parseToken(readText(json, "token"));
}

function readText(json: unknown, what: string): string {
  if (typeof json !== "string") throw new TypeError(`the ${what} is not text`);
  return json;
}

function readCount(json: unknown, what: string): number {
  if (typeof json === "number" && Number.isSafeInteger(json) && json >= 0) return json;
  throw new TypeError(`the ${what} is not a whole number`);
}
