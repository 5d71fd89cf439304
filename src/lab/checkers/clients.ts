/** I9, I10 and I11 of the clients of a run, as its history shows them. */
import type { Simulation } from "../simulation.js";
import { checkLeaks } from "./leaks.js";
import type { InvariantId, Violation } from "./violation.js";
import { followWaiting } from "./waiting.js";

/**
 * What a waiter in peace may take, milliseconds: a call that is given up after 5 s, the rest of up
 * to 5 s of one that relies on notices, and a try.
 */
const PATIENCE_MS = 12_000;

/** What is wrong with them, and what this run could have shown of it. */
interface Judged {
  readonly violations: readonly Violation[];
  readonly tested: ReadonlySet<InvariantId>;
}

/** Judges all clients of a run. `longestTtlMs`: default the longest that was granted. */
export function judgeClients(sim: Simulation, longestTtlMs?: number): Judged {
  const { history } = sim.world;
  const { events } = history;
  const ttls = history.of("grant").map(({ ttlMs }) => ttlMs);
  const ttlMs = longestTtlMs ?? ttls.reduce((most, ms) => Math.max(most, ms), 0);
  const manifests = sim.clients.map(({ manifest }) => manifest);
  const isWatched = manifests.some(({ expiryClock }) => expiryClock === "observed");
  const waited = followWaiting(events, {
    ...{ ttlMs, boundMs: PATIENCE_MS, watchMs: isWatched ? ttlMs : 0 },
    fair: manifests.some(({ fair }) => fair),
    endless: endlessOf(sim),
    untilMs: sim.world.nowMs,
  });
  const leaks = checkLeaks(events, { ttlMs, boundMs: PATIENCE_MS });
  return { violations: [...waited.violations, ...leaks], tested: waited.tested };
}

/** Stores whose leases end with a connection: their manifest promises no deadline. */
function endlessOf({ clients }: Simulation): ReadonlySet<string> {
  const ends = clients.filter(({ manifest }) => manifest.deadline === "hint");
  return new Set(ends.map(({ storeId }) => storeId));
}
