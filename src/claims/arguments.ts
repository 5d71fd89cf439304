/** What callers give, checked before anything is sent. */
import { parseDuration } from "../core/duration.js";
import { ArgumentRangeError, ArgumentTypeError } from "../core/errors.js";
import { jsonText, MOST_JSON_BYTES } from "../core/json.js";
import { checkName } from "../core/names.js";
import { checkKnown, checkObject, checkTokenValue, checkWord } from "../core/options.js";
import { CLAIM_STATES, type ClaimState } from "./contract.js";

const TEN_YEARS_MS = 3_652 * 86_400_000;
const LONGEST_PAGE = 1_000;

/** The lease in milliseconds; null for a claim for ever. */
export function checkLease(options: unknown): number | null {
  if (options === undefined) return null;
  checkKnown(options, ["lease"]);
  const { lease } = options as { lease?: unknown };
  if (lease === undefined) return null;
  return parseDuration(lease, "lease", { minMs: 1, maxMs: TEN_YEARS_MS });
}

/** A body as JSON text; null for none. */
export function checkBody(body: unknown): string | null {
  if (body === undefined) return null;
  return jsonText(body, "body", MOST_JSON_BYTES);
}

/** What says which claim is meant. */
export interface Meant {
  readonly key: string;
  readonly owner: string;
  /** Undefined where only the owner is named. */
  readonly token: bigint | undefined;
  readonly holder: string | undefined;
}

/** A claim, or a key with its owner. */
export function checkClaim(claim: unknown): Meant {
  checkObject(claim, "claim");
  const { key, owner, token, holder } = claim as Readonly<Record<string, unknown>>;
  const named = { key: checkName(key, "claim.key"), owner: checkName(owner, "claim.owner") };
  if (token === undefined && holder === undefined) return { ...named, token, holder };
  checkTokenValue(token, "claim.token");
  return { ...named, token, holder: checkName(holder, "claim.holder") };
}

/** Why something failed, as text without NUL; null for no reason. */
export function checkReason(reason: unknown): string | null {
  if (reason === undefined || reason === "") return null;
  if (typeof reason !== "string" || reason.includes("\0")) {
    throw new ArgumentTypeError("reason", reason, "text without NUL");
  }
  return reason.toWellFormed();
}

/** A page to list. */
export interface Page {
  readonly state: ClaimState | undefined;
  /** Empty for the first. */
  readonly after: string;
  readonly limit: number;
}

/** Which page is wanted. */
export function checkPage(options: unknown = {}): Page {
  checkKnown(options, ["state", "after", "limit"]);
  const { state, after, limit = LONGEST_PAGE } = options as Readonly<Record<string, unknown>>;
  const isLimit = typeof limit === "number" && Number.isInteger(limit);
  if (!isLimit || limit < 1 || limit > LONGEST_PAGE) {
    throw new ArgumentRangeError("limit", limit, `a whole number from 1 to ${LONGEST_PAGE}`);
  }
  return {
    state: state === undefined ? undefined : checkWord(state, "state", CLAIM_STATES),
    after: after === undefined ? "" : checkName(after, "after"),
    limit,
  };
}
