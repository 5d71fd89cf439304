/**
 * I9 and I11: who waits is served.
 *
 * A name that is free, or whose holder has not been heard of for a whole TTL, goes to somebody
 * within a bound, if somebody waits who is left in peace. What he does with it does not matter
 * here: the store's account of it is enough.
 */
import type { HistoryEvent } from "../history.js";
import { Calm } from "./calm.js";
import type { Violation } from "./violation.js";

/** What may be expected of the waiters of a run, milliseconds. */
export interface WaitingRules {
  /** The longest TTL in use. */
  readonly ttlMs: number;
  /** What a waiter in peace needs to learn that a name is free: the longest rest between two looks,
   * an answer that is given up for lost, and the way there and back. */
  readonly boundMs: number;
  /** What it needs beyond that to be sure of a holder's end: a whole TTL where it has to watch. */
  readonly watchMs: number;
  /** Whether the store serves in order of arrival. */
  readonly fair: boolean;
}

interface Name {
  /** Since when it is free, or its last grant or renewal. */
  sinceMs: number;
  isHeld: boolean;
  /** Who waits for it, and since when. */
  readonly waiters: Map<string, number>;
  isTold: boolean;
}

/** Names that nobody was granted in time, though somebody waited. */
export function checkWaiting(
  events: readonly HistoryEvent[],
  rules: WaitingRules,
): readonly Violation[] {
  const calm = new Calm(events);
  const names = new Map<string, Name>();
  const found: Violation[] = [];
  const nameOf = (key: string): Name => {
    let name = names.get(key);
    if (name === undefined) {
      name = { sinceMs: 0, isHeld: false, waiters: new Map(), isTold: false };
      names.set(key, name);
    }
    return name;
  };
  for (const event of events) {
    const { atMs } = event;
    for (const [key, name] of names) {
      const overdue = name.isTold ? undefined : overdueOf(name, rules, calm, atMs);
      if (overdue === undefined) continue;
      name.isTold = true;
      found.push({ ...overdue, text: `${overdue.text} for ${key}`, atMs });
    }
    calm.see(event);
    switch (event.kind) {
      case "grant":
      case "extend":
        Object.assign(nameOf(event.key), { sinceMs: atMs, isHeld: true, isTold: false });
        break;
      case "end":
        Object.assign(nameOf(event.key), { sinceMs: atMs, isHeld: false, isTold: false });
        break;
      case "wait":
        if (event.holder === undefined) nameOf(event.key).waiters.set(event.client, atMs);
        break;
      case "believes":
      case "elected":
      case "gave-up":
        nameOf(event.key).waiters.delete(event.client);
        break;
      case "fault":
        // A new leader gives every session its whole time again.
        if (event.what !== "leader-change") break;
        for (const name of names.values()) name.sinceMs = atMs;
        break;
      default:
    }
  }
  return rules.fair ? [...found, ...checkOrder(events)] : found;
}

function overdueOf(
  { sinceMs, isHeld, waiters }: Name,
  { ttlMs, boundMs, watchMs }: WaitingRules,
  calm: Calm,
  nowMs: number,
): Pick<Violation, "invariant" | "text"> | undefined {
  const freeMs = isHeld ? sinceMs + ttlMs : sinceMs;
  const limitMs = boundMs + (isHeld ? watchMs : 0);
  if (nowMs - freeMs <= limitMs) return undefined;
  for (const [client, waitsMs] of waiters) {
    const fromMs = Math.max(freeMs, waitsMs, calm.since(client, nowMs));
    if (nowMs - fromMs <= limitMs) continue;
    const forMs = Math.round(nowMs - fromMs);
    return isHeld
      ? { invariant: "I11", text: `the holder was silent, and ${client} waited ${forMs} ms more` }
      : { invariant: "I9", text: `free, and ${client} waited ${forMs} ms in peace` };
  }
  return undefined;
}

/** I9 in a fair store: whoever came first, and was not passed over as dead, is served first. */
function checkOrder(events: readonly HistoryEvent[]): readonly Violation[] {
  const lines = new Map<string, string[]>();
  const found: Violation[] = [];
  for (const event of events) {
    if (event.kind !== "wait" && event.kind !== "left" && event.kind !== "served") continue;
    const { key, holder, atMs, client } = event;
    if (holder === undefined) continue;
    const line = lines.get(key) ?? [];
    lines.set(key, line);
    if (event.kind === "wait") {
      line.push(holder);
      continue;
    }
    const place = line.indexOf(holder);
    if (event.kind === "served" && place > 0) {
      const text = `${client} was served in ${key} before ${place} who had come earlier`;
      found.push({ invariant: "I9", text, atMs });
    }
    if (place >= 0) line.splice(place, 1);
  }
  return found;
}
