import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import {
  LeaseLostError,
  NotAcquiredError,
  OutcomeUnknownError,
  UnavailableError,
} from "../../../src/core/errors.js";
import { memoryBackend } from "../../../src/backends/memory/index.js";
import { Tenure } from "../../../src/core/tenure.js";
import { down, present, rig, silent } from "./rig.js";

describe("waiting", () => {
  it("ends after `wait` with the present holder told, and leaves nothing (case 17)", async () => {
    const { sim, store, a, b } = await rig();
    const holding = present(await a.tryAcquire("x"));
    const error = await sim.until(b.acquire("x", { wait: 100 }).catch((e: unknown) => e));
    expect(error).toBeInstanceOf(NotAcquiredError);
    expect(error).toMatchObject({
      lock: "x",
      held: { holder: holding.holder, token: holding.token },
    });
    expect(String(error)).toContain(String(holding.token));
    expect(store.inspect("x")).toMatchObject({ waiters: 0 });
    await holding.release();
    const third = await sim.until(b.acquire("x", { wait: 100 }), 100);
    expect(third.token).toBeGreaterThan(holding.token);
  });

  it("ends at once when its signal aborts, with the signal's own reason (case 18)", async () => {
    const { sim, store, a, b } = await rig();
    present(await a.tryAcquire("x"));
    const controller = new AbortController();
    const waiting = b.acquire("x", { signal: controller.signal }).catch((e: unknown) => e);
    await sim.advance(50);
    const reason = new Error("enough");
    controller.abort(reason);
    expect(await sim.until(waiting, 10)).toBe(reason);
    await sim.settle();
    expect(store.inspect("x")).toMatchObject({ waiters: 0 });
  });

  it("with no time to wait still waits for the answer to one try", async () => {
    const { sim, a, b, hooks } = await rig();
    hooks.acquire = async (next) => {
      await new Promise<void>((go) => sim.runtime.timers.after(200, go));
      return next();
    };
    const lease = await sim.until(a.acquire("x", { wait: 0 }));
    expect(lease.state).toBe("held");
    const error = await sim.until(a.acquire("x", { wait: 0 }).catch((e: unknown) => e));
    expect(error).toMatchObject({ code: "TENURE_NOT_ACQUIRED", held: { holder: lease.holder } });
    await lease.release();
    const controller = new AbortController();
    const trying = a.acquire("x", { wait: 0, signal: controller.signal }).catch((e: unknown) => e);
    await sim.advance(50);
    controller.abort(new Error("enough"));
    expect(await sim.until(trying, 10)).toBe(controller.signal.reason);
    await sim.advance(200);
    expect(await b.inspect("x")).toBeNull();
  });

  it("that was granted leaves no timer for the rest of its time", async () => {
    const { sim, a, b } = await rig();
    const holding = present(await b.tryAcquire("x"));
    const waiting = a.acquire("x", { wait: "1h" });
    await sim.advance(50);
    await holding.release();
    await (await sim.until(waiting)).release();
    await sim.settle();
    expect(sim.pendingTimers()).toBe(0);
  });

  it("listens to its signal no longer than it lasts, however it ends", async () => {
    const { sim, a, b } = await rig();
    const { signal } = new AbortController();
    const listeners = (): number => getEventListeners(signal, "abort").length;
    const lease = await a.acquire("x", { signal });
    expect(listeners()).toBe(0);
    const refused = b.acquire("x", { wait: 100, signal });
    const granted = b.acquire("x", { signal });
    expect(listeners()).toBe(1);
    await expect(sim.until(refused)).rejects.toBeInstanceOf(NotAcquiredError);
    expect(listeners()).toBe(1);
    await lease.release();
    expect((await sim.until(granted)).state).toBe("held");
    expect(listeners()).toBe(0);
  });

  it("does no I/O when its signal was aborted before the call (case 18)", async () => {
    const { a, calls } = await rig();
    const reason = new Error("enough");
    await expect(a.acquire("x", { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(calls).toEqual([]);
  });

  it("does not heed the caller's signal once the work runs: the release happens (case 19)", async () => {
    const { a, b } = await rig();
    const controller = new AbortController();
    await a.hold("x", { signal: controller.signal }, () => controller.abort());
    expect(await b.inspect("x")).toBeNull();
  });

  it("gives back a grant that comes after the waiter gave up", async () => {
    const { sim, a, b, hooks } = await rig();
    hooks.acquire = async (next) => {
      await new Promise<void>((go) => sim.runtime.timers.after(500, go));
      return next();
    };
    const waiting = a.acquire("x", { wait: 100 }).catch((e: unknown) => e);
    expect(await sim.until(waiting, 110)).toBeInstanceOf(OutcomeUnknownError);
    await sim.advance(500);
    expect(await b.tryAcquire("x")).not.toBeNull();
  });

  it.each([
    [0, 200],
    [200, 0],
  ])("leaves nothing when given up while its offer is confirmed (%i, %i ms)", async (go, come) => {
    const { sim, a, b, hooks } = await rig();
    const holding = present(await b.tryAcquire("x"));
    const travel = (ms: number): Promise<void> =>
      new Promise((arrive) => sim.runtime.timers.after(ms, arrive));
    hooks.renew = async (next) => {
      await travel(go);
      const answer = await next();
      await travel(come);
      return answer;
    };
    const controller = new AbortController();
    const waiting = a.acquire("x", { signal: controller.signal }).catch((e: unknown) => e);
    await sim.advance(50);
    await holding.release();
    await sim.advance(100);
    const reason = new Error("enough");
    controller.abort(reason);
    expect(await sim.until(waiting, 10)).toBe(reason);
    await sim.advance(300);
    expect(await b.inspect("x")).toBeNull();
  });

  it("leaves no place in the queue when it came to be after the waiter gave up", async () => {
    const { sim, store, b } = await rig();
    const inner = memoryBackend({ runtime: sim.runtime, store });
    const { waiting } = inner;
    if (waiting.kind !== "queue") throw new Error("no queue");
    const enqueue: typeof waiting.enqueue = async (...args) => {
      await new Promise<void>((go) => sim.runtime.timers.after(500, go));
      return waiting.enqueue(...args);
    };
    const a = await Tenure.open({ ...inner, waiting: { ...waiting, enqueue } }, sim.runtime);
    present(await b.tryAcquire("x"));
    const refused = a.acquire("x", { wait: 100 }).catch((e: unknown) => e);
    expect(await sim.until(refused, 110)).toBeInstanceOf(NotAcquiredError);
    await sim.advance(500);
    expect(store.inspect("x")).toMatchObject({ waiters: 0 });
  });

  it("goes on under a new holder id when its offer was gone before it was confirmed", async () => {
    const { sim, a, b, hooks } = await rig();
    const holding = present(await b.tryAcquire("x"));
    const holders: string[] = [];
    hooks.renew = (_next, [grant]) => {
      delete hooks.renew;
      holders.push(grant!.holder);
      return [{ lost: "absent" }];
    };
    const waiting = a.acquire("x");
    await sim.advance(50);
    await holding.release();
    const lease = await sim.until(waiting);
    expect(holders).toHaveLength(1);
    expect(lease.holder).not.toBe(holders[0]);
  });

  it("does not confirm again an offer that it gave up because the answer came too late", async () => {
    const { sim, a, b, hooks } = await rig();
    const holding = present(await b.tryAcquire("x"));
    const travel = (ms: number): Promise<void> =>
      new Promise((arrive) => sim.runtime.timers.after(ms, arrive));
    let renewals = 0;
    hooks.renew = async (next) => {
      const answer = await next();
      if (renewals++ === 0) await travel(2_750);
      return answer;
    };
    hooks.release = async (next) => {
      await travel(200);
      return next();
    };
    const waiting = a.acquire("x", { ttl: 3_000 });
    await sim.advance(50);
    await holding.release();
    const lease = await sim.until(waiting, 10_000);
    await sim.advance(1_000);
    expect(lease.state).toBe("held");
    expect(await b.inspect("x")).toMatchObject({ holder: lease.holder });
  });

  it("of two calls of one client ends with one lease, then the other (case 29)", async () => {
    const { sim, a } = await rig();
    const first = await a.acquire("x");
    const second = a.acquire("x");
    await sim.advance(1000);
    expect(first.state).toBe("held");
    await first.release();
    const lease = await sim.until(second);
    expect(lease.token).toBeGreaterThan(first.token);
    expect(lease.state).toBe("held");
  });

  it("keeps a place for a minute behind a holder that renews, in order of arrival", async () => {
    const { sim, a, b } = await rig();
    const holding = await a.acquire("x", { ttl: 1000 });
    const order: number[] = [];
    const waiting = Array.from({ length: 5 }, async (_, i) => {
      const lease = await b.acquire("x", { ttl: 1000 });
      order.push(i);
      await lease.release();
    });
    await sim.advance(60_000);
    expect(order).toEqual([]);
    await holding.release();
    await sim.until(Promise.all(waiting));
    expect(order).toEqual([0, 1, 2, 3, 4]);
  });

  it("gives up with the store's own error when the store does not answer for long", async () => {
    const { sim, a, hooks } = await rig({ timeout: 2000 });
    hooks.acquire = down;
    await expect(sim.until(a.acquire("x"), 4000)).rejects.toBeInstanceOf(UnavailableError);
    await expect(sim.until(a.acquire("x", { wait: 500 }), 600)).rejects.toBeInstanceOf(
      UnavailableError,
    );
    hooks.acquire = silent;
    await expect(sim.until(a.acquire("x"), 6000)).rejects.toBeInstanceOf(OutcomeUnknownError);
  });

  it("tells a store that is silent for all of its wait from one that says held (case 35)", async () => {
    const { sim, a, b, hooks } = await rig({ timeout: 5000 });
    hooks.acquire = silent;
    const unheard = sim.until(a.acquire("x", { wait: 500 }), 600);
    await expect(unheard).rejects.toThrow("acquire was not answered within 500 ms");
    await expect(unheard).rejects.toBeInstanceOf(OutcomeUnknownError);
    delete hooks.acquire;
    present(await b.tryAcquire("y"));
    const told = sim.until(a.acquire("y", { wait: 500 }), 600);
    await expect(told).rejects.toBeInstanceOf(NotAcquiredError);
  });

  it("gives up at once when asking again cannot help", async () => {
    const { sim, a, hooks, calls } = await rig();
    const error = new UnavailableError("wrong password", { retryable: false });
    hooks.acquire = () => Promise.reject(error);
    expect(await sim.until(a.acquire("x").catch((e: unknown) => e), 10)).toBe(error);
    expect(calls.length).toBe(1);
  });

  it("goes on after one call that was never answered, whatever time that took", async () => {
    const { sim, a, b, hooks } = await rig({ timeout: 2000 });
    const held = await b.acquire("x");
    let asked = 0;
    hooks.acquire = (next) => (asked++ === 0 ? silent() : next());
    const waiting = a.acquire("x", { wait: "1m" });
    await sim.advance(10_000);
    await held.release();
    expect((await sim.until(waiting, 1000)).state).toBe("held");
  });

  it("goes on through an outage shorter than the time-out", async () => {
    const { sim, a, hooks } = await rig({ timeout: 2000 });
    hooks.acquire = down;
    const waiting = a.acquire("x");
    await sim.advance(1000);
    delete hooks.acquire;
    expect((await sim.until(waiting, 2000)).state).toBe("held");
  });
});

describe("many waiters on one signal", () => {
  it("all end when it aborts, and share one listener", async () => {
    const { sim, store, a, b } = await rig();
    present(await a.tryAcquire("x"));
    const controller = new AbortController();
    let listeners = 0;
    const add = controller.signal.addEventListener.bind(controller.signal);
    controller.signal.addEventListener = (...args: Parameters<typeof add>) => {
      listeners++;
      add(...args);
    };
    const waiting = Array.from({ length: 50 }, () =>
      b.acquire("x", { signal: controller.signal }).catch((e: unknown) => e),
    );
    await sim.advance(10);
    controller.abort(new Error("shutdown"));
    expect(new Set(await sim.until(Promise.all(waiting)))).toEqual(
      new Set([controller.signal.reason]),
    );
    expect(listeners).toBe(1);
    await sim.settle();
    expect(store.inspect("x")).toMatchObject({ waiters: 0 });
  });
});

describe("release", () => {
  it("of an expired lease answers not-held in one round trip, and again without any (case 25)", async () => {
    const { sim, a, calls } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 100, renew: false }));
    await sim.advance(200);
    calls.length = 0;
    expect(await lease.release()).toBe("not-held");
    expect(await lease.release()).toBe("not-held");
    expect(calls.map(({ method }) => method)).toEqual(["release"]);
  });

  it("does not touch the next holder (case 26)", async () => {
    const { sim, store, a, b } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 100, renew: false }));
    await sim.advance(200);
    present(await b.tryAcquire("x", { ttl: 5000 }));
    const before = store.inspect("x");
    expect(await lease.release()).toBe("not-held");
    expect(store.inspect("x")).toEqual(before);
  });

  it("leaves a lease its own token after somebody took over (case 34)", async () => {
    const { sim, a, b } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: 100, renew: false }));
    const { token } = lease;
    await sim.advance(200);
    const next = present(await b.tryAcquire("x"));
    expect(lease.token).toBe(token);
    expect(next.token).toBeGreaterThan(token);
  });

  it("ends what a lease may do at once", async () => {
    const { a } = await rig();
    const lease = present(await a.tryAcquire("x"));
    const releasing = lease.release();
    expect(lease.state).toBe("released");
    expect(lease.remaining()).toBe(0);
    expect(() => lease.assertHeld()).toThrow(LeaseLostError);
    await releasing;
    await expect(lease.renew()).rejects.toBeInstanceOf(LeaseLostError);
  });

  it("says when somebody else had removed the record", async () => {
    const { sim, a, b } = await rig();
    const lease = present(await a.tryAcquire("x"));
    await b.break("x", { token: lease.token, reason: "test" });
    expect(await lease.release()).toBe("not-held");
    expect(sim.events.map(({ type }) => type)).toContain("removed");
  });
});
