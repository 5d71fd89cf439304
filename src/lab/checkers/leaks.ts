/**
 * I10: nothing is left behind. A grant that nobody wanted any more, or never knew of, is neither
 * renewed nor left to its TTL by a client that could give it back; renewals do not pile up; and a
 * client that was closed keeps nothing.
 */
import type { EventOf, HistoryEvent } from "../history.js";
import { Calm } from "./calm.js";
import type { Violation } from "./violation.js";

/** How long things may take, milliseconds. */
export interface LeakRules {
  /** The longest TTL in use. */
  readonly ttlMs: number;
  /** What a client in peace needs to give back what it does not want. */
  readonly boundMs: number;
}

/** Renewals without an answer at once that no keeper sends. */
const MOST_UNANSWERED = 12;
const UNANSWERED_FOR_MS = 2_000;

interface Granted {
  readonly key: string;
  readonly client: string;
  readonly ttlMs: number;
  sinceMs: number;
  readonly grantedMs: number;
  isKnown: boolean;
  /** When its client had no use for it any more. */
  doneMs: number | undefined;
  isTold: boolean;
}

/** Grants without an owner, renewals that pile up, and what a closed client kept. */
export function checkLeaks(
  events: readonly HistoryEvent[],
  rules: LeakRules,
): readonly Violation[] {
  const calm = new Calm(events);
  const live = new Map<string, Granted>();
  const found: Violation[] = [];
  const tell = (text: string, atMs: number): void => {
    found.push({ invariant: "I10", text, atMs });
  };
  for (const event of events) {
    const { atMs } = event;
    for (const granted of live.values()) {
      if (!isForgotten(granted, rules, calm, atMs)) continue;
      granted.isTold = true;
      const { key, client } = granted;
      tell(`${client} was granted ${key}, never knew, and did not give it back`, atMs);
    }
    calm.see(event);
    switch (event.kind) {
      case "grant": {
        const { key, client, ttlMs } = event;
        const fresh = { sinceMs: atMs, grantedMs: atMs, isKnown: false, doneMs: undefined };
        live.set(idOf(event), { key, client, ttlMs, ...fresh, isTold: false });
        break;
      }
      case "extend": {
        const granted = live.get(idOf(event));
        if (granted === undefined) break;
        granted.sinceMs = atMs;
        const { doneMs, key, client, isTold } = granted;
        const isLate = doneMs !== undefined && atMs - doneMs > rules.ttlMs + rules.boundMs;
        if (!isLate || isTold) break;
        granted.isTold = true;
        const forMs = Math.round(atMs - doneMs);
        tell(`${client} renewed ${key} ${forMs} ms after it had done with it`, atMs);
        break;
      }
      case "end":
        live.delete(idOf(event));
        break;
      case "believes":
      case "doubts":
      case "elected":
      case "stops":
      case "revoked":
        for (const granted of live.values()) {
          if (granted.key !== event.key || granted.client !== event.client) continue;
          if (event.kind === "stops" || event.kind === "revoked") granted.doneMs ??= atMs;
          else granted.isKnown = true;
        }
        break;
      case "leak":
        tell(`${event.client} was closed and kept ${event.what}`, atMs);
        break;
      default:
    }
  }
  return [...found, ...checkPiles(events)];
}

function idOf(event: EventOf<"grant" | "extend" | "end">): string {
  return `${event.key} ${event.holder} ${event.token}`;
}

/** Whether a client in peace leaves a grant to its TTL of which it never knew. */
function isForgotten(granted: Granted, rules: LeakRules, calm: Calm, nowMs: number): boolean {
  const { isKnown, isTold, client, ttlMs, sinceMs, grantedMs } = granted;
  if (isKnown || isTold || nowMs - grantedMs <= rules.boundMs) return false;
  // The store may notice an expiry only when somebody asks.
  if (nowMs >= sinceMs + ttlMs) return false;
  return nowMs - Math.max(grantedMs, calm.since(client, nowMs)) > rules.boundMs;
}

/** Renewals that are sent although the ones before were not answered. */
function checkPiles(events: readonly HistoryEvent[]): readonly Violation[] {
  const unanswered = new Map<string, number[]>();
  const told = new Set<string>();
  const found: Violation[] = [];
  for (const event of events) {
    if (event.kind !== "message") continue;
    if (event.what === "renew reply" && event.fate === "arrived") unanswered.delete(event.to);
    if (event.what !== "renew") continue;
    const { from, sentMs, atMs } = event;
    const all = unanswered.get(from) ?? [];
    const recent = all.filter((ms) => sentMs - ms < UNANSWERED_FOR_MS);
    recent.push(sentMs);
    unanswered.set(from, recent);
    if (recent.length <= MOST_UNANSWERED || told.has(from)) continue;
    told.add(from);
    const text = `${from} had ${recent.length} renewals under way at once`;
    found.push({ invariant: "I10", text, atMs });
  }
  return found;
}
