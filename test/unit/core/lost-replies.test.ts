import { describe, expect, it } from "vitest";
import { memoryBackend } from "../../../src/backends/memory/index.js";
import {
  NotAcquiredError,
  OutcomeUnknownError,
  UnavailableError,
} from "../../../src/core/errors.js";
import { Tenure } from "../../../src/core/tenure.js";
import { down, gate, present, rig, silent } from "./rig.js";

describe("lost replies", () => {
  it("of an acquire leave nothing that outlives the clean-up (case 20)", async () => {
    const { sim, a, b, hooks } = await rig({ timeout: 1000 });
    hooks.acquire = async (next) => {
      await next();
      return silent();
    };
    const failing = a.tryAcquire("x").catch((e: unknown) => e);
    await sim.advance(500);
    expect(await b.tryAcquire("x")).toBeNull();
    await sim.advance(600);
    expect(await failing).toBeInstanceOf(OutcomeUnknownError);
    await sim.settle();
    expect(await b.inspect("x")).toBeNull();
  });

  it.each<[string, (a: Tenure) => Promise<unknown>]>([
    ["try", (a) => a.tryAcquire("x")],
    ["acquire", (a) => a.acquire("x", { wait: 10 })],
  ])("are asked about again before the next %s: nobody waits behind itself", async (_, next) => {
    const { sim, a, hooks } = await rig({ timeout: 1000 });
    hooks.acquire = async (granted) => {
      await granted();
      throw new OutcomeUnknownError("cut");
    };
    hooks.release = down;
    await expect(a.tryAcquire("x")).rejects.toBeInstanceOf(OutcomeUnknownError);
    await sim.settle();
    delete hooks.acquire;
    delete hooks.release;
    expect(await sim.until(next(a))).toMatchObject({ state: "held" });
  });

  it("are asked about until the store is certain", async () => {
    const { sim, a, b, hooks } = await rig();
    hooks.acquire = async (next) => {
      await next();
      throw new OutcomeUnknownError("cut");
    };
    hooks.release = () => ["unknown"];
    await expect(a.tryAcquire("x")).rejects.toBeInstanceOf(OutcomeUnknownError);
    await sim.settle();
    delete hooks.release;
    expect(await b.inspect("x")).not.toBeNull();
    await sim.advance(100);
    expect(await b.inspect("x")).toBeNull();
  });

  it("that come when nobody waits any more leave nothing, either", async () => {
    const { sim, a, b, hooks } = await rig();
    hooks.acquire = async (next) => {
      await new Promise<void>((go) => sim.runtime.timers.after(500, go));
      await next();
      throw new OutcomeUnknownError("cut");
    };
    const waiting = a.acquire("x", { wait: 100 }).catch((e: unknown) => e);
    expect(await sim.until(waiting, 110)).toBeInstanceOf(OutcomeUnknownError);
    await sim.advance(500);
    expect(await b.tryAcquire("x")).not.toBeNull();
  });

  it("before a grant that nobody waits for leave neither of the two tries", async () => {
    const { sim, a, b, hooks } = await rig();
    let tries = 0;
    hooks.acquire = async (next) => {
      if (tries++ === 0) throw new OutcomeUnknownError("cut");
      await new Promise<void>((go) => sim.runtime.timers.after(500, go));
      return next();
    };
    const waiting = a.acquire("x", { wait: 300 }).catch((e: unknown) => e);
    expect(await sim.until(waiting, 310)).toBeInstanceOf(OutcomeUnknownError);
    await sim.advance(500);
    expect(tries).toBe(2);
    expect(await b.tryAcquire("x")).not.toBeNull();
  });

  it("of a confirmation are asked for again: the offer is not left behind", async () => {
    const { sim, a, b, hooks } = await rig();
    const holding = present(await b.tryAcquire("x"));
    const waiting = a.acquire("x");
    await sim.advance(50);
    hooks.renew = async (next) => {
      delete hooks.renew;
      await next();
      return ["unknown"];
    };
    await holding.release();
    const lease = await sim.until(waiting, 1000);
    expect(await b.inspect("x")).toMatchObject({ holder: lease.holder, token: lease.token });
  });

  it("are retried under the same holder and win with the same token (case 20)", async () => {
    const { sim, a, hooks, store } = await rig({ timeout: 1000 });
    let lost = 0;
    hooks.acquire = async (next) => {
      const answer = await next();
      if (lost++ < 2) throw new OutcomeUnknownError("cut");
      return answer;
    };
    const waiting = a.acquire("x");
    await sim.settle();
    const orphan = present(store.inspect("x"));
    const lease = await sim.until(waiting);
    expect(lease).toMatchObject({ token: orphan.token, holder: orphan.holder });
  });

  it("are chased for one TTL at most", async () => {
    const { sim, a, hooks, calls } = await rig({ timeout: 1000 });
    hooks.acquire = () => Promise.reject(new OutcomeUnknownError("cut"));
    hooks.release = down;
    await expect(a.tryAcquire("x", { ttl: 10_000 })).rejects.toBeInstanceOf(OutcomeUnknownError);
    await sim.advance(14_000);
    expect(calls.filter(({ method }) => method === "release").length).toBeGreaterThan(4);
    calls.length = 0;
    await sim.advance(60_000);
    expect(calls).toEqual([]);
    expect(sim.pendingTimers()).toBe(0);
  });

  it("of a release leave the handle able to try again (case 27)", async () => {
    const { a, b, hooks } = await rig();
    const lease = present(await a.tryAcquire("x"));
    hooks.release = down;
    await expect(lease.release()).rejects.toBeInstanceOf(UnavailableError);
    delete hooks.release;
    expect(await lease.release()).toBe("released");
    expect(await b.inspect("x")).toBeNull();
  });

  it("a grant that comes after its own deadline is no grant and is given back (dead-on-arrival)", async () => {
    const { sim, a, b, hooks } = await rig();
    hooks.acquire = async (next) => {
      const answer = await next();
      sim.block(1000);
      return answer;
    };
    const failing = a.tryAcquire("x", { ttl: 800 });
    await expect(failing).rejects.toBeInstanceOf(UnavailableError);
    await sim.settle();
    expect(await b.inspect("x")).toBeNull();
  });

  it("an acquire that reaches the store after a long pause is valid by the store's time only (case 16)", async () => {
    const { sim, a, b, hooks } = await rig({ timeout: 60_000 });
    const pause = gate();
    hooks.acquire = async (next) => {
      await pause.promise;
      return next();
    };
    const waiting = a.tryAcquire("x", { ttl: 1000 }).catch((e: unknown) => e);
    await sim.advance(3000);
    pause.open();
    expect(await waiting).toBeInstanceOf(UnavailableError);
    await sim.settle();
    expect(await b.tryAcquire("x")).not.toBeNull();
  });

  it.each<[string, boolean, number, boolean]>([
    ["of its place, when it comes late", true, 500, false],
    ["of its place, each time", true, 0, false],
    ["of leaving it", false, 0, true],
  ])("leave no waiter in the queue: %s", async (_, isPlaceLost, travelMs, isLeavingLost) => {
    const { sim, store, b } = await rig();
    const inner = memoryBackend({ runtime: sim.runtime, store });
    const { waiting } = inner;
    if (waiting.kind !== "queue") throw new Error("no queue");
    const cut = (): never => {
      throw new OutcomeUnknownError("cut");
    };
    const enqueue: typeof waiting.enqueue = async (...args) => {
      await new Promise<void>((go) => sim.runtime.timers.after(travelMs, go));
      const ticket = await waiting.enqueue(...args);
      if (isPlaceLost) cut();
      return {
        ...{ name: ticket.name, holder: ticket.holder },
        turn: (signal) => ticket.turn(signal),
        leave: async (call) => (isLeavingLost ? cut() : ticket.leave(call)),
      };
    };
    const a = await Tenure.open({ ...inner, waiting: { ...waiting, enqueue } }, sim.runtime);
    present(await b.tryAcquire("x"));
    const refused = a.acquire("x", { wait: 300 }).catch((e: unknown) => e);
    await sim.advance(250);
    expect(store.inspect("x")).toMatchObject({ waiters: travelMs === 0 ? 1 : 0 });
    await sim.advance(350);
    expect(await refused).toBeInstanceOf(NotAcquiredError);
    expect(store.inspect("x")).toMatchObject({ waiters: 0 });
  });
});
