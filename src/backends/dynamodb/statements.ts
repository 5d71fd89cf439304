/**
 * The conditional writes of a record. Each is one `UpdateItem`, carried out by the item's leader in
 * one step.
 */
import type { Item, Update } from "../../dialects/dynamodb.js";
import { KEY, keyOf, NAMES } from "./record.js";

/** A write of one item, in the words of expressions. */
export interface Statement {
  readonly set: string;
  readonly remove?: string;
  readonly condition: string;
  /**
   * What becomes of the end by a wall clock: `mine` writes the one of the request, or none; `later`
   * does so unless that is earlier than the one that is there; `none` removes it; `kept` leaves it.
   */
  readonly until: "mine" | "later" | "none" | "kept";
}

const LET_GO = "#free = :true, #by = :by, #seen = :none, #version = #version + :one";
const MINE = "#holder = :me AND #free = :false";
const IS_LATER = "(attribute_not_exists(#until) OR #until <= :until)";

/** Grants to `:me` what is in nobody's hands. */
const GRANTED = "#holder = :me, #ttl = :ttl, #info = :info, #free = :false, #seen = :none";

/** Takes a free record, or the one that was watched. */
export const TAKE: Statement = {
  set: `${GRANTED}, #token = #token + :one, #version = #version + :one`,
  remove: "#by",
  condition:
    "#free = :true OR " +
    "(#free = :false AND #version = :seenVersion AND #holder = :seenHolder)",
  until: "mine",
};

/** Makes the record of a name that has none, with a token to begin at. */
export const MAKE: Statement = {
  set: `${GRANTED}, #token = :seed, #version = :one`,
  condition: `attribute_not_exists(${KEY})`,
  until: "mine",
};

/**
 * Starts the time of one's own record anew. A copy that arrives late must not bring back an end
 * that a renewal in between has put off: others would take over by it.
 */
export const RENEW: Statement = {
  set: "#version = #version + :one, #ttl = :ttl",
  condition: `${MINE} AND #token = :token`,
  until: "later",
};

/** As {@link RENEW}, where the end that is there is a later one: a wall clock was set back. */
export const RENEW_UNTIL_THEN: Statement = { ...RENEW, until: "kept" };

/** As {@link RENEW}, for a grant whose answer was lost with its token. */
export const REPEAT: Statement = { set: RENEW.set, condition: MINE, until: "later" };

/** Marks one's own record free. */
export const RELEASE: Statement = { set: LET_GO, condition: RENEW.condition, until: "none" };

/** As {@link RELEASE}, for an attempt that may have been granted. */
export const CLEAN_UP: Statement = { set: LET_GO, condition: MINE, until: "none" };

/** Marks the record of a token free, whoever has it. */
export const BREAK: Statement = {
  set: LET_GO,
  condition: "#token = :token AND #free = :false",
  until: "none",
};

/** Leaves a note beside those of other boots. */
export const NOTE: Statement = {
  set: "#seen.#boot = :note",
  condition: "#version = :seenVersion AND #holder = :seenHolder AND #free = :false",
  until: "kept",
};

/** Leaves a note instead of all others. */
export const NOTE_ALONE: Statement = { ...NOTE, set: "#seen = :notes" };

const FIXED: Item = {
  ":true": { BOOL: true },
  ":false": { BOOL: false },
  ":one": { N: "1" },
  ":none": { M: {} },
};

/** A statement as a request about a name: with the names and values that it uses, and no others. */
export function updateOf(
  table: string,
  name: string,
  { set, remove, condition: only, until }: Statement,
  values: Item,
  names: Readonly<Record<string, string>> = {},
): Update {
  const isTimed = /^(mine|later)$/.test(until) && values[":until"] !== undefined;
  const condition = isTimed && until === "later" ? `${only} AND ${IS_LATER}` : only;
  const isUntimed = until !== "kept" && !isTimed;
  const removed = [remove, isUntimed ? "#until" : undefined].filter((part) => part !== undefined);
  const expression =
    `SET ${set}${isTimed ? ", #until = :until" : ""}` +
    (removed.length === 0 ? "" : ` REMOVE ${removed.join(", ")}`);
  const used = new Set(`${expression} ${condition}`.match(/[#:]\w+/g));
  const pick = <V>(from: Readonly<Record<string, V>>): Readonly<Record<string, V>> =>
    Object.fromEntries(Object.entries(from).filter(([key]) => used.has(key)));
  return {
    TableName: table,
    Key: keyOf(name),
    UpdateExpression: expression,
    ConditionExpression: condition,
    ExpressionAttributeNames: pick({ ...NAMES, ...names }),
    ExpressionAttributeValues: pick({ ...FIXED, ...values }),
  };
}
