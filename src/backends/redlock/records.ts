import type { AcquireRequest, Held, HolderInfo } from "../../core/backend.js";
import type { Reply } from "./client.js";

/** A record of a lock on one server. */
export interface Shown extends Held {
  readonly holder: string;
  readonly leftMs: number;
}

/** What a server has under the name of a lock; `stranger` when Tenure did not write it. */
export type Seen = Shown | "absent" | "stranger";

/** The text of a record; see `scripts.ts` for how it begins. */
export function recordOf(request: AcquireRequest, nonce: string): string {
  const info = request.holderInfo === undefined ? "" : JSON.stringify(request.holderInfo);
  return `${beginning(request.holder, nonce)}${request.ttlMs} ${info}`;
}

/** How a record of this holder begins; with `nonce`, that of one try. */
export function beginning(holder: string, nonce?: string): string {
  return nonce === undefined ? `${holder} ` : `${holder} ${nonce} `;
}

/** What a script answered about a lock: 0, or a record and its time left. */
export function readSeen(answer: Reply | undefined): Seen {
  if (!Array.isArray(answer)) return "absent";
  const [text, leftMs] = answer as readonly Reply[];
  const parts = /^([^ ]+) [a-z0-9]+ ([0-9]+) (\{.*\})?$/.exec(String(text));
  if (parts === null || Number(leftMs) < 0) return "stranger";
  const [, holder, ttlMs, info] = parts;
  const shown = {
    holder: holder!,
    ttlMs: Number(ttlMs),
    leftMs: Number(leftMs),
    why: "held" as const,
  };
  return info === undefined ? shown : { ...shown, holderInfo: JSON.parse(info) as HolderInfo };
}

/** A record of the holder that most servers show; undefined where none shows any. */
export function mostOf(shown: readonly Shown[]): Shown | undefined {
  const times = timesOf(shown);
  return shown.find(({ holder }) => times.get(holder) === mostTimes(shown));
}

/** How many servers show the holder that most of them show. */
export function mostTimes(shown: readonly Shown[]): number {
  return Math.max(0, ...timesOf(shown).values());
}

function timesOf(shown: readonly Shown[]): ReadonlyMap<string, number> {
  const times = new Map<string, number>();
  for (const { holder } of shown) times.set(holder, (times.get(holder) ?? 0) + 1);
  return times;
}
