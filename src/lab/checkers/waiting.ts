/**
 * I9 and I11: who waits is served.
 *
 * A name that is free, or whose holder has not been heard of for a whole TTL, goes to somebody
 * within a bound, if somebody waits who is left in peace. What he does with it does not matter
 * here: the store's account of it is enough.
 */
import type { EventOf, HistoryEvent } from "../history.js";
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
  /** Stores that free what a connection had and no TTL ends: of those I11 is not asked. */
  readonly endless?: ReadonlySet<string>;
  /** When the run ended, which may be long after its last fact. Default then. */
  readonly untilMs?: number;
}

/** What a history says of its waiters. */
export interface Waited {
  readonly violations: readonly Violation[];
  /** Whether somebody waited when a name was given back, and when a holder's time was over. */
  readonly tested: ReadonlySet<"I9" | "I11">;
}

interface Name {
  /** Since when it is free, or its last grant or renewal. */
  sinceMs: number;
  isHeld: boolean;
  /** Whether its holder's lease ends with its time. */
  isEndless: boolean;
  /** Who waits for it by their own account, and since when. */
  readonly waiters: Map<string, number>;
  /** Whom the store keeps in line, by holder. */
  readonly line: Map<string, { readonly client: string; readonly atMs: number }>;
  isTold: boolean;
}

/** Names that nobody was granted in time, though somebody waited. */
export function checkWaiting(
  events: readonly HistoryEvent[],
  rules: WaitingRules,
): readonly Violation[] {
  return followWaiting(events, rules).violations;
}

/** The same, with what could be told from this history at all. */
export function followWaiting(events: readonly HistoryEvent[], rules: WaitingRules): Waited {
  const tested = new Set<"I9" | "I11">();
  const calm = new Calm(events);
  const names = new Map<string, Name>();
  const found: Violation[] = [];
  const nameOf = (key: string): Name => {
    let name = names.get(key);
    if (name === undefined) {
      const free = { sinceMs: 0, isHeld: false, isEndless: false, isTold: false };
      name = { ...free, waiters: new Map(), line: new Map() };
      names.set(key, name);
    }
    return name;
  };
  const look = (atMs: number): void => {
    for (const [key, name] of names) {
      const overdue = name.isTold ? undefined : overdueOf(name, rules, calm, atMs);
      if (overdue === undefined) continue;
      name.isTold = true;
      tested.add(overdue.invariant);
      found.push({ ...overdue, text: `${overdue.text} for ${key}`, atMs });
    }
  };
  for (const event of events) {
    const { atMs } = event;
    look(atMs);
    calm.see(event);
    switch (event.kind) {
      case "grant":
        nameOf(event.key).isEndless = rules.endless?.has(event.store ?? "") === true;
        Object.assign(nameOf(event.key), { sinceMs: atMs, isHeld: true, isTold: false });
        break;
      case "extend":
        Object.assign(nameOf(event.key), { sinceMs: atMs, isHeld: true, isTold: false });
        break;
      case "end": {
        const name = nameOf(event.key);
        Object.assign(name, { sinceMs: atMs, isHeld: false, isTold: false });
        if (name.waiters.size + name.line.size === 0) break;
        tested.add("I9");
        if (event.why === "expired" && event.early !== true) tested.add("I11");
        break;
      }
      case "wait":
        if (event.holder === undefined) nameOf(event.key).waiters.set(event.client, atMs);
        else nameOf(event.key).line.set(event.holder, { client: event.client, atMs });
        break;
      case "left":
      case "served":
        if (event.holder === undefined) nameOf(event.key).waiters.delete(event.client);
        else nameOf(event.key).line.delete(event.holder);
        break;
      case "believes":
      case "elected":
      case "gave-up":
        nameOf(event.key).waiters.delete(event.client);
        break;
      case "fault":
        for (const name of names.values()) putOff(name, event, calm);
        break;
      default:
    }
  }
  if (rules.untilMs !== undefined) look(rules.untilMs);
  return { violations: rules.fair ? [...found, ...checkOrder(events)] : found, tested };
}

/** What gives leases more time than their TTL. */
function putOff(name: Name, { what, target, forMs = 0, atMs }: EventOf<"fault">, calm: Calm): void {
  // A new leader gives every session its whole time again.
  if (what === "leader-change") name.sinceMs = atMs;
  // By a clock that is set back they last that much longer.
  else if (what === "wall-clock" && forMs < 0 && !calm.isClient(target)) name.sinceMs -= forMs;
}

function overdueOf(
  { sinceMs, isHeld, isEndless, waiters, line }: Name,
  { ttlMs, boundMs, watchMs }: WaitingRules,
  calm: Calm,
  nowMs: number,
): { readonly invariant: "I9" | "I11"; readonly text: string } | undefined {
  if (isHeld && isEndless) return undefined;
  const freeMs = isHeld ? sinceMs + ttlMs : sinceMs;
  const limitMs = boundMs + (isHeld ? watchMs : 0);
  if (nowMs - freeMs <= limitMs) return undefined;
  const inLine = [...line.values()].map(({ client, atMs }) => [client, atMs] as const);
  for (const [client, waitsMs] of [...waiters, ...inLine]) {
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
