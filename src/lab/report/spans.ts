/** Who held by the store's account, and who believed to hold. */
import type { HistoryEvent } from "../history.js";

/** A time. */
export interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

/** A grant, from the store's granting to its end. */
export interface Holding extends Span {
  readonly key: string;
  readonly store: string;
  /** Whose line it is drawn in: a store's, and where it has several names, that of each. */
  readonly lane: string;
  readonly client: string;
  readonly token: string;
  readonly holder: string;
  /** Why it ended; absent while it lasts. */
  readonly why?: string;
}

/** A time in which a client took itself for the holder. */
export interface Belief extends Span {
  readonly key: string;
  readonly client: string;
  readonly token: string;
  /** When the store had let go, where the belief outlasted that. */
  readonly staleFromMs?: number;
  /** Whether the client itself was in doubt at some time. */
  readonly isDoubtful: boolean;
}

type Draft<S> = { -readonly [K in keyof S]: S[K] };

/** The grants of a history, in order. */
export function grantsOf(events: readonly HistoryEvent[], endMs: number): readonly Holding[] {
  const found: Draft<Holding>[] = [];
  const live = new Map<string, Draft<Holding>>();
  const laneOf = lanesOf(events);
  for (const event of events) {
    if (event.kind === "grant") {
      const { key, client, token, holder, atMs, store = "store" } = event;
      const lane = laneOf(store, key);
      const holding = { key, store, lane, client, token, holder, fromMs: atMs, toMs: endMs };
      found.push(holding);
      live.set(`${key} ${token} ${holder} ${store}`, holding);
      live.set(`${key} ${token} ${holder}`, holding);
    } else if (event.kind === "end") {
      const id = `${event.key} ${event.token} ${event.holder}`;
      const holding = live.get(id);
      if (holding === undefined || holding.why !== undefined) continue;
      holding.toMs = event.atMs;
      holding.why = event.why;
    }
  }
  return found;
}

function lanesOf(events: readonly HistoryEvent[]): (store: string, key: string) => string {
  const [stores, keys] = [new Set<string>(), new Set<string>()];
  for (const event of events) {
    if (event.kind !== "grant") continue;
    stores.add(event.store ?? "store");
    keys.add(event.key);
  }
  if (keys.size <= 1) return (store) => store;
  return stores.size <= 1 ? (_, key) => key : (store, key) => `${store} ${key}`;
}

/** The beliefs of a history, in order of their beginnings. */
export function beliefsOf(
  events: readonly HistoryEvent[],
  grants: readonly Holding[],
  endMs: number,
): readonly Belief[] {
  const found: Draft<Belief>[] = [];
  const live = new Map<string, Draft<Belief>>();
  const stop = (id: string, atMs: number): void => {
    const belief = live.get(id);
    if (belief !== undefined) belief.toMs = atMs;
    live.delete(id);
  };
  for (const event of events) {
    if (event.kind === "believes" || event.kind === "doubts" || event.kind === "elected") {
      const { key, client, atMs } = event;
      // A leader believes to lead, by its term.
      const token = "term" in event ? event.term : event.token;
      const id = `${key} ${client} ${token}`;
      const isDoubtful = event.kind === "doubts";
      const belief = live.get(id);
      if (belief !== undefined) belief.isDoubtful ||= isDoubtful;
      else {
        const begun = { key, client, token, fromMs: atMs, toMs: endMs, isDoubtful };
        live.set(id, begun);
        found.push(begun);
      }
    } else if (event.kind === "stops") {
      stop(`${event.key} ${event.client} ${event.token}`, event.atMs);
    } else if (event.kind === "revoked") {
      stop(`${event.key} ${event.client} ${event.term}`, event.atMs);
    } else if (event.kind === "fault" && event.what === "kill") {
      // The dead believe nothing.
      for (const [id, { client }] of live) if (client === event.target) stop(id, event.atMs);
    }
  }
  for (const belief of found) {
    const isOwn = ({ key, client, token }: Holding): boolean =>
      key === belief.key && client === belief.client && token === belief.token;
    const last = grants.filter(isOwn).at(-1);
    const isStale = last?.why !== undefined && last.toMs < belief.toMs;
    if (isStale) belief.staleFromMs = Math.max(last.toMs, belief.fromMs);
  }
  return found;
}

/** Times in which two clients believed to hold one name, in order. */
export function overlapsOf(beliefs: readonly Belief[]): readonly Span[] {
  const found: Span[] = [];
  const sorted = [...beliefs].sort((a, b) => a.fromMs - b.fromMs);
  sorted.forEach((one, nth) => {
    for (const other of sorted.slice(nth + 1)) {
      if (other.fromMs >= one.toMs) break;
      if (other.key !== one.key || other.client === one.client) continue;
      const toMs = Math.min(one.toMs, other.toMs);
      if (toMs > other.fromMs) found.push({ fromMs: other.fromMs, toMs });
    }
  });
  return found;
}
