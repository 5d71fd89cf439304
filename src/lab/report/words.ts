/** Facts of a history as sentences. */
import type { HistoryEvent } from "../history.js";
import type { TokenNames } from "./names.js";
import { withNames } from "./names.js";

type Told<K extends HistoryEvent["kind"]> = Extract<HistoryEvent, { readonly kind: K }>;

/** What a teller needs to know of the run. */
export interface Teller {
  readonly names: TokenNames;
  readonly refusals: ReadonlyMap<HistoryEvent, string>;
}

/** What says little about who may write: left out where the space is short. */
export const ROUTINE: ReadonlySet<string> = new Set<string>([
  ...["extend", "believes", "acked", "asked", "answered", "wait"],
]);

/** One fact in words, without its time. */
export function tell(event: HistoryEvent, teller: Teller): string {
  const { names } = teller;
  switch (event.kind) {
    case "grant":
      return `the store grants ${event.key} to ${event.client}, token ${names(event.token)}`;
    case "extend":
      return `the store extends ${event.key}, token ${names(event.token)}`;
    case "end":
      return `${event.key} with token ${names(event.token)} ends: ${event.why}`;
    case "believes":
    case "doubts":
    case "stops":
      return tellBelief(event, names);
    case "arm":
    case "read":
    case "write":
      return tellOperation(event, teller);
    case "acked":
      return tellAck(event);
    case "fault":
      return `fault: ${event.what} ${event.target}${forMs(event)}`;
    case "message":
      return `${event.from} → ${event.to}: ${event.what}${event.fate === "lost" ? ", lost" : ""}`;
    case "elected":
    case "revoked":
      return `${event.client} is ${event.kind}, term ${names(event.term)}`;
    case "led":
      return `${event.client} works as the leader of term ${names(event.term)}`;
    case "observed":
      return `${event.client} sees ${event.term === undefined ? "no leader" : names(event.term)}`;
    case "note":
      return withNames(event.text, names);
    default:
      return tellOther(event, names);
  }
}

function tellBelief(event: Told<"believes" | "doubts" | "stops">, names: TokenNames): string {
  const about = `${event.client} with token ${names(event.token)}`;
  if (event.kind === "doubts") return `${about} is in doubt`;
  if (event.kind === "stops") return `${about} stops: ${event.why ?? "done"}`;
  return `${about} finds its lease held`;
}

function tellOperation(event: Told<"arm" | "read" | "write">, teller: Teller): string {
  const { client, kind, resource, accepted } = event;
  const what = `${client} ${kind}s ${resource} with token ${teller.names(event.token)}`;
  if (!accepted) return `${what}: REFUSED, ${teller.refusals.get(event) ?? "stale"}`;
  if (kind === "read") return `${what}: v${event.value ?? 0}`;
  if (kind === "write") return `${what}: v${event.base ?? 0} → v${event.value ?? 0}`;
  return `${what}: the mark is raised`;
}

function tellAck({ client, outcome, value }: Told<"acked">): string {
  if (outcome === "ok") return `${client} is told that v${value} is written`;
  if (outcome === "refused") return `${client} is told that its write was refused`;
  return `${client} does not know whether its write landed`;
}

/** A kind that has no sentence of its own: its fields, as they are. */
function tellOther(event: HistoryEvent, names: TokenNames): string {
  const fields = Object.entries(event)
    .filter(([name]) => name !== "atMs" && name !== "kind")
    .map(([name, value]) => `${name} ${String(value)}`);
  return withNames(`${event.kind}: ${fields.join(", ")}`, names);
}

/** A pause is `for` some time; a clock is set `by` some. */
function forMs({ what, forMs: ms }: Told<"fault">): string {
  if (ms === undefined) return "";
  const rounded = Math.round(ms);
  if (what !== "wall-clock") return ` for ${rounded} ms`;
  return ` by ${rounded < 0 ? "−" : "+"}${Math.abs(rounded)} ms`;
}
