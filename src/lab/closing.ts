/**
 * The end of a run, for I10: all faults heal, every client is closed, and what is still there some
 * time later was left behind. Each such thing is noted as a `leak`.
 */
import type { Client, Simulation } from "./simulation.js";

/** For what is under way, and for what is left to its TTL, milliseconds. */
const CLOSED_MS = 46_000;
/** What a client in peace needs to give back what it holds, milliseconds. */
const GIVEN_BACK_MS = 12_000;

/** Heals all that a run has done: the network, and whoever was stopped. */
export function heal(sim: Simulation): void {
  sim.network.calm();
  for (const { process } of living(sim)) process.resume();
}

/** Closes every client that lives, and notes what they kept. Answers how many there were. */
export async function closeAll(sim: Simulation): Promise<number> {
  const { world } = sim;
  const closed = living(sim);
  const fromMs = world.nowMs;
  sim.isOver = true;
  for (const { tenure } of closed) {
    // What could not be given back is left to its TTL, as promised.
    void tenure.close().catch(() => undefined);
  }
  const names = new Set(closed.map(({ process }) => process.name));
  const longestMs = world.history
    .of("grant")
    .reduce((most, { client, ttlMs }) => (names.has(client) ? Math.max(most, ttlMs) : most), 0);
  await world.run(fromMs + Math.max(CLOSED_MS, longestMs + GIVEN_BACK_MS));
  for (const client of closed) {
    if (!client.process.isAlive) continue;
    for (const what of keptBy(sim, client)) {
      world.history.add({ kind: "leak", what, client: client.process.name });
    }
  }
  return closed.length;
}

function living({ clients }: Simulation): readonly Client[] {
  return clients.filter(({ process }) => process.isAlive);
}

function* keptBy(sim: Simulation, { process, heard }: Client): Iterable<string> {
  const timers = process.pendingTimers;
  if (timers > 0) yield counted(timers, "timer");
  for (const [what, count] of process.kept) yield counted(count, what);
  const { listeners } = heard;
  if (listeners > 0) yield `${counted(listeners, "listener")} on a signal of its caller`;
  for (const key of stillHeld(sim, process.name)) yield `the lease of ${key}`;
}

/** Names of leases that live on: longer than any TTL, so the client has renewed them since. */
function stillHeld({ world }: Simulation, client: string): readonly string[] {
  const live = new Map<string, { key: string; untilMs: number; ttlMs: number }>();
  for (const event of world.history.of("grant", "extend", "end")) {
    const id = `${event.key} ${event.token} ${event.holder}`;
    const { atMs, key } = event;
    if (event.kind === "end") live.delete(id);
    else if (event.kind === "grant") {
      const { ttlMs } = event;
      if (event.client === client) live.set(id, { key, untilMs: atMs + ttlMs, ttlMs });
    } else if (live.has(id)) {
      const known = live.get(id)!;
      known.untilMs = atMs + known.ttlMs;
    }
  }
  return [...live.values()].filter(({ untilMs }) => untilMs > world.nowMs).map(({ key }) => key);
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? "" : "s"}`;
}
