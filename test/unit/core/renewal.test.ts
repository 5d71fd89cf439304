import { describe, expect, it } from "vitest";
import { LeaseLostError } from "../../../src/core/errors.js";
import type { Lease } from "../../../src/core/lease.js";
import { down, gate, present, rig, silent } from "./rig.js";

describe("a holder is told in time", () => {
  it("when the store falls silent right after the grant (case 1)", async () => {
    const { sim, a, hooks } = await rig();
    const sentMs = sim.runtime.clock.monotonicMs();
    const lease = present(await a.tryAcquire("x", { ttl: 2000 }));
    hooks.renew = silent;
    let abortedMs = 0;
    lease.signal.addEventListener("abort", () => {
      abortedMs = sim.runtime.clock.monotonicMs() - sentMs;
    });
    await sim.advance(2000);
    expect(abortedMs).toBeGreaterThan(1700);
    expect(abortedMs).toBeLessThanOrEqual(2000);
    expect(lease.signal.reason).toBeInstanceOf(LeaseLostError);
    expect(lease.signal.reason).toMatchObject({ reason: "deadline" });
    // A number without a unit that was meant as seconds shows in the log.
    expect(String(lease.signal.reason)).toContain("(TTL 2000 ms)");
    expect(lease.state).toBe("lost");
    expect(() => lease.assertHeld()).toThrow(LeaseLostError);
  });

  it("at moments that are no whole milliseconds, without looking twice at one", async () => {
    const { sim, a, hooks } = await rig();
    hooks.renew = down;
    for (let i = 0; i < 200; i++) {
      sim.block(i / 7 + 0.1);
      const lease = present(await a.tryAcquire("x", { ttl: 1000, grace: 100 }));
      await sim.advance(1000);
      expect(lease.signal.reason).toMatchObject({ reason: "deadline" });
    }
  });

  it("by its first statement after a blocked loop, and no renewal re-creates it (case 2)", async () => {
    const { sim, a, b, calls } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 500 }));
    sim.block(900);
    expect(lease.state).toBe("lost");
    const other = present(await b.tryAcquire("x", { ttl: 500 }));
    await sim.advance(100);
    expect(calls.filter(({ method }) => method === "renew")).toEqual([]);
    expect(await b.inspect("x")).toMatchObject({ token: other.token });
  });

  it.each<[string, (lease: Lease) => unknown]>([
    ["assertHeld", (lease) => lease.assertHeld()],
    ["renew", (lease) => lease.renew()],
    ["release", async (lease) => (await lease.release(), lease.assertHeld())],
  ])("by %s, though nothing else has looked at the clock since", async (_, ask) => {
    const { sim, a, calls } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 500 }));
    sim.block(900);
    await expect((async () => ask(lease))()).rejects.toMatchObject({ reason: "deadline" });
    expect(calls.filter(({ method }) => method === "renew")).toEqual([]);
  });

  it("when its renewal arrives after another lease came and went (case 3)", async () => {
    const { sim, a, b, hooks } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 900 }));
    const late = gate();
    hooks.renew = async (next) => {
      await late.promise;
      return next();
    };
    await sim.advance(900);
    const other = present(await b.tryAcquire("x"));
    await other.release();
    late.open();
    await sim.settle();
    expect(lease.state).toBe("lost");
    expect(await b.inspect("x")).toBeNull();
    const next = present(await b.tryAcquire("x"));
    expect(next.token).toBeGreaterThan(other.token);
    expect(other.token).toBeGreaterThan(lease.token);
  });

  it("not at all when errors last for 0.6 TTL, at the deadline when they last longer (case 4)", async () => {
    const { sim, a, hooks } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 3000 }));
    hooks.renew = down;
    await sim.advance(1800);
    expect(lease.state).toBe("unknown");
    delete hooks.renew;
    await sim.advance(600);
    expect(lease.state).toBe("held");
    expect(lease.signal.aborted).toBe(false);
    const baseLeft = lease.remaining();
    hooks.renew = down;
    await sim.advance(baseLeft - 1);
    expect(lease.state).toBe("unknown");
    // The uptime clock has steps of 10 ms.
    await sim.advance(12);
    expect(lease.state).toBe("lost");
  });

  it("at the deadline when only reads are answered: they prolong nothing (case 6)", async () => {
    const { sim, a, hooks } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 3000 }));
    hooks.renew = down;
    for (let i = 0; i < 29; i++) {
      await sim.advance(100);
      expect(await a.inspect("x")).toMatchObject({ holder: lease.holder });
    }
    expect(lease.signal.aborted).toBe(true);
    await sim.advance(80);
    expect(lease.state).toBe("lost");
    expect(lease.signal.reason).toMatchObject({ reason: "deadline" });
  });

  it("within one renewal interval when the record is removed (case 5)", async () => {
    const { sim, a, b } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 3000 }));
    expect(await b.break("x", { token: lease.token, reason: "host gone" })).toBe(true);
    await sim.advance(1000);
    expect(lease.state).toBe("lost");
    expect(lease.signal.reason).toMatchObject({ reason: "absent" });
    expect(sim.events.map(({ type }) => type)).toContain("broken");
  });

  it("who took over, where the store tells", async () => {
    const { sim, a, b } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 3000 }));
    await b.break("x", { token: lease.token, reason: "host gone" });
    const other = present(await b.tryAcquire("x"));
    await expect(lease.renew()).rejects.toMatchObject({
      code: "TENURE_LEASE_LOST",
      reason: "taken",
      by: { holder: other.holder, token: other.token },
    });
    await sim.settle();
  });
});

describe("renewal", () => {
  it("keeps a lease for as long as it is not released, with the token unmoved", async () => {
    const { sim, a } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: "1s" }));
    const token = lease.token;
    await sim.advance(60_000);
    expect(lease.state).toBe("held");
    expect(lease.token).toBe(token);
    expect(a.stats("x").renewals.renewed).toBeGreaterThan(150);
  });

  it.each(["before", "after"])(
    "in flight at release, arriving %s it, changes nothing (case 7)",
    async (order) => {
      const { sim, a, b, hooks, calls } = await rig();
      const lease = present(await a.tryAcquire("x", { ttl: 3000 }));
      hooks.renew = async (next) => {
        if (order === "after") await new Promise<void>((go) => sim.runtime.timers.after(100, go));
        const answer = next();
        if (order === "before") await new Promise<void>((go) => sim.runtime.timers.after(100, go));
        return answer;
      };
      await sim.advance(1000);
      expect(calls.some(({ method }) => method === "renew")).toBe(true);
      expect(await lease.release()).toBe("released");
      expect(await b.inspect("x")).toBeNull();
      calls.length = 0;
      await sim.advance(10_000);
      expect(await b.inspect("x")).toBeNull();
      expect(calls).toEqual([]);
      expect(lease.state).toBe("released");
      expect(lease.signal.aborted).toBe(false);
      expect(sim.events.filter(({ type }) => type === "lost")).toEqual([]);
    },
  );

  it("in flight when the work ends leaves nothing behind after close (case 8)", async () => {
    const { sim, a, hooks } = await rig();
    hooks.renew = silent;
    await sim.until(
      a.hold(
        "x",
        { ttl: 3000 },
        () => new Promise<void>((go) => sim.runtime.timers.after(1050, go)),
      ),
    );
    await a.close();
    await sim.settle();
    expect(sim.pendingTimers()).toBe(0);
    expect(sim.isMonitoring()).toBe(false);
  });

  it("ten times at once never adds time (case 12)", async () => {
    const { sim, a, b } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 1000 }));
    await sim.advance(200);
    await Promise.all(Array.from({ length: 10 }, () => lease.renew()));
    expect(lease.remaining()).toBeLessThanOrEqual(1000);
    expect((await b.inspect("x"))!.expiresInMs).toBeLessThanOrEqual(1000);
  });

  it("counts from the sending, however late the answer (case 11)", async () => {
    const { sim, a, hooks } = await rig();
    hooks.acquire = async (next) => {
      const answer = next();
      await new Promise<void>((go) => sim.runtime.timers.after(400, go));
      return answer;
    };
    const lease = present(await sim.until(a.tryAcquire("x", { ttl: 1000, renew: false })));
    expect(lease.remaining()).toBeLessThanOrEqual(600);
    expect(lease.remaining()).toBeGreaterThan(550);
  });

  it("counts from the try that was granted, not from the first (case 11)", async () => {
    const { sim, a, b } = await rig();
    const blocking = present(await b.tryAcquire("x", { ttl: 1000 }));
    const waiting = a.acquire("x", { ttl: 1000 });
    await sim.advance(3000);
    await blocking.release();
    const lease = await sim.until(waiting);
    expect(lease.remaining()).toBeGreaterThan(900);
  });

  it("answered late still counts, from the moment it was sent", async () => {
    const { sim, a, hooks } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 3000 }));
    hooks.renew = async (next) => {
      const answer = next();
      await new Promise<void>((go) => sim.runtime.timers.after(900, go));
      return answer;
    };
    await sim.advance(30_000);
    expect(lease.state).not.toBe("lost");
    expect(lease.remaining()).toBeLessThanOrEqual(3000 - 900);
  });

  it("counts from its sending, not from its answer (case 11)", async () => {
    const { sim, a, hooks } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 3000, renew: false }));
    hooks.renew = async (next) => {
      const answer = await next();
      await new Promise<void>((go) => sim.runtime.timers.after(900, go));
      return answer;
    };
    await sim.advance(1000);
    await sim.until(lease.renew());
    expect(lease.remaining()).toBeLessThanOrEqual(3000 - 900);
    expect(lease.remaining()).toBeGreaterThan(2000);
  });

  it("is not sent within the grace, also where the loop was blocked until then", async () => {
    const { sim, a, b, calls } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 3000, grace: 500 }));
    sim.block(2600);
    await sim.settle();
    expect(lease.signal.aborted).toBe(true);
    await sim.advance(400);
    expect(calls.filter(({ method }) => method === "renew")).toEqual([]);
    expect(await b.tryAcquire("x")).not.toBeNull();
  });

  it("answered after a later one takes nothing back", async () => {
    const { sim, a, hooks } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 3000, renew: false }));
    const [first, late] = [gate(), gate()];
    hooks.renew = async (next) => {
      delete hooks.renew;
      first.open();
      const answer = await next();
      await late.promise;
      return answer;
    };
    const overtaken = lease.renew();
    await first.promise;
    await sim.advance(1000);
    await lease.renew();
    const left = lease.remaining();
    late.open();
    await overtaken;
    expect(lease.remaining()).toBe(left);
  });

  it("answered within the grace prolongs nothing, and none is sent any more", async () => {
    const { sim, a, hooks, calls } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 3000, grace: 500, renew: false }));
    const late = gate();
    hooks.renew = async (next) => {
      const answer = await next();
      await late.promise;
      return answer;
    };
    await sim.advance(1000);
    const renewing = lease.renew();
    await sim.advance(1600);
    expect(lease.signal.aborted).toBe(true);
    const left = lease.remaining();
    late.open();
    await renewing;
    expect(lease.remaining()).toBe(left);
    await expect(lease.renew()).rejects.toMatchObject({ reason: "deadline" });
    expect(calls.filter(({ method }) => method === "renew").length).toBe(1);
    await sim.advance(400);
    expect(lease.state).toBe("lost");
  });

  it("that times out is followed by others in time, each a sixth of the TTL after the last", async () => {
    const { sim, a, hooks } = await rig({ timeout: 5000 });
    const lease = present(await a.tryAcquire("x", { ttl: 30_000 }));
    const grantedMs = sim.runtime.clock.monotonicMs();
    const sentMs: number[] = [];
    hooks.renew = (next) => {
      sentMs.push(sim.runtime.clock.monotonicMs() - grantedMs);
      return sentMs.length < 4 ? silent() : next();
    };
    await sim.advance(40_000);
    expect(lease.state).toBe("held");
    for (const [i, ms] of sentMs.slice(1, 4).entries()) {
      expect(ms - sentMs[i]!).toBeGreaterThan(3700);
      expect(ms - sentMs[i]!).toBeLessThanOrEqual(5000);
    }
  });

  it("never has more than three requests without an answer", async () => {
    const { sim, a, hooks } = await rig({ timeout: 5000 });
    present(await a.tryAcquire("x", { ttl: 6000, renewEvery: 500 }));
    let open = 0;
    let most = 0;
    hooks.renew = async (_next, _grants, { signal }) => {
      most = Math.max(most, ++open);
      signal.addEventListener("abort", () => open--);
      return silent();
    };
    await sim.advance(5800);
    expect(most).toBe(3);
  });

  it("of many leases goes out in few requests, and each hears its own outcome", async () => {
    const { sim, a, b, calls } = await rig();
    const leases = [];
    for (let i = 0; i < 1000; i++) {
      leases.push(present(await a.tryAcquire(`x${i}`, { ttl: 3000 })));
      if (i % 100 === 99) await sim.advance(50);
    }
    await b.break("x500", { token: leases[500]!.token, reason: "test" });
    calls.length = 0;
    await sim.advance(3000);
    const renewals = calls.filter(({ method }) => method === "renew");
    expect(renewals.length).toBeLessThanOrEqual(12);
    expect(leases.filter(({ state }) => state === "lost")).toEqual([leases[500]]);
    await a.close();
  });

  it("of a short lease is not put off by a long one that was there before", async () => {
    const { sim, a } = await rig();
    const long = present(await a.tryAcquire("long", { ttl: "10m" }));
    await sim.advance(1);
    const short = present(await a.tryAcquire("short", { ttl: 3000 }));
    await sim.advance(10_000);
    expect([long.state, short.state]).toEqual(["held", "held"]);
  });

  it("at a TTL of forty days keeps its schedule (case 13)", async () => {
    const { sim, a, calls } = await rig();
    const day = 24 * 3_600_000;
    const lease = present(await a.tryAcquire("x", { ttl: 40 * day }));
    await sim.advance(11 * day);
    expect(calls.filter(({ method }) => method === "renew")).toEqual([]);
    await sim.advance(3 * day);
    expect(calls.filter(({ method }) => method === "renew").length).toBe(1);
    expect(lease.state).toBe("held");
    await a.close();
  });

  it("never runs with renew: false, and half the TTL unrenewed is told", async () => {
    const { sim, a, calls } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 1000, renew: false }));
    await sim.advance(600);
    expect(sim.events.filter(({ type }) => type === "unrenewed").length).toBe(1);
    await sim.advance(400);
    expect(lease.state).toBe("lost");
    expect(calls.filter(({ method }) => method === "renew")).toEqual([]);
  });

  it("ends at maxHold: told a grace before, lost and given back then", async () => {
    const { sim, a, b } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 1000, maxHold: 5000, grace: 100 }));
    await sim.advance(4850);
    expect(lease.signal.aborted).toBe(false);
    await sim.advance(60);
    expect(lease.signal.aborted).toBe(true);
    expect(lease.state).toBe("held");
    await sim.advance(100);
    expect(lease.state).toBe("lost");
    expect(() => lease.assertHeld()).toThrow(expect.objectContaining({ reason: "max-hold" }));
    expect(await b.tryAcquire("x")).not.toBeNull();
  });
});
