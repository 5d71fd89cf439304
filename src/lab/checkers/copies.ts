/** Messages that came twice: two answers to one question, of which one may say "refused". */
import type { HistoryEvent } from "../history.js";

const ASKED = new Set(["arm", "read", "write"]);

/** Questions to a resource that arrived more than once, as sender, what and time of sending. */
export function copiesOf(events: readonly HistoryEvent[]): ReadonlySet<string> {
  const once = new Set<string>();
  const twice = new Set<string>();
  for (const event of events) {
    if (event.kind !== "message" || event.fate !== "arrived" || !ASKED.has(event.what)) continue;
    // A history rounds its own times.
    const sentMs = Math.round(event.sentMs * 1_000) / 1_000;
    const id = `${event.from} ${event.what} ${sentMs}`;
    if (once.has(id)) twice.add(id);
    once.add(id);
  }
  return twice;
}
