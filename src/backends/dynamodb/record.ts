/**
 * The item of a name. It is never deleted: a released one is marked free, so that its token and its
 * version go on.
 *
 * The **version** of a record is its holder and a number that every write of the record raises by
 * one, in the server. A request that arrives twice, or late, raises it once more; it never puts an
 * older version back, which a contender that had seen it before would take for a holder that is
 * silent since then.
 */
import type { AcquireRequest, Held, HolderInfo } from "../../core/backend.js";
import type { Item } from "../../dialects/dynamodb.js";

/** Attributes of a record, by the placeholder that expressions have for them. */
export const NAMES = {
  "#holder": "holder",
  "#token": "token",
  "#ttl": "ttlMs",
  "#version": "version",
  "#free": "isFree",
  "#by": "freedBy",
  "#info": "info",
  "#until": "untilMs",
  "#seen": "seen",
} as const;

/** The one key of the table, and what it begins with for records of leases. */
export const KEY = "pk";
const LEASE = "lease:";

/** The key of a name; also the beginning of the keys of all names that begin so. */
export function keyText(name: string): string {
  return LEASE + name;
}

/** The key of a name, as an item has it. */
export function keyOf(name: string): Item {
  return { [KEY]: { S: keyText(name) } };
}

/** A look at a record: when and by whom, as `sightings.ts` reads it. */
export interface Sighting {
  readonly version: bigint;
  readonly monotonicMs: number;
  readonly wallMs: number;
}

/** What an item says. */
export interface LeaseRecord {
  readonly name: string;
  readonly holder: string;
  readonly token: bigint;
  readonly ttlMs: number;
  readonly version: bigint;
  readonly isFree: boolean;
  /** Id of the call that marked it free. */
  readonly freedBy: string | undefined;
  readonly info: HolderInfo;
  /** The end by the holder's wall clock, where it writes one. */
  readonly untilMs: number | undefined;
  readonly seen: ReadonlyMap<string, Sighting>;
}

/** An item as a record; undefined for what somebody else has written there. */
export function readRecord(item: Item): LeaseRecord | undefined {
  try {
    const key = text(item[KEY]);
    if (!key.startsWith(LEASE)) return undefined;
    const { S: info = "{}" } = (item[NAMES["#info"]] ?? {}) as { readonly S?: string };
    return {
      name: key.slice(LEASE.length),
      holder: text(item[NAMES["#holder"]]),
      token: whole(item[NAMES["#token"]]),
      ttlMs: Number(whole(item[NAMES["#ttl"]])),
      version: whole(item[NAMES["#version"]]),
      isFree: item[NAMES["#free"]]?.["BOOL"] !== false,
      freedBy: item[NAMES["#by"]] === undefined ? undefined : text(item[NAMES["#by"]]),
      info: JSON.parse(info) as HolderInfo,
      untilMs:
        item[NAMES["#until"]] === undefined ? undefined : Number(whole(item[NAMES["#until"]])),
      seen: readSightings(item[NAMES["#seen"]]?.["M"]),
    };
  } catch {
    return undefined;
  }
}

function readSightings(map: unknown): ReadonlyMap<string, Sighting> {
  const entries = Object.entries((map ?? {}) as Readonly<Record<string, { readonly M: Item }>>);
  return new Map(
    entries.map(([boot, { M: at }]) => [
      boot,
      {
        version: whole(at["version"]),
        monotonicMs: Number(at["monotonicMs"]?.["N"]),
        wallMs: Number(at["wallMs"]?.["N"]),
      },
    ]),
  );
}

/** A sighting as an attribute. */
export function writeSighting({ version, monotonicMs, wallMs }: Sighting): {
  readonly M: Item;
} {
  return {
    M: {
      version: { N: String(version) },
      monotonicMs: { N: String(monotonicMs) },
      wallMs: { N: String(wallMs) },
    },
  };
}

/** A held record as the core sees it. Nobody can say how long it will live. */
export function toHeld(record: LeaseRecord): Held {
  const { holder, token, ttlMs, info } = record;
  const version = formatVersion(record);
  return { holder, holderInfo: info, token, ttlMs, version, why: "held" };
}

/** A version as the core carries it. */
export function formatVersion({ version, holder }: LeaseRecord): string {
  return `${version} ${holder}`;
}

/** Values for a condition on a version; those of no record for text that is no version. */
export function versionValues(version: string | undefined): Item {
  const [, number = "-1", holder = ""] = /^(\d{1,37}) (.+)$/s.exec(version ?? "") ?? [];
  return { ":seenVersion": { N: number }, ":seenHolder": { S: holder } };
}

/** The attributes of who asks. */
export function ownValues({ holder, ttlMs, holderInfo = {} }: AcquireRequest): Item {
  return {
    ":me": { S: holder },
    ":ttl": { N: String(ttlMs) },
    ":info": { S: JSON.stringify(holderInfo) },
  };
}

function text(value: Item[string] | undefined): string {
  const { S: found } = (value ?? {}) as { readonly S?: unknown };
  if (typeof found === "string") return found;
  throw new TypeError("no text");
}

/** Numbers travel as text, with 38 digits: exact as bigint, and never read as a double. */
function whole(value: Item[string] | undefined): bigint {
  const { N: digits } = (value ?? {}) as { readonly N?: unknown };
  if (typeof digits === "string" && /^\d+$/.test(digits)) return BigInt(digits);
  throw new TypeError("no whole number");
}
