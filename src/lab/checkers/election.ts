/**
 * I8: elections as their candidates and observers lived them; but for what a leader cannot know,
 * see `excuses.ts`.
 */
import type { EventOf, HistoryEvent } from "../history.js";
import { Excuses } from "./excuses.js";
import type { Violation } from "./violation.js";

interface Candidate {
  /** The term that it leads, by its own account. */
  leads: bigint | undefined;
  last: bigint;
}

type Deed = EventOf<"elected" | "led" | "revoked">;

/** Two leaders of one term, terms that go back, and what was done after a term's end. */
export function checkElections(events: readonly HistoryEvent[]): readonly Violation[] {
  const candidates = new Map<string, Candidate>();
  const leaders = new Map<string, string>();
  const newest = new Map<string, bigint>();
  const seen = new Map<string, { term: bigint; isTold: string }>();
  const excuses = new Excuses();
  const found: Violation[] = [];
  const tell = (text: string, atMs: number): void => {
    found.push({ invariant: "I8", text, atMs });
  };
  for (const event of events) {
    excuses.see(event);
    switch (event.kind) {
      case "observed": {
        const id = `${event.key} ${event.client}`;
        const term = BigInt(event.term ?? 0);
        const before = seen.get(id) ?? { term: 0n, isTold: "?" };
        const about = `${event.client} saw ${event.term ?? "no leader"} of ${event.key}`;
        if (term !== 0n && term < before.term) tell(`${about} after ${before.term}`, event.atMs);
        if (before.isTold === String(term)) tell(`${about} twice`, event.atMs);
        const highest = term > before.term ? term : before.term;
        seen.set(id, { term: highest, isTold: String(term) });
        break;
      }
      case "elected":
      case "led":
      case "revoked": {
        const id = `${event.key} ${event.client}`;
        const candidate = candidates.get(id) ?? { leads: undefined, last: -1n };
        candidates.set(id, candidate);
        for (const text of breaches(event, candidate, leaders)) tell(text, event.atMs);
        const term = BigInt(event.term);
        const top = newest.get(event.key) ?? -1n;
        const isExcused = excuses.has(event.key, event.term, event.atMs);
        if (event.kind !== "revoked" && term < top && !isExcused) {
          const did = event.kind === "led" ? "led" : "was elected";
          tell(`${event.client} ${did} in term ${term}, after term ${top} had begun`, event.atMs);
        }
        if (event.kind === "elected" && term > top) newest.set(event.key, term);
        break;
      }
      default:
    }
  }
  return found;
}

/** What one candidate did out of turn. */
function* breaches(event: Deed, candidate: Candidate, leaders: Map<string, string>) {
  const { client, key } = event;
  const term = BigInt(event.term);
  switch (event.kind) {
    case "elected": {
      const other = leaders.get(`${key} ${term}`);
      if (other !== undefined) yield `${client} was elected in term ${term}, in which ${other} led`;
      leaders.set(`${key} ${term}`, client);
      if (candidate.leads !== undefined) {
        yield `${client} was elected in term ${term} before its term ${candidate.leads} had ended`;
      }
      if (term <= candidate.last) yield `${client} was elected in term ${term} after a later one`;
      Object.assign(candidate, { leads: term, last: term });
      break;
    }
    case "led":
      if (candidate.leads !== term) yield `${client} led in term ${term}, which had ended`;
      break;
    case "revoked":
      if (candidate.leads !== term) yield `${client} was told twice that term ${term} had ended`;
      candidate.leads = undefined;
      break;
  }
}
