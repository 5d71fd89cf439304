import { describe, expect, it } from "vitest";
import { MemoryStore } from "../../../src/backends/memory/store.js";
import { NotAcquiredError } from "../../../src/core/errors.js";
import { UnavailableError } from "../../../src/core/errors.js";
import { Tenure } from "../../../src/core/tenure.js";
import { simulatedRuntime } from "../../../src/testing/simulated-runtime.js";
import { notifying, ObservedStore, polling } from "./models.js";
import type { Listeners } from "./models.js";
import { hooked, present } from "./rig.js";

describe("on a store that is polled", () => {
  async function two() {
    const sim = simulatedRuntime({ seed: 3 });
    const store = new MemoryStore({ runtime: sim.runtime });
    const { backend, hooks, calls } = hooked(polling(sim, store));
    const a = await Tenure.open(polling(sim, store), sim.runtime);
    const b = await Tenure.open(backend, sim.runtime);
    return { sim, a, b, hooks, calls };
  }

  it("one waiter per process and name asks the store, the others queue behind it", async () => {
    const { sim, a, b, calls } = await two();
    const holding = await a.acquire("x");
    calls.length = 0;
    const order: number[] = [];
    const waiting = Array.from({ length: 50 }, async (_, i) => {
      const lease = await b.acquire("x");
      order.push(i);
      await lease.release();
    });
    await sim.advance(10_000);
    const tries = calls.filter(({ method }) => method === "acquire").length;
    expect(tries).toBeLessThan(40);
    await holding.release();
    await sim.until(Promise.all(waiting), 5_000);
    expect(order).toEqual(order.toSorted((p, q) => p - q));
  });

  it("a waiter behind the first that gives up does not hold up the rest", async () => {
    const { sim, a, b } = await two();
    const holding = await a.acquire("x");
    const first = b.acquire("x");
    const second = b.acquire("x", { wait: 100 }).catch((e: unknown) => e);
    const third = b.acquire("x");
    expect(await sim.until(second)).toBeInstanceOf(NotAcquiredError);
    await holding.release();
    await (await sim.until(first)).release();
    expect((await sim.until(third)).state).toBe("held");
  });

  it("a waiter that gives up as its turn comes passes it on, at whatever step", async () => {
    for (let steps = 0; steps < 30; steps++) {
      const { sim, a, b, hooks } = await two();
      const holding = await a.acquire("x");
      const controller = new AbortController();
      const first = b.acquire("x");
      const second = b.acquire("x", { signal: controller.signal }).catch(() => null);
      const third = b.acquire("x");
      await sim.advance(100);
      await holding.release();
      hooks.acquire = async (next) => {
        delete hooks.acquire;
        const answer = await next();
        void (async () => {
          for (let i = 0; i < steps; i++) await Promise.resolve();
          controller.abort();
        })();
        return answer;
      };
      await (await sim.until(first)).release();
      await (await sim.until(second))?.release();
      expect((await sim.until(third)).state).toBe("held");
    }
  });

  it("a waiter asks again when the present lease must have ended", async () => {
    const { sim, a, b } = await two();
    present(await a.tryAcquire("x", { ttl: 700, renew: false }));
    const startMs = sim.runtime.clock.monotonicMs();
    await sim.until(b.acquire("x"));
    expect(sim.runtime.clock.monotonicMs() - startMs).toBeLessThan(700 + 20);
  });

  it("a release in the same process wakes the first at once", async () => {
    const { sim, b } = await two();
    const holding = await b.acquire("x");
    const waiting = b.acquire("x");
    await sim.advance(30_000);
    await holding.release();
    await sim.until(waiting, 1);
  });
});

describe("on a store that notifies", () => {
  async function two(drop = () => false) {
    const sim = simulatedRuntime({ seed: 4 });
    const store = new MemoryStore({ runtime: sim.runtime });
    const listeners: Listeners = new Map();
    const { backend, calls, hooks } = hooked(notifying(sim, store, listeners));
    const a = await Tenure.open(notifying(sim, store, listeners, drop), sim.runtime);
    const b = await Tenure.open(backend, sim.runtime);
    return { sim, a, b, calls, hooks, listeners };
  }

  it("a waiter rests until it is told", async () => {
    const { sim, a, b, calls } = await two();
    const holding = await a.acquire("x", { ttl: "1h" });
    const waiting = b.acquire("x");
    await sim.advance(30_000);
    expect(calls.filter(({ method }) => method === "acquire").length).toBeLessThan(10);
    await holding.release();
    expect((await sim.until(waiting, 5)).state).toBe("held");
  });

  it("who finds the name free subscribes to nothing", async () => {
    const { b, calls, listeners } = await two();
    expect((await b.acquire("x")).state).toBe("held");
    expect(calls.filter(({ method }) => method === "acquire").length).toBe(1);
    expect(listeners.size).toBe(0);
  });

  it("a lost notice costs the fallback pause at most (case 22)", async () => {
    const { sim, a, b } = await two(() => true);
    const holding = await a.acquire("x", { ttl: "1h" });
    const waiting = b.acquire("x");
    await sim.advance(1000);
    await holding.release();
    await sim.until(waiting, 5_000);
  });

  it("after a try without an answer it asks again soon: nobody tells of what is free", async () => {
    const { sim, b, hooks } = await two();
    let asked = 0;
    hooks.acquire = (next) => {
      if (asked++ < 3) throw new UnavailableError("down");
      return next();
    };
    expect((await sim.until(b.acquire("x"), 500)).state).toBe("held");
  });

  // The second try is the first that has subscribed.
  it.each([0, 1])("a release between failed try %i and the pause is not missed (case 22)", async (nth) => {
    const { sim, a, b, hooks } = await two();
    const holding = await a.acquire("x", { ttl: "1h" });
    let tries = 0;
    hooks.acquire = async (next) => {
      const answer = await next();
      if (tries++ === nth) await holding.release();
      return answer;
    };
    await sim.until(b.acquire("x"), 5);
  });

  it("nothing stays subscribed after the wait", async () => {
    const { sim, a, b, listeners } = await two();
    present(await a.tryAcquire("x"));
    await sim.until(b.acquire("x", { wait: 50 }).catch(() => undefined));
    await sim.settle();
    expect([...listeners.values()].map(({ size }) => size)).toEqual([0]);
  });
});

describe("on a store where expiry is observed", () => {
  async function two() {
    const sim = simulatedRuntime({ seed: 5 });
    const store = new ObservedStore();
    const a = await Tenure.open(store.backend(), sim.runtime);
    const b = await Tenure.open(store.backend(), sim.runtime);
    return { sim, a, b };
  }

  it("a dead holder's record is taken over after one observed TTL, not two", async () => {
    const { sim, a, b } = await two();
    const dead = present(await a.tryAcquire("x", { ttl: 3000, renew: false }));
    const startMs = sim.runtime.clock.monotonicMs();
    const lease = await sim.until(b.acquire("x"));
    expect(sim.runtime.clock.monotonicMs() - startMs).toBeLessThan(3000 * 1.02 + 50);
    // Not before its holder has let go, even if that one's clock is 1 % slow.
    expect(sim.runtime.clock.monotonicMs() - startMs).toBeGreaterThanOrEqual(3000 * 1.01 + 2);
    expect(lease.token).toBeGreaterThan(dead.token);
  });

  it("a holder that renews is never taken over", async () => {
    const { sim, a, b } = await two();
    const lease = present(await a.tryAcquire("x", { ttl: 3000 }));
    const waiting = b.acquire("x", { wait: 60_000 }).catch((e: unknown) => e);
    expect(await sim.until(waiting, 61_000)).toBeInstanceOf(NotAcquiredError);
    expect(lease.state).toBe("held");
  });

  it("tries that are far apart take over too", async () => {
    const { sim, a, b } = await two();
    present(await a.tryAcquire("x", { ttl: 3000, renew: false }));
    expect(await b.tryAcquire("x")).toBeNull();
    await sim.advance(2000);
    expect(await b.tryAcquire("x")).toBeNull();
    await sim.advance(1100);
    expect(await b.tryAcquire("x")).not.toBeNull();
  });

  it("a contender whose wall clock is wrong by minutes changes nothing (case 15)", async () => {
    const { sim, a, b } = await two();
    present(await a.tryAcquire("x", { ttl: 3000 }));
    expect(await b.tryAcquire("x")).toBeNull();
    sim.jumpWall(180_000);
    expect(await b.tryAcquire("x")).toBeNull();
  });
});
