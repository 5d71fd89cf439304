import { describe, expect, it } from "vitest";
import { memoryBackend } from "../../../src/backends/memory/index.js";
import { MemoryStore } from "../../../src/backends/memory/store.js";
import type { Backend } from "../../../src/core/backend.js";
import { UnavailableError } from "../../../src/core/errors.js";
import { Tenure } from "../../../src/core/tenure.js";
import { simulatedRuntime } from "../../../src/testing/simulated-runtime.js";
import type { Simulation } from "../../../src/testing/simulated-runtime.js";
import { notifying, polling } from "./models.js";
import { present } from "./rig.js";

const stores: Readonly<Record<string, (sim: Simulation, store: MemoryStore) => Backend>> = {
  queues: (sim, store) => memoryBackend({ runtime: sim.runtime, store }),
  "is polled": polling,
  notifies: (sim, store) => notifying(sim, store, new Map()),
};

const calls: Readonly<Record<string, (a: Tenure, signal: AbortSignal) => Promise<unknown>>> = {
  acquire: (a, signal) => a.acquire("x", { signal }),
  acquireAll: (a, signal) => a.acquireAll(["x", "y"], { signal }),
  hold: (a, signal) => a.hold("x", { signal }, () => undefined),
};

/** Takes 20 ms to grant and to enqueue, and, once closed, does nothing any more. */
function slow(sim: Simulation, inner: Backend): Backend {
  let isClosed = false;
  const slowly = async <R>(ask: () => R): Promise<Awaited<R>> => {
    await new Promise<void>((go) => sim.runtime.timers.after(20, go));
    return await ask();
  };
  const { waiting } = inner;
  return {
    ...inner,
    acquire: (...args) => slowly(() => inner.acquire(...args)),
    release: async (...args) => {
      if (isClosed) throw new UnavailableError("closed");
      return inner.release(...args);
    },
    waiting:
      waiting.kind === "queue"
        ? { ...waiting, enqueue: (...args) => slowly(() => waiting.enqueue(...args)) }
        : waiting,
    close: async () => void (isClosed = true),
  };
}

describe.each(Object.keys(stores))("closing, on a slow store that %s", (kind) => {
  describe.each(Object.keys(calls))("%s", (title) => {
    it.each([
      [false, false],
      [false, true],
      [true, false],
      [true, true],
    ])("leaves nothing (waits: %s, is aborted first: %s)", async (waits, aborts) => {
      for (const afterMs of [0, 10, 30, 70, 110]) {
        const sim = simulatedRuntime({ seed: 1 });
        const store = new MemoryStore({ runtime: sim.runtime });
        const a = await Tenure.open(slow(sim, stores[kind]!(sim, store)), sim.runtime);
        const b = await Tenure.open(stores[kind]!(sim, store), sim.runtime);
        const held = waits ? present(await b.tryAcquire("x")) : undefined;
        const controller = new AbortController();
        const asked = calls[title]!(a, controller.signal).catch((error: unknown) => error);
        await sim.advance(afterMs);
        if (aborts) controller.abort(new Error("enough"));
        await sim.until(a.close());
        await sim.until(asked);
        await held?.release();
        // What was sent has arrived by now; nobody gives it back any more.
        await sim.advance(50);
        const left = [await b.inspect("x"), await b.inspect("y")];
        expect(left, `closed after ${afterMs} ms`).toEqual([null, null]);
        await b.close();
        expect(sim.pendingTimers()).toBe(0);
      }
    });
  });
});
