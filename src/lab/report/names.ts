/** Names of tokens as people read them. */
import type { HistoryEvent } from "../history.js";

/** Tokens with more digits than this are given a short name. */
const MOST_DIGITS = 6;
/** Where short names begin: the numbers with which the story of the late write is told. */
const FIRST_NAME = 33;

/** How a report calls a token. */
export type TokenNames = (token: string) => string;

/**
 * Short names for the tokens of a run, in their order: 33, 34, … Equal tokens have one name, and a
 * lower token a lower name. Tokens that are short already keep their digits.
 */
export function nameTokens(events: readonly HistoryEvent[]): TokenNames {
  const all = new Set<string>();
  for (const event of events) {
    if ("token" in event) all.add(event.token);
    if ("term" in event && event.term !== undefined) all.add(event.term);
  }
  if ([...all].every((token) => token.length <= MOST_DIGITS)) return orNone;
  const sorted = [...all]
    .filter((token) => /^\d+$/.test(token))
    .map((token) => BigInt(token))
    .sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  const names = new Map(sorted.map((token, nth) => [String(token), String(FIRST_NAME + nth)]));
  return (token) => names.get(token) ?? orNone(token);
}

/** A store without tokens gives 0. */
function orNone(token: string): string {
  return token === "0" ? "none" : token;
}

/** The same text with the short names of the tokens in it. */
export function withNames(text: string, names: TokenNames): string {
  return text.replace(/\d{7,}/g, (digits) => names(digits));
}

/** A moment as a report tells it: seconds with three places. */
export function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(3)} s`;
}
