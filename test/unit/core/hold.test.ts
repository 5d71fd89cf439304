import { describe, expect, it } from "vitest";
import {
  GuaranteeError,
  LeaseLostError,
  NotAcquiredError,
  UnavailableError,
} from "../../../src/core/errors.js";
import type { TokenBearer } from "../../../src/core/token.js";
import { memoryBackend } from "../../../src/backends/memory/index.js";
import { Tenure } from "../../../src/core/tenure.js";
import { simulatedRuntime } from "../../../src/testing/simulated-runtime.js";
import { down, gate, present, rig } from "./rig.js";

describe("hold", () => {
  it("answers what the work answers, and releases", async () => {
    const { a, b } = await rig();
    expect(await a.hold("x", (lease) => lease.name + String(lease.state))).toBe("xheld");
    expect(await b.inspect("x")).toBeNull();
  });

  it("rejects with the work's own error even when the release fails (case 9)", async () => {
    const { sim, a, b, hooks } = await rig();
    const own = new Error("mine");
    hooks.release = down;
    await expect(a.hold("x", () => Promise.reject(own))).rejects.toBe(own);
    expect(sim.events.some((e) => e.type === "unavailable" && e.during === "release")).toBe(true);
    delete hooks.release;
    await sim.advance(3000);
    expect(await b.inspect("x")).toBeNull();
    expect(sim.pendingTimers()).toBe(0);
  });

  it("rejects when its lease was broken, and had by another, before the work ended", async () => {
    const { a, b } = await rig();
    const failing = a.hold("x", async (lease) => {
      expect(await b.break("x", { token: lease.token, reason: "a test" })).toBe(true);
      await present(await b.tryAcquire("x")).release();
      return 7;
    });
    await expect(failing).rejects.toMatchObject({
      code: "TENURE_LEASE_LOST",
      reason: "absent",
      outcome: { status: "fulfilled", value: 7 },
    });
    const own = new Error("mine");
    const both = a.hold("x", async (lease) => {
      await b.break("x", { token: lease.token, reason: "a test" });
      throw own;
    });
    await expect(both).rejects.toBe(own);
  });

  it("resolves when the work gave its lease back, or handed it over, itself", async () => {
    const { a, b } = await rig();
    await expect(a.hold("x", (lease) => lease.release())).resolves.toBe("released");
    const detached = await a.hold("x", (lease) => a.detach(lease));
    expect(await b.giveBack(detached)).toBe("released");
  });

  it("stops renewing when the work rejects (case 9)", async () => {
    const { sim, a, calls } = await rig();
    await expect(a.hold("x", () => Promise.reject(new Error("mine")))).rejects.toThrow("mine");
    calls.length = 0;
    await sim.advance(60_000);
    expect(calls).toEqual([]);
  });

  it.each([
    ["fulfilled", { status: "fulfilled", value: 7 }],
    ["rejected", { status: "rejected", reason: new Error("late") }],
  ] as const)(
    "of a lost lease rejects with the outcome of the work attached: %s",
    async (_, outcome) => {
      const { sim, a } = await rig();
      const failing = a.hold("x", { ttl: 500 }, () => {
        sim.block(1000);
        if (outcome.status === "rejected") throw outcome.reason;
        return outcome.value;
      });
      const error = await failing.catch((e: unknown) => e);
      expect(error).toBeInstanceOf(LeaseLostError);
      expect(error).toMatchObject({ reason: "deadline", outcome });
      await sim.settle();
    },
  );

  it("is not lost when the work ends between the abort and the deadline", async () => {
    const { sim, a, hooks } = await rig();
    hooks.renew = down;
    const result = a.hold("x", { ttl: 1000, grace: 200 }, async ({ signal }) => {
      await new Promise<void>((stop) => signal.addEventListener("abort", () => stop()));
      return "stopped in time";
    });
    expect(await sim.until(result)).toBe("stopped in time");
  });

  it("arms what it names, in that order, before the work", async () => {
    const { a } = await rig();
    const seen: string[] = [];
    const target = (name: string) => ({
      arm: async (bearer: TokenBearer) => {
        seen.push(`${name} ${typeof bearer.token}`);
        return { name };
      },
    });
    const result = await a.hold(
      "x",
      { arm: { account: target("account"), log: target("log") } },
      (lease, { account, log }) => [lease.name, account.name, log.name],
    );
    expect(result).toEqual(["x", "account", "log"]);
    expect(seen).toEqual(["account bigint", "log bigint"]);
  });

  it("does not start the work, and releases, when an arming fails", async () => {
    const { a, b } = await rig();
    const stale = new Error("stale");
    const arm = { x: { arm: () => Promise.reject(stale) } };
    let ran = false;
    await expect(a.hold("x", { arm }, () => void (ran = true))).rejects.toBe(stale);
    expect(ran).toBe(false);
    expect(await b.inspect("x")).toBeNull();
  });

  it("runs without a lease on an unavailable store only for efficiency and when told", async () => {
    const careful = await rig();
    careful.hooks.acquire = down;
    await expect(careful.a.hold("x", { onUnavailable: "proceed" }, () => 1)).rejects.toBeInstanceOf(
      GuaranteeError,
    );

    const { sim, a, b, hooks } = await rig({ purpose: "efficiency", timeout: 100 });
    hooks.acquire = down;
    const advised = a.hold("x", { onUnavailable: "proceed" }, (lease) => lease);
    expect(await sim.until(advised)).toBeUndefined();
    expect(sim.events.map(({ type }) => type)).toContain("proceeded");
    await expect(sim.until(a.hold("x", () => 1))).rejects.toBeInstanceOf(UnavailableError);
    // A mistake in the set-up is there the next time as well.
    const denied = new UnavailableError("wrong password", { retryable: false });
    hooks.acquire = () => Promise.reject(denied);
    const unset = a.hold("x", { onUnavailable: "proceed" }, () => 1);
    await expect(sim.until(unset)).rejects.toBe(denied);
    delete hooks.acquire;
    present(await b.tryAcquire("x"));
    await expect(
      sim.until(a.hold("x", { onUnavailable: "proceed", wait: 10 }, () => 1)),
    ).rejects.toBeInstanceOf(NotAcquiredError);
  });
});

describe("acquireAll", () => {
  it("folds duplicates and acquires in one order, a token each", async () => {
    const { a, calls } = await rig();
    const leases = await a.acquireAll(["b", "a", "b", "c"]);
    expect(leases.map(({ name }) => name)).toEqual(["a", "b", "c"]);
    expect(new Set(leases.map(({ token }) => token)).size).toBe(3);
    expect(calls.map(({ names }) => names[0])).toEqual(["a", "b", "c"]);
    await a.close();
  });

  it("holds nothing when one of them is not to be had", async () => {
    const { sim, a, b } = await rig();
    present(await b.tryAcquire("b"));
    await expect(sim.until(a.acquireAll(["a", "b", "c"], { wait: 100 }))).rejects.toBeInstanceOf(
      NotAcquiredError,
    );
    expect(await b.inspect("a")).toBeNull();
    expect(await b.inspect("c")).toBeNull();
  });

  it("gives up when the time for all together has passed", async () => {
    const { sim, a, b } = await rig();
    const first = present(await b.tryAcquire("a"));
    present(await b.tryAcquire("b"));
    const all = a.acquireAll(["a", "b"], { wait: 1000 }).catch((e: unknown) => e);
    await sim.advance(800);
    await first.release();
    expect(await sim.until(all, 250)).toMatchObject({ code: "TENURE_NOT_ACQUIRED", lock: "b" });
  });

  it("holds nothing when the first was lost while the last was waited for", async () => {
    const { sim, a, b } = await rig();
    const blocking = present(await b.tryAcquire("b"));
    const all = a.acquireAll(["a", "b"], { ttl: 1000, renew: false }).catch((e: unknown) => e);
    await sim.advance(2000);
    await blocking.release();
    expect(await sim.until(all)).toMatchObject({ lock: "a", reason: "deadline" });
    expect(await b.inspect("b")).toBeNull();
  });

  it("in opposite orders by two callers does not block", async () => {
    const { sim, a, b } = await rig();
    const rounds = async (tenure: typeof a, names: string[]): Promise<void> => {
      for (let i = 0; i < 20; i++) {
        const leases = await tenure.acquireAll(names);
        await Promise.all(leases.map((lease) => lease.release()));
      }
    };
    await sim.until(Promise.all([rounds(a, ["p", "q"]), rounds(b, ["q", "p"])]));
  });
});

describe("close", () => {
  it("refuses new work, ends waiting, awaits holds, releases the rest even if one fails", async () => {
    const { sim, a, b, hooks } = await rig();
    present(await b.tryAcquire("busy"));
    present(await a.tryAcquire("one"));
    present(await a.tryAcquire("two"));
    const working = gate<string>();
    const held = a.hold("work", () => working.promise);
    const waiting = a.acquire("busy").catch((e: unknown) => e);
    await sim.settle();
    hooks.release = async (next, requests) => {
      if (requests[0]!.name === "one") throw new UnavailableError("down");
      return next();
    };
    const closing = a.close().catch((e: unknown) => e);
    expect(await waiting).toBeInstanceOf(UnavailableError);
    await expect(a.tryAcquire("y")).rejects.toBeInstanceOf(UnavailableError);
    await sim.settle();
    expect(await b.inspect("work")).not.toBeNull();
    working.open("done");
    expect(await held).toBe("done");
    expect(await closing).toBeInstanceOf(AggregateError);
    expect(await b.inspect("work")).toBeNull();
    expect(await b.inspect("two")).toBeNull();
    expect(await b.inspect("one")).not.toBeNull();
    expect(await b.inspect("busy")).toMatchObject({ waiters: 0 });
  });

  it("gives back what a try under way brings", async () => {
    const { sim, a, b, hooks } = await rig();
    hooks.acquire = async (next) => {
      await new Promise<void>((go) => sim.runtime.timers.after(50, go));
      return next();
    };
    const trying = a.tryAcquire("x").catch((e: unknown) => e);
    await sim.until(a.close());
    expect(await trying).toBeInstanceOf(UnavailableError);
    await sim.settle();
    expect(await b.inspect("x")).toBeNull();
    expect(sim.pendingTimers()).toBe(0);
  });

  it("lets whoever waited leave the queue before it closes the backend", async () => {
    const sim = simulatedRuntime({ seed: 1 });
    const inner = memoryBackend({ runtime: sim.runtime });
    const { waiting } = inner;
    if (waiting.kind !== "queue") throw new Error("no queue");
    const steps: string[] = [];
    const enqueue: typeof waiting.enqueue = async (...args) => ({
      ...(await waiting.enqueue(...args)),
      turn: () => new Promise<never>(() => undefined),
      leave: async () => {
        await new Promise<void>((go) => sim.runtime.timers.after(50, go));
        steps.push("left");
      },
    });
    const close = async (): Promise<void> => void steps.push("closed");
    const backend = { ...inner, waiting: { ...waiting, enqueue }, close };
    const a = await Tenure.open(backend, sim.runtime);
    present(await a.tryAcquire("x"));
    const refused = a.acquire("x").catch((e: unknown) => e);
    await sim.advance(50);
    await sim.until(a.close());
    expect(await refused).toBeInstanceOf(UnavailableError);
    expect(steps).toEqual(["left", "closed"]);
  });

  it("gives back what is being adopted", async () => {
    const { sim, a, b, hooks } = await rig();
    const detached = b.detach(present(await b.tryAcquire("x")));
    hooks.renew = async (next) => {
      await new Promise<void>((go) => sim.runtime.timers.after(500, go));
      return next();
    };
    const adopting = a.adopt(detached);
    await sim.until(a.close());
    expect((await adopting).state).toBe("released");
    expect(await b.inspect("x")).toBeNull();
    expect(sim.pendingTimers()).toBe(0);
  });

  it("leaves no timer behind", async () => {
    const { sim, a, b } = await rig();
    await a.acquire("x");
    const waiting = b.acquire("x").catch(() => undefined);
    await sim.advance(5000);
    await Promise.all([a.close(), b.close()]);
    await waiting;
    expect(sim.pendingTimers()).toBe(0);
  });
});

describe("detach and adopt", () => {
  it("leaves a handle that cannot end what somebody else goes on with", async () => {
    const { sim, a, b, calls } = await rig();
    const lease = present(await a.tryAcquire("x"));
    const detached = a.detach(lease);
    calls.length = 0;
    expect(lease.state).toBe("released");
    expect(await lease.release()).toBe("not-held");
    await lease[Symbol.asyncDispose]();
    await expect(lease.renew()).rejects.toBeInstanceOf(LeaseLostError);
    await expect(lease.renew()).rejects.toThrow(/handed over to another process/);
    expect(() => lease.assertHeld()).toThrow(/handed over to another process/);
    expect(() => a.detach(lease)).toThrow(LeaseLostError);
    expect(calls).toEqual([]);
    const adopted = await b.adopt(detached);
    await sim.advance(60_000);
    expect(adopted.state).toBe("held");
    expect(await b.inspect("x")).toMatchObject({ holder: lease.holder, token: lease.token });
  });

  it("hands a lease to another process without a new token", async () => {
    const { sim, a, b } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 5000 }));
    const detached = a.detach(lease);
    await sim.advance(2000);
    const adopted = await b.adopt(detached, { ttl: 5000 });
    expect(adopted.token).toBe(lease.token);
    await a.close();
    await sim.advance(10_000);
    expect(adopted.state).toBe("held");
    expect(await b.giveBack(detached)).toBe("released");
    expect(await b.giveBack(detached)).toBe("not-held");
    await expect(b.adopt(detached)).rejects.toBeInstanceOf(LeaseLostError);
  });

  it("keeps no lease that nobody has, whatever the clocks do while it is adopted", async () => {
    const { sim, a, b, hooks } = await rig();
    const detached = b.detach(present(await b.tryAcquire("x", { ttl: 5000 })));
    hooks.renew = async (next) => {
      delete hooks.renew;
      sim.pauseVm(1000);
      return next();
    };
    const adopted = await a.adopt(detached, { ttl: 5000 });
    expect(adopted.state).toBe("unknown");
    await sim.advance(1);
    expect(adopted.state).toBe("held");

    const again = a.detach(adopted);
    hooks.renew = async (next) => {
      delete hooks.renew;
      const answer = await next();
      sim.suspend(5000);
      return answer;
    };
    await expect(a.adopt(again, { ttl: 5000 })).rejects.toBeInstanceOf(LeaseLostError);
    expect(sim.pendingTimers()).toBe(0);
  });
});
