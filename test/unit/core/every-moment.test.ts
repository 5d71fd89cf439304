import { describe, expect, it } from "vitest";
import { memoryBackend } from "../../../src/backends/memory/index.js";
import { MemoryStore } from "../../../src/backends/memory/store.js";
import type { Backend } from "../../../src/core/backend.js";
import { Tenure } from "../../../src/core/tenure.js";
import { simulatedRuntime } from "../../../src/testing/simulated-runtime.js";
import type { Simulation } from "../../../src/testing/simulated-runtime.js";
import { notifying, polling } from "./models.js";
import { present } from "./rig.js";

/** Steps of the promises under way at which something else happens; more than any call takes. */
const MOMENTS = Array.from({ length: 60 }, (_, n) => n);
const NAMES = ["x", "y", "z"];

const stores: Readonly<Record<string, (sim: Simulation, store: MemoryStore) => Backend>> = {
  queues: (sim, store) => memoryBackend({ runtime: sim.runtime, store }),
  "is polled": polling,
  notifies: (sim, store) => notifying(sim, store, new Map()),
};

type Call = (a: Tenure, signal: AbortSignal) => Promise<unknown>;

const calls: Readonly<Record<string, Call>> = {
  acquire: (a, signal) => a.acquire("x", { signal }),
  "acquire without waiting": (a, signal) => a.acquire("x", { signal, wait: 0 }),
  tryAcquire: (a) => a.tryAcquire("x"),
  acquireAll: (a, signal) => a.acquireAll(NAMES, { signal }),
  hold: (a, signal) => a.hold("x", { signal }, () => steps(3)),
  release: async (a, signal) => (await a.acquire("x", { signal })).release(),
  renew: async (a, signal) => (await a.acquire("x", { signal })).renew(),
};

async function steps(n: number): Promise<void> {
  for (let i = 0; i < n; i++) await Promise.resolve();
}

interface Scene {
  readonly sim: Simulation;
  readonly a: Tenure;
  readonly b: Tenure;
  /** Settles with what `a` was asked for, or with the error. */
  readonly done: Promise<unknown>;
}

/** `a` was asked on a free name, or has waited for `b`, which has just let go. */
async function scene(
  over: (sim: Simulation, store: MemoryStore) => Backend,
  call: Call,
  waits: boolean,
  signal: AbortSignal,
): Promise<Scene> {
  const sim = simulatedRuntime({ seed: 1 });
  const store = new MemoryStore({ runtime: sim.runtime });
  const [a, b] = [
    await Tenure.open(over(sim, store), sim.runtime),
    await Tenure.open(over(sim, store), sim.runtime),
  ];
  const holding = waits ? present(await b.tryAcquire("x")) : undefined;
  const done = call(a, signal).catch((error: unknown) => error);
  if (holding !== undefined) {
    await sim.settle();
    void holding.release();
  }
  return { sim, a, b, done };
}

async function left({ sim, a, b }: Scene): Promise<unknown> {
  // For the clean-up.
  await sim.advance(100);
  const held = [];
  for (const name of NAMES) held.push(await b.inspect(name));
  await Promise.all([a.close(), b.close()]);
  return { held, timers: sim.pendingTimers() };
}

const NOTHING = { held: [null, null, null], timers: 0 };

describe.each(Object.keys(stores))("on a store that %s", (kind) => {
  describe.each(Object.keys(calls))("%s", (title) => {
    it.each([false, true])("leaves nothing, whenever it is closed (waits: %s)", async (waits) => {
      for (const moment of MOMENTS) {
        const { signal } = new AbortController();
        const now = await scene(stores[kind]!, calls[title]!, waits, signal);
        await steps(moment);
        await now.sim.until(Promise.all([now.a.close(), now.done]));
        expect(await left(now), `at step ${moment}`).toEqual(NOTHING);
      }
    });

    it.each([false, true])("leaves nothing, whenever it is aborted (waits: %s)", async (waits) => {
      const reason = new Error("enough");
      for (const moment of MOMENTS) {
        const controller = new AbortController();
        const now = await scene(stores[kind]!, calls[title]!, waits, controller.signal);
        await steps(moment);
        controller.abort(reason);
        // What was granted first is the caller's.
        if ((await now.sim.until(now.done)) !== reason) continue;
        expect(await left(now), `at step ${moment}`).toEqual(NOTHING);
      }
    });
  });
});
