/** I1, I2 and I3: what the store itself did, in its own order. */
import type { EventOf, HistoryEvent } from "../history.js";
import type { Violation } from "./violation.js";

type StoreEvent = EventOf<"grant" | "extend" | "end">;

function isStoreEvent(event: HistoryEvent): event is StoreEvent {
  return event.kind === "grant" || event.kind === "extend" || event.kind === "end";
}

/** Settings of the checks on stores. */
export interface StoreRules {
  /**
   * Whether tokens may come again, as after a failover that lost a grant: the manifest says so
   * then, and the fence has to hold by holder.
   */
  readonly tokensMayRepeat: boolean;
  /** Whether the store may be split in two at a failover. */
  readonly mayHaveTwoHolders: boolean;
}

/** Two holders by the store's account, grants ended or extended by others, tokens that go back. */
export function checkStore(
  events: readonly HistoryEvent[],
  rules: StoreRules,
): readonly Violation[] {
  const found: Violation[] = [];
  const live = new Map<string, EventOf<"grant">>();
  const highest = new Map<string, bigint>();
  for (const event of events) {
    if (!isStoreEvent(event)) continue;
    const { key, atMs } = event;
    const holds = live.get(key);
    switch (event.kind) {
      case "grant": {
        if (holds !== undefined && !rules.mayHaveTwoHolders) {
          const text = `${event.client} was granted ${key} while ${holds.client} had it`;
          found.push({ invariant: "I1", text, atMs });
        }
        const token = BigInt(event.token);
        const last = highest.get(key);
        if (last !== undefined && token <= last && !rules.tokensMayRepeat) {
          const text = `token ${token} of ${key} came after ${last}`;
          found.push({ invariant: "I3", text, atMs });
        }
        if (last === undefined || token > last) highest.set(key, token);
        live.set(key, event);
        break;
      }
      case "extend":
        if (event.by !== event.holder) {
          const text = `${event.by} extended the lease of ${event.holder}`;
          found.push({ invariant: "I2", text, atMs });
        }
        if (holds !== undefined && holds.holder === event.holder && holds.token !== event.token) {
          const text = `the token of ${event.holder} moved from ${holds.token} to ${event.token}`;
          found.push({ invariant: "I3", text, atMs });
        }
        break;
      case "end":
        if (event.by !== undefined && event.by !== event.holder) {
          const text = `${event.by} ended the lease of ${event.holder}`;
          found.push({ invariant: "I2", text, atMs });
        }
        if (holds?.token === event.token) live.delete(key);
        break;
    }
  }
  return found;
}
