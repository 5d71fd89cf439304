/**
 * I7: a client that looks and finds its lease held, holds it in the store; but for what it cannot
 * know, see `excuses.ts`.
 */
import type { HistoryEvent } from "../history.js";
import { Excuses } from "./excuses.js";
import type { Violation } from "./violation.js";

/** Beliefs that nothing in the store bears out. */
export function checkBeliefs(events: readonly HistoryEvent[]): readonly Violation[] {
  const excuses = new Excuses();
  /** When each grant ended; those that live are Infinity. A pair may grant one token twice. */
  const ends = new Map<string, number>();
  const clients = new Map<string, Set<string>>();
  const found: Violation[] = [];
  for (const event of events) {
    excuses.see(event);
    if (event.kind === "grant") {
      const id = `${event.key} ${event.token}`;
      ends.set(`${id} ${event.client}`, Infinity);
      clients.set(id, (clients.get(id) ?? new Set()).add(event.client));
    } else if (event.kind === "end") {
      const id = `${event.key} ${event.token}`;
      for (const client of clients.get(id) ?? []) {
        const endMs = ends.get(`${id} ${client}`)!;
        ends.set(`${id} ${client}`, Math.min(endMs, event.atMs));
      }
    } else if (event.kind === "believes") {
      const { key, client, token, atMs, leftMs } = event;
      const endMs = ends.get(`${key} ${token} ${client}`);
      const about = `${client} found ${key} (token ${token}) held`;
      if (endMs === undefined) {
        found.push({ invariant: "I7", text: `${about}, and the store never granted it`, atMs });
      } else if (atMs > endMs && !excuses.has(key, token, atMs)) {
        const lateMs = Math.round(atMs - endMs);
        const text = `${about} for ${leftMs} ms more, ${lateMs} ms after its end`;
        found.push({ invariant: "I7", text, atMs });
      }
    }
  }
  return found;
}
