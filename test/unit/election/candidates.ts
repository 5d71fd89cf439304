import { memoryBackend } from "../../../src/backends/memory/index.js";
import { MemoryStore } from "../../../src/backends/memory/store.js";
import type { Backend } from "../../../src/core/backend.js";
import type { TenureEvent } from "../../../src/core/events.js";
import { Tenure } from "../../../src/core/tenure.js";
import { type Election, election } from "../../../src/election/election.js";
import type { ElectionOptions } from "../../../src/election/options.js";
import { withFaults } from "../../../src/testing/faults.js";
import type { FaultyBackend } from "../../../src/testing/faults.js";
import type { FencingToken } from "../../../src/core/token.js";
import { simulatedRuntime } from "../../../src/testing/simulated-runtime.js";
import type { Simulation } from "../../../src/testing/simulated-runtime.js";
import { polling } from "../core/models.js";

/** The stores of these tests, by how they let candidates wait. */
export const stores: Readonly<Record<string, (sim: Simulation, store: MemoryStore) => Backend>> = {
  queues: (sim, store) => memoryBackend({ runtime: sim.runtime, store }),
  "is polled": polling,
};

/** One process with its own way to the store. */
export interface Candidate {
  readonly election: Election;
  readonly tenure: Tenure;
  readonly faults: FaultyBackend<FencingToken>;
}

/** Several processes on one simulated machine, each with its own way to one store. */
export interface Race {
  readonly sim: Simulation;
  readonly store: MemoryStore;
  readonly candidates: readonly Candidate[];
}

/** Candidates of the election "lead", TTL 1000 and grace 100 unless said otherwise. */
export async function race(
  kind: string,
  count: number,
  options: ElectionOptions = { ttl: 1_000, grace: 100 },
): Promise<Race> {
  const sim = simulatedRuntime({ seed: 7 });
  const store = new MemoryStore({ runtime: sim.runtime });
  const candidates: Candidate[] = [];
  for (let i = 0; i < count; i++) {
    const faults = withFaults(stores[kind]!(sim, store), sim.runtime.timers);
    const tenure = await Tenure.open<FencingToken>(faults, sim.runtime);
    const info = { candidate: `c${i}` };
    candidates.push({ tenure, faults, election: election(tenure, "lead", { ...options, info }) });
  }
  return { sim, store, candidates };
}

/** Nothing of this process reaches the store any more, as if it were gone or cut off. */
export function cut({ faults }: Candidate): void {
  faults.plan = () => ({ kind: "hang", applied: false });
}

/** The way to the store is whole again. */
export function heal({ faults }: Candidate): void {
  faults.plan = () => undefined;
}

/** Resolves when the signal aborts. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/** The events of terms, in order, as text. */
export function terms(events: readonly TenureEvent[]): string[] {
  return events.flatMap((event) => {
    if (event.type === "elected") return [`elected ${event.term}`];
    return event.type === "revoked" ? [`revoked ${event.term} ${event.reason}`] : [];
  });
}

/** Lets time pass until the condition holds. @throws Error after a minute of simulated time. */
export async function until(
  sim: Simulation,
  what: string,
  condition: () => boolean,
): Promise<void> {
  for (let ms = 0; !condition(); ms += 25) {
    if (ms > 60_000) throw new Error(`not within a minute: ${what}`);
    await sim.advance(25);
  }
}
