/**
 * I4, I5 and I6: what the resource accepted.
 *
 * The resource notes its decisions in the order in which it made them, so the history of one
 * register is already in a line, and each decision can be compared with the rules. That alone does
 * not see the hole of the first write: an acknowledged update that somebody wiped out unseen. So
 * each accepted write must also have been made from the value before it.
 */
import { decide, type FenceRequest, type MarkRecord } from "../../fences/decide.js";
import type { EventOf, HistoryEvent } from "../history.js";
import { copiesOf } from "./copies.js";
import type { Violation } from "./violation.js";

type Operation = EventOf<"arm" | "read" | "write">;

function operations(events: readonly HistoryEvent[]): Map<string, Operation[]> {
  const byResource = new Map<string, Operation[]>();
  for (const event of events) {
    if (event.kind !== "arm" && event.kind !== "read" && event.kind !== "write") continue;
    const all = byResource.get(event.resource) ?? [];
    all.push(event);
    byResource.set(event.resource, all);
  }
  return byResource;
}

/** The updates that were wiped out: writes made from another value than the one before them. */
export function checkUpdates(events: readonly HistoryEvent[]): readonly Violation[] {
  const found: Violation[] = [];
  for (const all of operations(events).values()) {
    let last: Operation | undefined;
    for (const event of all) {
      if (event.kind !== "write" || !event.accepted) continue;
      if (event.base !== (last?.value ?? 0)) {
        found.push({ invariant: "I5", text: sentence(last, event), atMs: event.atMs });
      }
      last = event;
    }
  }
  return found;
}

function sentence(wiped: Operation | undefined, by: Operation): string {
  if (wiped === undefined) return `${by.client} wrote from v${by.base}, which nobody had written`;
  return (
    `${wiped.client} (token ${wiped.token}) wrote v${wiped.value}; ${by.client} (token ` +
    `${by.token}) had read v${by.base} before, and its v${by.value} wiped that out unseen`
  );
}

/** Decisions that the rules of the fence do not make; a refused newest holder is I6. */
export function checkFence(events: readonly HistoryEvent[]): readonly Violation[] {
  const found: Violation[] = [];
  for (const [resource, all] of operations(events)) {
    let record: MarkRecord | null = null;
    const losses = markLosses(events, resource);
    for (const event of all) {
      // A register without a fence knows no armings, and keeps to no rule.
      if (event.arm === 0) continue;
      // A mark that somebody deleted is no decision of the fence, which knows none from there on.
      if (losses.length > 0 && losses[0]! <= event.atMs) {
        losses.shift();
        record = null;
      }
      const request: FenceRequest = {
        op: event.kind,
        resource: event.resource,
        scope: { storeId: event.scope, name: "" },
        token: BigInt(event.token),
        holder: event.holder,
        arm: event.arm,
        n: event.n,
      };
      const verdict = decide(record, request);
      if (verdict.accepted !== event.accepted) {
        const { kind, client, token, arm, n } = event;
        const what = `${kind} of ${client} (token ${token}, arm ${arm}, n ${n})`;
        found.push(
          verdict.accepted
            ? { invariant: "I6", text: `${what} was refused, and is the newest`, atMs: event.atMs }
            : { invariant: "I4", text: `${what} was accepted: ${verdict.why}`, atMs: event.atMs },
        );
      }
      // What the register really did is what comes after it is compared with.
      if (event.accepted && event.kind !== "read") {
        const { scope, token, holder, arm, n } = request;
        record = { scope, token, holder, arm, n, past: [] };
      }
    }
  }
  return found;
}

/** When the mark of a resource was deleted, milliseconds. */
function markLosses(events: readonly HistoryEvent[], resource: string): number[] {
  return events
    .filter((event) => event.kind === "fault" && event.what === "lose-mark")
    .flatMap((event) => ("target" in event && event.target === resource ? [event.atMs] : []));
}

/** I12 at the resource: what was acknowledged is there, what was refused is not. */
export function checkOutcomes(events: readonly HistoryEvent[]): readonly Violation[] {
  const accepted = new Set<string>();
  const found: Violation[] = [];
  for (const event of events) {
    if (event.kind === "write" && event.accepted) accepted.add(`${event.resource} ${event.value}`);
    if (event.kind !== "acked" || event.outcome !== "ok") continue;
    if (!accepted.has(`${event.resource} ${event.value}`)) {
      const text = `${event.client} was told that v${event.value} was written, and it was not`;
      found.push({ invariant: "I12", text, atMs: event.atMs });
    }
  }
  return found;
}

/**
 * I12 from the other side: a write that its client was told is refused has not landed. Not asked of
 * a message that came twice, of which one copy may have been refused for the other.
 */
export function checkRefusals(events: readonly HistoryEvent[]): readonly Violation[] {
  const accepted = new Set<string>();
  for (const event of events) {
    if (event.kind === "write" && event.accepted) accepted.add(`${event.resource} ${event.value}`);
  }
  const copies = copiesOf(events);
  const sent = new Map<string, EventOf<"asked">>();
  const found: Violation[] = [];
  for (const event of events) {
    if (event.kind === "asked" && event.op === "write") {
      sent.set(`${event.resource} ${event.client}`, event);
    } else if (event.kind === "acked") {
      const { resource, client, outcome, atMs } = event;
      const asked = sent.get(`${resource} ${client}`);
      sent.delete(`${resource} ${client}`);
      if (outcome !== "refused" || asked === undefined) continue;
      const hasLanded = accepted.has(`${resource} ${asked.value}`);
      if (!hasLanded || copies.has(`${client} write ${asked.atMs}`)) continue;
      const text = `${client} was told that v${asked.value} was refused, and it was written`;
      found.push({ invariant: "I12", text, atMs });
    }
  }
  return found;
}
