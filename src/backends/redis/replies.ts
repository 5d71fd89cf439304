import type { Held, HolderInfo } from "../../core/backend.js";
import { UnavailableError } from "../../core/errors.js";
import { parseToken, type FencingToken } from "../../core/token.js";
import type { Reply } from "./client.js";

/** Something else writes to a key of ours: it has the wrong type, or fields that are not ours. */
export class ForeignKeyError extends UnavailableError {
  readonly key: string;

  constructor(key: string, lock: string, cause: unknown) {
    super(
      `the Redis key ${JSON.stringify(key)} holds something that is not Tenure's; use another ` +
        `prefix, or remove it`,
      { backend: "redis", lock, retryable: false, cause },
    );
    this.key = key;
  }
}

/** Whether an error of a script means that a key holds a stranger's value. */
export function isForeign(text: string): boolean {
  return /TENURE_FOREIGN|\bWRONGTYPE\b/.test(text);
}

/** The elements of an array reply. */
export function elements(reply: Reply | undefined): readonly Reply[] {
  return Array.isArray(reply) ? (reply as readonly Reply[]) : [];
}

/** A number reply; some clients are set up to read integers as text. */
function toNumber(reply: Reply | undefined): number {
  return Number(reply);
}

/** A token reply. */
export function toToken(reply: Reply | undefined): FencingToken {
  return parseToken(String(reply));
}

const texts = new WeakMap<HolderInfo, string>();

/** The text that the store keeps of a holder's info; most leases of a process share one. */
export function infoText(info: HolderInfo | undefined): string {
  if (info === undefined) return "";
  let text = texts.get(info);
  if (text === undefined) texts.set(info, (text = JSON.stringify(info)));
  return text;
}

/** `field, value, µs left` of the scripts, and how many wait where they say. */
export function toHeld(reply: readonly Reply[]): Held {
  const [field, value, left, waiters] = reply;
  const [, token, holder] = /^.(\d+):([^]*)$/.exec(String(field)) ?? [];
  const [, ttl, info] = /^\d+ (\d+) [lo] ([^]*)$/.exec(String(value)) ?? [];
  return {
    holder: holder ?? "",
    ...readInfo(info),
    token: parseToken(token ?? ""),
    ttlMs: Number(ttl),
    leftMs: Math.max(0, Math.ceil(toNumber(left) / 1_000)),
    ...(waiters === undefined ? {} : { waiters: toNumber(waiters) }),
    why: "held",
  };
}

function readInfo(text: string | undefined): { readonly holderInfo?: HolderInfo } {
  if (text === undefined || text === "") return {};
  try {
    return { holderInfo: JSON.parse(text) as HolderInfo };
  } catch {
    // For people only: a damaged one takes nothing from the rest.
    return {};
  }
}
