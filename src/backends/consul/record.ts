/** The value of a lease's key: who holds it, for people and for us. */
import type { Held, HolderInfo } from "../../core/backend.js";
import type { Entry } from "./client.js";

/** What a record says. Its token is the entry's index: see `leases.ts`. */
export interface LeaseRecord {
  readonly holder: string;
  readonly ttlMs: number;
  readonly info: HolderInfo;
}

/** The value of a record: JSON. */
export function formatRecord({ holder, ttlMs, info }: LeaseRecord): string {
  return JSON.stringify({ holder, ttlMs, info });
}

/** The record of an entry; undefined for what somebody else has written there. */
export function parseRecord(entry: Entry): LeaseRecord | undefined {
  let json: unknown;
  try {
    json = JSON.parse(new TextDecoder().decode(entry.value));
  } catch {
    return undefined;
  }
  if (typeof json !== "object" || json === null) return undefined;
  const { holder, ttlMs, info } = json as Partial<Record<keyof LeaseRecord, unknown>>;
  if (typeof holder !== "string" || typeof ttlMs !== "number") return undefined;
  return { holder, ttlMs, info: typeof info === "object" ? { ...(info as HolderInfo) } : {} };
}

/** A held entry as the core sees it. Nobody can say how long its session will live. */
export function toHeld(entry: Entry): Held {
  const record = parseRecord(entry);
  const token = entry.index;
  // Locked by a stranger: held all the same.
  if (record === undefined) return { token, why: "held" };
  return {
    holder: record.holder,
    holderInfo: record.info,
    token,
    ttlMs: record.ttlMs,
    why: "held",
  };
}
