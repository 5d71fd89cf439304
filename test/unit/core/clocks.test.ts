import { describe, expect, it } from "vitest";
import { UnverifiedError } from "../../../src/core/errors.js";
import { down, present, rig } from "./rig.js";

describe("clocks", () => {
  it.each([3_600_000, -3_600_000])(
    "a wall clock jump of %i ms loses nothing (case 14)",
    async (jump) => {
      const { sim, a, b } = await rig();
      const lease = present(await a.tryAcquire("x", { ttl: 3000 }));
      const before = lease.remaining();
      sim.jumpWall(jump);
      expect(lease.remaining()).toBe(before);
      expect(await b.tryAcquire("x")).toBeNull();
      await sim.advance(10_000);
      expect(lease.state).toBe("held");
      expect(await b.tryAcquire("x")).toBeNull();
    },
  );

  it("a wall clock ahead of both others is doubt, until a renewal answers", async () => {
    const { sim, a, hooks } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 30_000 }));
    hooks.renew = down;
    sim.pauseVm(60_000);
    expect(lease.state).toBe("unknown");
    expect(() => lease.assertHeld()).toThrow(UnverifiedError);
    await sim.advance(1000);
    expect(() => lease.assertHeld()).toThrow(UnverifiedError);
    delete hooks.renew;
    await sim.advance(6000);
    expect(lease.state).toBe("held");
    lease.assertHeld();
  });

  it("a doubt asks the store at once", async () => {
    const { sim, a, calls } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 30_000 }));
    sim.pauseVm(60_000);
    expect(lease.state).toBe("unknown");
    await sim.settle();
    expect(calls.filter(({ method }) => method === "renew").length).toBe(1);
    expect(lease.state).toBe("held");
  });

  it.each([
    [1000, 50, 60],
    [30_000, 302, 312],
  ])("of a TTL of %i ms a wall clock %i ms ahead is a correction, %i ms doubt", async (ttl, ...ahead) => {
    for (const [i, ms] of ahead.entries()) {
      const { sim, a } = await rig();
      const lease = present(await a.tryAcquire("x", { ttl }));
      sim.pauseVm(ms);
      expect(lease.state).toBe(["held", "unknown"][i]);
    }
  });

  it("a suspend within the TTL is no doubt: the uptime clock has seen it", async () => {
    const { sim, a } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 30_000 }));
    sim.suspend(10_000);
    expect(lease.state).toBe("held");
    expect(lease.remaining()).toBeLessThanOrEqual(20_000);
  });

  it("a suspend past the TTL is lost at the first look, without any timer (scenario suspend)", async () => {
    const { sim, a, calls } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 3000 }));
    sim.suspend(30_000);
    expect(lease.state).toBe("lost");
    await sim.advance(5000);
    expect(calls.filter(({ method }) => method === "renew")).toEqual([]);
  });

  it("after a suspend the signal aborts within a second although its timer slept too", async () => {
    const { sim, a } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 30_000 }));
    const { signal } = lease;
    await sim.advance(10);
    sim.suspend(60_000);
    await sim.advance(1000);
    expect(signal.aborted).toBe(true);
  });

  it("measures how late a renewal left and how long the machine was suspended", async () => {
    const { sim, a } = await rig();
    present(await a.tryAcquire("x", { ttl: 30_000 }));
    await sim.advance(8000);
    sim.block(5000);
    await sim.settle();
    expect(a.stats("x").renewals.lateness.maxMs).toBeGreaterThan(2000);
    sim.suspend(5000);
    await sim.advance(10_000);
    expect(a.stats("x").renewals.suspendMaxMs).toBeGreaterThan(4900);
    expect(a.stats("x").pauses.eventLoopMaxMs).toBeGreaterThan(0);
  });
});
