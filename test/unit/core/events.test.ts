import { describe, expect, it } from "vitest";
import { UnavailableError } from "../../../src/core/errors.js";
import { Histogram } from "../../../src/core/histogram.js";
import { present, rig } from "./rig.js";
import { seededRandom } from "./seeded.js";

describe("events", () => {
  it("tell the life of a lease in order, with its token", async () => {
    const { sim, a } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 3000 }));
    await sim.advance(1000);
    await lease.release();
    expect(sim.events.map(({ type }) => type)).toEqual(["granted", "renewed", "released"]);
    for (const event of sim.events) {
      expect(event).toMatchObject({ name: "x", backend: "memory", token: lease.token });
    }
    expect(sim.events[2]).toMatchObject({ heldMs: 1000, answer: "released" });
  });

  it("tell a release once, also when its first try had no answer", async () => {
    const { sim, a, hooks } = await rig();
    const lease = present(await a.tryAcquire("x"));
    hooks.release = () => Promise.reject(new UnavailableError("down"));
    sim.events.length = 0;
    await expect(lease.release()).rejects.toBeInstanceOf(UnavailableError);
    delete hooks.release;
    await lease.release();
    await lease.release();
    expect(sim.events).toMatchObject([{ type: "released", answer: "released" }]);
  });

  it("tell a refusal with the present holder", async () => {
    const { sim, a, b } = await rig();
    const lease = present(await a.tryAcquire("x"));
    sim.events.length = 0;
    await b.tryAcquire("x");
    expect(sim.events).toMatchObject([{ type: "refused", held: { holder: lease.holder } }]);
  });

  it("tell once that renewals fail, and that the lease is ending, then lost", async () => {
    const { sim, a, hooks } = await rig();
    present(await a.tryAcquire("x", { ttl: 3000 }));
    const down = new UnavailableError("down");
    hooks.renew = () => Promise.reject(down);
    sim.events.length = 0;
    await sim.advance(3000);
    expect(sim.events.map(({ type }) => type)).toEqual(["unknown", "unrenewed", "ending", "lost"]);
    expect(sim.events[0]).toMatchObject({ why: "unavailable", error: down });
    expect(sim.events[3]).toMatchObject({ reason: "deadline" });
  });

  it("tell once when long holds become the rule", async () => {
    const { sim, a } = await rig();
    for (let i = 0; i < 8; i++) {
      const lease = present(await a.tryAcquire("x", { ttl: 1000 }));
      await sim.advance(700);
      await lease.release();
    }
    const told = sim.events.filter(({ type }) => type === "long-holds");
    expect(told.length).toBe(1);
    expect(told[0]).toMatchObject({ name: "x", ttlMs: 1000 });
  });

  it("carry the lateness of each renewal", async () => {
    const { sim, a } = await rig();
    present(await a.tryAcquire("x", { ttl: 30_000 }));
    await sim.advance(8000);
    sim.block(4000);
    await sim.advance(10);
    const renewed = sim.events.find(({ type }) => type === "renewed");
    expect(renewed).toMatchObject({ pause: { latenessMs: expect.any(Number) } });
    expect((renewed as { pause: { latenessMs: number } }).pause.latenessMs).toBeGreaterThan(1000);
  });
});

describe("stats", () => {
  it("count waits, holds, refusals and losses of a name", async () => {
    const { sim, a, b } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 1000 }));
    const waiting = b.acquire("x");
    await b.tryAcquire("x");
    await sim.advance(2000);
    await lease.release();
    await (await sim.until(waiting)).release();
    expect(a.stats("x")).toMatchObject({ granted: 1, refused: 0, holds: { count: 1 } });
    expect(a.stats("x").holds.maxMs).toBe(2000);
    expect(b.stats("x")).toMatchObject({ granted: 1, refused: 1, waits: { count: 1 } });
    expect(b.stats("x").waits.maxMs).toBeGreaterThanOrEqual(2000);
    expect(a.stats("never")).toMatchObject({ granted: 0 });
  });

  it("of many names stay bounded", async () => {
    const { a } = await rig();
    for (let i = 0; i < 3000; i++) await present(await a.tryAcquire(`x${i}`)).release();
    expect(a.stats("x0").granted).toBe(0);
    expect(a.stats("x2999").granted).toBe(1);
  });

  it("of the newest names are not pushed out by renewals of older ones", async () => {
    const { sim, a } = await rig();
    for (let i = 0; i < 1_500; i++) await a.tryAcquire(`x${i}`, { ttl: 3000 });
    await sim.advance(1_500);
    const { granted, renewals } = a.stats("x1000");
    expect([granted, renewals.renewed > 0]).toEqual([1, true]);
    expect(a.stats("x0").granted).toBe(0);
    await a.close();
  });

  it("have quantiles within a tenth", () => {
    const uniform = seededRandom(5);
    const values = Array.from({ length: 5000 }, () => Math.exp(uniform() * 12 - 3));
    const histogram = new Histogram();
    for (const value of values) histogram.add(value);
    const sorted = values.toSorted((p, q) => p - q);
    for (const q of [0.5, 0.9, 0.99]) {
      const exact = sorted[Math.ceil(q * sorted.length) - 1]!;
      expect(histogram.quantileMs(q) / exact).toBeGreaterThan(0.9);
      expect(histogram.quantileMs(q) / exact).toBeLessThan(1.1);
    }
    expect(histogram.read().maxMs).toBe(sorted.at(-1));
    expect(new Histogram().read()).toEqual({ count: 0, p50Ms: 0, p99Ms: 0, maxMs: 0 });
  });
});

describe("a herd (case 24)", () => {
  it("of 500 waiters costs one hand-over each, not 500 tries", async () => {
    const { sim, a, b, calls } = await rig();
    const holding = present(await b.tryAcquire("x"));
    const order: number[] = [];
    const waiting = Array.from({ length: 500 }, async (_, i) => {
      const lease = await a.acquire("x");
      order.push(i);
      await lease.release();
    });
    await sim.advance(1000);
    calls.length = 0;
    await holding.release();
    await sim.until(Promise.all(waiting));
    expect(order).toEqual(Array.from({ length: 500 }, (_, i) => i));
    expect(calls.length).toBeLessThanOrEqual(2 * 500);
  });
});
