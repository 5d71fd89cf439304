import { describe, expect, it } from "vitest";
import type { AcquireRequest } from "../../../src/core/backend.js";
import type { Timers } from "../../../src/core/clock.js";
import { GuaranteeError, OutcomeUnknownError, UnavailableError } from "../../../src/core/errors.js";
import { Tenure } from "../../../src/core/tenure.js";
import { simulatedRuntime } from "../../../src/testing/simulated-runtime.js";
import { queueing, SessionStore } from "./models.js";
import { hooked, present } from "./rig.js";

async function two() {
  const sim = simulatedRuntime({ seed: 7 });
  const store = new SessionStore(sim);
  const { backend, hooks, calls } = hooked(store.backend());
  const keepAlives = { count: 0, fail: false, closeFails: false, isLost: false, backMs: 0 };
  const travel = async (): Promise<void> => {
    const { backMs } = keepAlives;
    if (backMs > 0) await new Promise<void>((go) => sim.runtime.timers.after(backMs, go));
  };
  const inner = backend.sessions!;
  const counted = {
    ...backend,
    sessions: {
      ...inner,
      open: async (...args: Parameters<typeof inner.open>) => {
        const opened = await inner.open(...args);
        await travel();
        if (keepAlives.isLost) throw new OutcomeUnknownError("the answer is lost");
        return opened;
      },
      keepAlive: async (...args: Parameters<typeof inner.keepAlive>) => {
        keepAlives.count++;
        if (keepAlives.fail) throw new UnavailableError("down");
        if (keepAlives.isLost) throw new OutcomeUnknownError("the answer is lost");
        const answer = await inner.keepAlive(...args);
        await travel();
        return answer;
      },
      close: async (...args: Parameters<typeof inner.close>) => {
        if (keepAlives.closeFails) throw new UnavailableError("down");
        return inner.close(...args);
      },
    },
  };
  const a = await Tenure.open(counted, sim.runtime);
  const b = await Tenure.open(store.backend(), sim.runtime);
  return { sim, store, a, b, hooks, calls, keepAlives };
}

describe("on a store with sessions", () => {
  it("one session per TTL carries all leases, kept alive once per interval", async () => {
    const { sim, store, a, keepAlives } = await two();
    for (let i = 0; i < 20; i++) present(await a.tryAcquire(`x${i}`, { ttl: 9000 }));
    present(await a.tryAcquire("other", { ttl: 6000 }));
    expect(store.sessions.size).toBe(2);
    await sim.advance(18_000);
    expect(keepAlives.count).toBeLessThanOrEqual(8 + 11 + 4);
    await a.close();
    expect(store.sessions.size).toBe(0);
  });

  it("the deadline counts from the last answered keepalive, not from the record", async () => {
    const { sim, a, keepAlives } = await two();
    const first = present(await a.tryAcquire("x", { ttl: 9000 }));
    keepAlives.fail = true;
    await sim.advance(2900);
    const late = present(await a.tryAcquire("y", { ttl: 9000 }));
    expect(late.remaining()).toBeLessThanOrEqual(9000 - 2900);
    await sim.advance(6200);
    expect(first.state).toBe("lost");
    expect(late.state).toBe("lost");
  });

  it("a renewal counts from the sending of its keepalive, however late the answer", async () => {
    const { sim, a, keepAlives } = await two();
    const lease = present(await a.tryAcquire("x", { ttl: 9000 }));
    keepAlives.backMs = 1000;
    await sim.advance(1000);
    await sim.until(lease.renew());
    expect(lease.remaining()).toBeLessThanOrEqual(9000 - 1000);
  });

  it("a grant counts from the sending of what opened its session, or kept it alive", async () => {
    const { sim, a, keepAlives } = await two();
    keepAlives.backMs = 1000;
    const first = present(await sim.until(a.tryAcquire("x", { ttl: 9000, renew: false })));
    expect(first.remaining()).toBeLessThanOrEqual(9000 - 1000);
    await sim.advance(3000);
    const second = present(await sim.until(a.tryAcquire("y", { ttl: 9000, renew: false })));
    expect(second.remaining()).toBeLessThanOrEqual(9000 - 1000);
    expect(second.remaining()).toBeGreaterThan(7000);
  });

  it.each([1000, 60_000])("a waiter's session is kept alive, at a touch each %i ms", async (ms) => {
    const sim = simulatedRuntime({ seed: 7 });
    const store = new SessionStore(sim);
    const backend = queueing(sim, store, 0, ms);
    const a = await Tenure.open(backend, sim.runtime);
    const b = await Tenure.open(store.backend(), sim.runtime);
    const blocking = present(await b.tryAcquire("x", { ttl: 9000 }));
    const waiting = a.acquire("x", { ttl: 9000 });
    await sim.advance(10);
    const [, own] = [...store.sessions.keys()];
    await sim.advance(60_000);
    expect(store.sessions.has(own!)).toBe(true);
    await blocking.release();
    expect((await sim.until(waiting, 4000)).state).toBe("held");
  });

  it("a waiter whose session has ended queues anew", async () => {
    const sim = simulatedRuntime({ seed: 7 });
    const store = new SessionStore(sim);
    const a = await Tenure.open(queueing(sim, store, 0), sim.runtime);
    const b = await Tenure.open(store.backend(), sim.runtime);
    const blocking = present(await b.tryAcquire("x", { ttl: 9000 }));
    const waiting = a.acquire("x", { ttl: 9000 });
    await sim.advance(10);
    const [, own] = [...store.sessions.keys()];
    store.sessions.delete(own!);
    await sim.advance(3000);
    await blocking.release();
    expect((await sim.until(waiting, 4000)).state).toBe("held");
  });

  it("so does that of an offer, which may have come long after the keepalive", async () => {
    const sim = simulatedRuntime({ seed: 7 });
    const store = new SessionStore(sim);
    const a = await Tenure.open(queueing(sim, store, 2000), sim.runtime);
    const b = await Tenure.open(store.backend(), sim.runtime);
    const blocking = present(await b.tryAcquire("x", { ttl: 9000 }));
    const waiting = a.acquire("x", { ttl: 9000 });
    await sim.advance(500);
    await blocking.release();
    const lease = await sim.until(waiting);
    expect(lease.remaining()).toBeLessThanOrEqual(9000 - 2000);
    expect(lease.remaining()).toBeGreaterThan(6000);
  });

  it("asks for the session after an attempt that failed: it may have ended unseen", async () => {
    const { sim, store, a } = await two();
    present(await a.tryAcquire("x", { ttl: 9000 }));
    store.sessions.clear();
    await expect(a.tryAcquire("y", { ttl: 9000 })).rejects.toThrow(/no such session/);
    expect(present(await a.tryAcquire("y", { ttl: 9000 })).remaining()).toBeGreaterThan(8000);
    expect(store.sessions.size).toBe(1);
    await sim.advance(3100);
    expect(await a.inspect("y")).not.toBeNull();
    await a.close();
  });

  it("nothing was acquired where the answer for the session is lost, which is certain", async () => {
    const { sim, a, keepAlives, calls } = await two();
    keepAlives.isLost = true;
    await expect(a.tryAcquire("x", { ttl: 9000 })).rejects.toThrow(UnavailableError);
    keepAlives.isLost = false;
    const lease = present(await a.tryAcquire("x", { ttl: 9000 }));
    await lease.release();
    // No longer fresh, so that the store is asked whether the session lives.
    await sim.advance(4000);
    keepAlives.isLost = true;
    const acquires = () => calls.filter(({ method }) => method === "acquire").length;
    const before = acquires();
    await expect(a.tryAcquire("x", { ttl: 9000 })).rejects.toThrow(UnavailableError);
    expect([before, acquires()]).toEqual([1, 1]);
  });

  it("takes back what a failed release left, though others keep the session alive", async () => {
    const { sim, a, b, hooks } = await two();
    const lease = present(await a.tryAcquire("x", { ttl: 9000 }));
    present(await a.tryAcquire("y", { ttl: 9000 }));
    hooks.release = () => Promise.reject(new OutcomeUnknownError("lost"));
    await expect(lease.release()).rejects.toThrow("lost");
    delete hooks.release;
    await sim.advance(9000);
    expect((await b.tryAcquire("x", { ttl: 9000 }))?.state).toBe("held");
    expect((await a.inspect("y"))?.holder).toBeDefined();
  });

  it("takes back what a copy of an old acquire was granted, once it stands in the way", async () => {
    const { sim, store, a, b } = await two();
    const lease = present(await a.tryAcquire("x", { ttl: 9000 }));
    present(await a.tryAcquire("y", { ttl: 9000 }));
    const copy = store.records.get("x")!;
    await lease.release();
    store.records.set("x", { ...copy, session: [...store.sessions.keys()][0]! });
    const other = present(await b.tryAcquire("other", { ttl: 9000 }));
    expect(await b.tryAcquire("x", { ttl: 9000 })).toBeNull();
    // Another session of this process: its own would be granted its own record again.
    expect(await a.tryAcquire("x", { ttl: 8000 })).toBeNull();
    await sim.advance(100);
    expect((await b.tryAcquire("x", { ttl: 9000 }))?.state).toBe("held");
    expect(other.state).toBe("held");
  });

  it.each<[string, (a: Tenure, timers: Timers) => Promise<unknown>]>([
    ["a try", (a) => a.tryAcquire("x", { ttl: 9000 })],
    ["a wait that ended", (a) => a.acquire("x", { ttl: 9000, wait: 50 })],
    [
      "a wait that was aborted",
      (a, timers) => {
        const controller = new AbortController();
        timers.after(50, () => controller.abort());
        return a.acquire("x", { ttl: 9000, signal: controller.signal });
      },
    ],
  ])("takes back what a copy of %s was granted, though it had been refused", async (_, ask) => {
    const { sim, store, a, b, hooks } = await two();
    const asked: AcquireRequest[] = [];
    hooks.acquire = (next, request) => {
      asked.push(request);
      return next();
    };
    const blocking = present(await b.tryAcquire("x", { ttl: 9000 }));
    present(await a.tryAcquire("y", { ttl: 9000 }));
    const refused = ask(a, sim.runtime.timers).catch(() => null);
    await sim.advance(1000);
    expect(await refused).toBeNull();
    await blocking.release();
    const copy = asked.find(({ name }) => name === "x")!;
    await store.backend().acquire(copy, { timeoutMs: 1000, signal: new AbortController().signal });
    expect(store.records.get("x")?.holder).toBe(copy.holder);
    // Another session of this process: its own would be granted its own record again.
    expect(await a.tryAcquire("x", { ttl: 8000 })).toBeNull();
    await sim.advance(100);
    expect((await b.tryAcquire("x", { ttl: 9000 }))?.state).toBe("held");
  });

  it("takes no session whose time is over, though the store still calls it alive", async () => {
    const { sim, store, a, keepAlives } = await two();
    await present(await a.tryAcquire("x", { ttl: 9000 })).release();
    const [old] = store.sessions.keys();
    store.sessions.get(old!)!.untilMs += 9000;
    await sim.advance(9000);
    expect(store.sessions.has(old!)).toBe(true);
    const lease = present(await a.tryAcquire("x", { ttl: 9000 }));
    expect(lease.remaining()).toBeGreaterThan(8000);
    expect(keepAlives.count).toBe(0);
    expect(store.sessions.size).toBe(2);
    await a.close();
    expect([...store.sessions.keys()]).toEqual([old]);
  });

  it("a keepalive alone is no renewal: a deleted record is noticed (case 5)", async () => {
    const { sim, store, a } = await two();
    const lease = present(await a.tryAcquire("x", { ttl: 9000 }));
    store.records.delete("x");
    await sim.advance(3100);
    expect(lease.state).toBe("lost");
    expect(lease.signal.reason).toMatchObject({ reason: "absent" });
  });

  it("the end of a session ends all that it carried, and later leases get a new one", async () => {
    const { sim, store, a } = await two();
    const leases = [
      present(await a.tryAcquire("x", { ttl: 9000 })),
      present(await a.tryAcquire("y", { ttl: 9000 })),
    ];
    const [id] = store.sessions.keys();
    store.sessions.delete(id!);
    await sim.advance(3100);
    expect(leases.map(({ state }) => state)).toEqual(["lost", "lost"]);
    expect(leases[0]!.signal.reason).toMatchObject({ reason: "session" });
    const next = present(await a.tryAcquire("x", { ttl: 9000 }));
    expect(next.token).toBeGreaterThan(leases[0]!.token);
  });

  it("a name is granted once per process, though the store would grant its session twice", async () => {
    const { sim, a } = await two();
    const first = present(await a.tryAcquire("x", { ttl: 9000 }));
    expect(await a.tryAcquire("x", { ttl: 9000 })).toBeNull();
    const waiting = a.acquire("x", { ttl: 9000 });
    await sim.advance(20_000);
    expect(first.state).toBe("held");
    await first.release();
    expect((await sim.until(waiting, 5)).token).toBeGreaterThan(first.token);
  });

  it("a record that a lost reply left behind is deleted under the living session", async () => {
    const { sim, store, a, b, hooks } = await two();
    present(await a.tryAcquire("other", { ttl: 9000 }));
    hooks.acquire = async (next) => {
      await next();
      throw new OutcomeUnknownError("cut");
    };
    await expect(a.tryAcquire("x", { ttl: 9000 })).rejects.toBeInstanceOf(OutcomeUnknownError);
    await sim.settle();
    expect(store.records.has("x")).toBe(false);
    expect(await b.tryAcquire("x", { ttl: 9000 })).not.toBeNull();
  });

  it("where that cannot be made certain the session takes nothing new and ends with its last lease", async () => {
    const { sim, store, a, b, hooks } = await two();
    const other = present(await a.tryAcquire("other", { ttl: 9000 }));
    hooks.acquire = async (next) => {
      await next();
      throw new OutcomeUnknownError("cut");
    };
    hooks.release = async () => {
      throw new UnavailableError("down");
    };
    await expect(a.tryAcquire("x", { ttl: 9000 })).rejects.toBeInstanceOf(OutcomeUnknownError);
    await sim.advance(12_000);
    expect(other.state).toBe("held");
    expect(store.records.has("x")).toBe(true);
    delete hooks.acquire;
    delete hooks.release;
    await other.release();
    await sim.settle();
    expect(store.records.has("x")).toBe(false);
    expect(await b.tryAcquire("x", { ttl: 9000 })).not.toBeNull();
  });

  it("a session that cannot be closed, with a store that is gone, is left to its TTL", async () => {
    const { sim, store, a, hooks, keepAlives } = await two();
    const down = async (): Promise<never> => {
      throw new UnavailableError("down");
    };
    hooks.acquire = async (next) => {
      await next();
      throw new OutcomeUnknownError("cut");
    };
    hooks.release = down;
    keepAlives.closeFails = true;
    await expect(a.tryAcquire("x", { ttl: 9000 })).rejects.toBeInstanceOf(OutcomeUnknownError);
    // Nobody awaits the closing: a rejection would be nobody's.
    await sim.advance(12_000);
    expect(store.sessions.size).toBe(1);
  });

  it("a lease that was held too long is taken back although its session lives on", async () => {
    const { sim, store, a } = await two();
    present(await a.tryAcquire("keeper", { ttl: 9000 }));
    const lease = present(await a.tryAcquire("x", { ttl: 9000, maxHold: 4000 }));
    await sim.advance(4100);
    expect(lease.state).toBe("lost");
    expect(store.records.has("x")).toBe(false);
    expect(store.records.has("keeper")).toBe(true);
  });

  it("a lease that was not renewed before its deadline is taken back, too", async () => {
    const { sim, store, a } = await two();
    present(await a.tryAcquire("keeper", { ttl: 9000 }));
    const lease = present(await a.tryAcquire("x", { ttl: 9000, renew: false }));
    await sim.advance(9100);
    expect(lease.state).toBe("lost");
    await sim.settle();
    expect(store.records.has("x")).toBe(false);
    expect(store.records.has("keeper")).toBe(true);
  });

  it("leases cannot be handed to another process", async () => {
    const { a } = await two();
    const lease = present(await a.tryAcquire("x", { ttl: 9000 }));
    expect(() => a.detach(lease)).toThrow(GuaranteeError);
    await expect(a.adopt(lease)).rejects.toBeInstanceOf(GuaranteeError);
    expect(lease.state).toBe("held");
    expect(lease.signal.aborted).toBe(false);
  });
});
