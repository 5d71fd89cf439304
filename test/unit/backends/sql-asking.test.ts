import { expect, it } from "vitest";
import { Asking } from "../../../src/backends/sql-asking.js";
import { UnavailableError } from "../../../src/core/errors.js";
import { simulatedRuntime } from "../../../src/testing/simulated-runtime.js";

const TIMEOUT_MS = 1_000;
/** Two fifths of a call's time. */
const LONGEST_MS = 400;
const SHORTEST_MS = (LONGEST_MS * 7) / 8;

/** Statements that never get a connection: each says how long it had patience. */
function begin() {
  const sim = simulatedRuntime({ seed: 3 });
  const { clock, timers } = sim.runtime;
  const signals: AbortSignal[] = [];
  const run = (_text: string, _values: readonly string[], limits: { patience: AbortSignal }) => {
    signals.push(limits.patience);
    return new Promise<never>((_, reject) => {
      limits.patience.addEventListener("abort", () => reject(new Error("no connection")));
    });
  };
  const faults = {
    isContention: () => false,
    explain: (error: unknown) => new UnavailableError("cannot", { cause: error }),
  };
  const asking = new Asking<string>({ backend: "b", run, faults, clock, timers });
  const waited = async (timeoutMs = TIMEOUT_MS): Promise<number> => {
    const startMs = clock.monotonicMs();
    const call = { timeoutMs, signal: new AbortController().signal };
    await expect(asking.run("", [], call, "ask")).rejects.toThrow(UnavailableError);
    return clock.monotonicMs() - startMs;
  };
  return { sim, signals, waited };
}

it("gives up a connection after its part of the time, and up to an eighth of it sooner", async () => {
  const { sim, signals, waited } = begin();
  const waits: Promise<number>[] = [];
  for (let i = 0; i < 50; i++) {
    waits.push(waited());
    await sim.advance(17);
  }
  await sim.advance(LONGEST_MS);
  for (const ms of await Promise.all(waits)) {
    expect(ms).toBeGreaterThanOrEqual(SHORTEST_MS);
    expect(ms).toBeLessThanOrEqual(LONGEST_MS);
  }
  // Three in 50 ms have one signal.
  expect(new Set(signals).size).toBe(17);
  expect(sim.pendingTimers()).toBe(0);
});

it("does not mix calls with different times", async () => {
  const { sim, waited } = begin();
  const waits = [waited(1_000), waited(2_000), waited(1_000)];
  await sim.advance(2_000);
  expect(await Promise.all(waits)).toEqual([LONGEST_MS, 2 * LONGEST_MS, LONGEST_MS]);
});
