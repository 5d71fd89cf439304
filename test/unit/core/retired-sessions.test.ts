import { describe, expect, it } from "vitest";
import type { Backend } from "../../../src/core/backend.js";
import {
  NotAcquiredError,
  OutcomeUnknownError,
  UnavailableError,
} from "../../../src/core/errors.js";
import type { Lease } from "../../../src/core/lease.js";
import { Tenure } from "../../../src/core/tenure.js";
import { simulatedRuntime } from "../../../src/testing/simulated-runtime.js";
import type { Simulation } from "../../../src/testing/simulated-runtime.js";
import { queueing, SessionStore } from "./models.js";
import { down, hooked, present } from "./rig.js";

const TTL_MS = 9000;

/** `a` is hooked and may find the way back from a keepalive long; `b` is another process. */
async function two(make: (store: SessionStore, sim: Simulation) => Backend = (s) => s.backend()) {
  const sim = simulatedRuntime({ seed: 7 });
  const store = new SessionStore(sim);
  const { backend, hooks } = hooked(make(store, sim));
  const keepAlives = { backMs: 0 };
  const slow: Backend = {
    ...backend,
    sessions: {
      ...backend.sessions!,
      keepAlive: async (...args) => {
        const answer = await backend.sessions!.keepAlive(...args);
        const { backMs } = keepAlives;
        if (backMs > 0) await new Promise<void>((go) => sim.runtime.timers.after(backMs, go));
        return answer;
      },
    },
  };
  const a = await Tenure.open(slow, sim.runtime);
  const b = await Tenure.open(store.backend(), sim.runtime);

  /** A record of `a` that nobody can delete for certain: a TTL later its session is retired. */
  const leaveBehind = async (name: string): Promise<void> => {
    hooks.acquire = async (next) => {
      await next();
      throw new OutcomeUnknownError("cut");
    };
    hooks.release = async (next, requests) =>
      requests.some((request) => request.name === name) ? down() : next();
    await expect(a.tryAcquire(name, { ttl: TTL_MS })).rejects.toBeInstanceOf(OutcomeUnknownError);
    delete hooks.acquire;
  };
  return { sim, store, a, b, hooks, keepAlives, leaveBehind };
}

/** A session that was retired over what it left behind lasts as long as its last lease. */
async function endsWith(last: Lease, world: Awaited<ReturnType<typeof two>>): Promise<void> {
  const { sim, store, b, leaveBehind } = world;
  await leaveBehind("x");
  await sim.advance(12_000);
  expect(store.records.has("x")).toBe(true);
  await last.release();
  await sim.settle();
  expect(await b.tryAcquire("x", { ttl: TTL_MS })).not.toBeNull();
}

describe("a session that takes nothing new", () => {
  it("ends at once, with what was left behind, where it carries no lease", async () => {
    const { sim, store, a, b, leaveBehind } = await two();
    await leaveBehind("x");
    await sim.advance(6000);
    // Which keeps the session alive for another TTL.
    await present(await a.tryAcquire("y", { ttl: TTL_MS })).release();
    await sim.advance(6000);
    expect(store.sessions.size).toBe(0);
    expect(await b.tryAcquire("x", { ttl: TTL_MS })).not.toBeNull();
  });

  it("is not taken by who was asking whether it lives when that came to light", async () => {
    const { sim, store, a, hooks, keepAlives, leaveBehind } = await two();
    present(await a.tryAcquire("other", { ttl: TTL_MS }));
    await leaveBehind("x");
    await sim.advance(8900);
    hooks.acquire = down;
    await expect(a.tryAcquire("z", { ttl: TTL_MS })).rejects.toBeInstanceOf(UnavailableError);
    delete hooks.acquire;
    const old = store.records.get("x")!.session;
    keepAlives.backMs = 2500;
    const asking = a.tryAcquire("y", { ttl: TTL_MS });
    expect(present(await sim.until(asking)).state).toBe("held");
    expect(store.records.get("x")?.session).toBe(old);
    expect(store.records.get("y")?.session).not.toBe(old);
  });

  it("ends with its last lease, though a grant under it came after its caller gave up", async () => {
    const world = await two();
    const { sim, store, a, hooks } = world;
    const other = present(await a.tryAcquire("other", { ttl: TTL_MS }));
    hooks.acquire = async (next) => {
      const answer = await next();
      await new Promise<void>((go) => sim.runtime.timers.after(500, go));
      return answer;
    };
    const late = a.acquire("late", { ttl: TTL_MS, wait: 100 });
    await expect(sim.until(late)).rejects.toThrow("not answered");
    await sim.advance(500);
    expect(store.records.has("late")).toBe(false);
    await endsWith(other, world);
  });

  it("ends with its last lease, though somebody waited in line under it in vain", async () => {
    const world = await two((store, sim) => queueing(sim, store, 0));
    const { sim, a, b } = world;
    const other = present(await a.tryAcquire("other", { ttl: TTL_MS }));
    const blocking = present(await b.tryAcquire("taken", { ttl: TTL_MS }));
    const waiting = a.acquire("taken", { ttl: TTL_MS, wait: 100 });
    await expect(sim.until(waiting)).rejects.toBeInstanceOf(NotAcquiredError);
    await endsWith(other, world);
    expect(blocking.state).toBe("held");
  });
});

it("a waiter of the same process tries at once when a lease is lost", async () => {
  const { sim, store, a } = await two();
  const lease = present(await a.tryAcquire("x", { ttl: TTL_MS }));
  const lost = new Promise((told) => lease.signal.addEventListener("abort", told));
  const waiting = a.acquire("x", { ttl: TTL_MS });
  await sim.advance(2000);
  store.records.delete("x");
  await sim.until(lost);
  expect((await sim.until(waiting, 5)).state).toBe("held");
});
