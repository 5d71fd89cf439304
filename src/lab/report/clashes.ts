/** Updates that were wiped out, and the time in which that can happen. */
import type { EventOf, HistoryEvent } from "../history.js";
import type { TokenNames } from "./names.js";
import type { Holding, Span } from "./spans.js";

type Operation = EventOf<"arm" | "read" | "write">;

/**
 * An accepted write that wiped out another one unseen. Its span is the time in which both were
 * between their reading and their writing.
 */
export interface Clash extends Span {
  /** When the later writer had read what it wrote from. */
  readonly readMs: number;
  readonly resource: string;
  readonly wiped: Operation | undefined;
  readonly by: Operation;
  /** Whether the client of the wiped write had been told that it is written. */
  readonly wasAcknowledged: boolean;
}

/** From a grant to the moment from which on the resource refuses what is older. */
export interface OpenWindow extends Span {
  readonly resource: string;
  readonly client: string;
  readonly token: string;
  /** What closes it: the arming, or only the first write. */
  readonly closedBy: "arm" | "write" | "nothing";
}

/** Writes that were not made from the value before them. */
export function clashesOf(
  operations: readonly Operation[],
  events: readonly HistoryEvent[],
): readonly Clash[] {
  const acknowledged = new Set(
    events.flatMap((event) =>
      event.kind === "acked" && event.outcome === "ok" ? [`${event.resource} ${event.value}`] : [],
    ),
  );
  const found: Clash[] = [];
  const last = new Map<string, Operation>();
  operations.forEach((by, nth) => {
    if (by.kind !== "write" || !by.accepted) return;
    const { resource } = by;
    const before = last.get(resource);
    last.set(resource, by);
    if (by.base === (before?.value ?? 0)) return;
    const readMs = (of: Operation | undefined): number | undefined =>
      operations.slice(0, nth).findLast((one) => one.kind === "read" && isSame(one, of))?.atMs;
    const [own, other] = [readMs(by), readMs(before)];
    found.push({
      resource,
      wiped: before,
      by,
      readMs: own ?? by.atMs,
      fromMs: Math.max(own ?? 0, Math.min(other ?? 0, before?.atMs ?? 0)),
      toMs: before === undefined ? by.atMs : Math.min(before.atMs, by.atMs),
      wasAcknowledged: acknowledged.has(`${resource} ${before?.value}`),
    });
  });
  return found;
}

function isSame(one: Operation, other: Operation | undefined): boolean {
  return one.resource === other?.resource && one.holder === other.holder;
}

/** What an overwriting did, in a sentence that names both. */
export function clashSentence(clash: Clash, names: TokenNames): string {
  const { wiped, by, wasAcknowledged } = clash;
  if (wiped === undefined) {
    return `${by.client} (token ${names(by.token)}) wrote from v${by.base}, which nobody wrote.`;
  }
  const isLater = clash.readMs <= wiped.atMs;
  const order = isLater ? `after ${by.client} had read v${by.base}` : "";
  const first = `${wiped.client} (token ${names(wiped.token)}) wrote v${wiped.value} ${order}`;
  const second =
    `${by.client}'s write of v${by.value} (token ${names(by.token)}), ` +
    `made from v${by.base}, replaced it`;
  const whose = wasAcknowledged ? `${wiped.client}'s acknowledged update` : "an update";
  return `${first.trim()}; ${second}; ${whose} is lost.`;
}

/**
 * For each grant that followed another, and whose holder came to a resource: how long a write of
 * the one before could still land there.
 */
export function windowsOf(
  grants: readonly Holding[],
  operations: readonly Operation[],
): readonly OpenWindow[] {
  return grants.flatMap((grant, nth) => {
    if (!grants.slice(0, nth).some(({ key }) => key === grant.key)) return [];
    const own = operations.filter(({ holder, accepted }) => accepted && holder === grant.holder);
    const resources = [...new Set(own.map(({ resource }) => resource))];
    return resources.map((resource) => {
      const here = own.filter((one) => one.resource === resource);
      const arming = here.find(({ kind }) => kind === "arm");
      const closing = arming ?? here.find(({ kind }) => kind === "write");
      const { fromMs, client, token } = grant;
      const closedBy = arming !== undefined ? "arm" : closing === undefined ? "nothing" : "write";
      return { resource, client, token, fromMs, toMs: closing?.atMs ?? grant.toMs, closedBy };
    });
  });
}
