import { describe, expect, it } from "vitest";
import { memoryBackend } from "../../../src/backends/memory/index.js";
import { memory, memoryStore } from "../../../src/backends/memory/open.js";
import { MemoryStore } from "../../../src/backends/memory/store.js";
import type { Backend, QueueWaiting } from "../../../src/core/backend.js";
import { simulatedRuntime } from "../../../src/testing/simulated-runtime.js";

const call = { signal: new AbortController().signal, timeoutMs: 1_000 };
const never = new AbortController().signal;

function queueOf(backend: Backend): QueueWaiting {
  if (backend.waiting.kind !== "queue") throw new Error("memory has a queue");
  return backend.waiting;
}

async function take(backend: Backend, name: string, holder: string, ttlMs = 30_000) {
  const answer = await backend.acquire({ name, holder, ttlMs }, call);
  if ("held" in answer) throw new Error(`${name} is held`);
  return answer.grant;
}

describe("memory", () => {
  it("seeds its tokens from the wall clock in microseconds", async () => {
    const sim = simulatedRuntime({ seed: 1 });
    const earlier = await take(memoryBackend({ runtime: sim.runtime }), "n", "a");
    expect(earlier.token).toBe(BigInt(sim.runtime.clock.wallMs()) * 1_000n);
    await sim.advance(1);
    const later = await take(memoryBackend({ runtime: sim.runtime }), "n", "a");
    expect(later.token).toBeGreaterThan(earlier.token);
  });

  it("promises less when its id is given, and so claims to be an earlier store", () => {
    const { runtime } = simulatedRuntime({ seed: 1 });
    expect(memoryBackend({ runtime }).manifest.tokens).toBe("durable");
    const named = memoryBackend({ runtime, storeId: "same" });
    expect([named.manifest.tokens, named.storeId]).toEqual(["until-failover", "same"]);
    const shared = memoryBackend({ runtime, store: new MemoryStore({ runtime, storeId: "same" }) });
    expect(shared.manifest.tokens).toBe("until-failover");
  });

  it("refuses wrong options, naming option and value", () => {
    const { runtime } = simulatedRuntime({ seed: 1 });
    const store = new MemoryStore({ runtime });
    expect(() => memoryBackend({ runtime, storeId: "" })).toThrow(/^storeId must be .*got ""/);
    expect(() => memoryBackend({ runtime, storeId: "a", store })).toThrow(/^storeId must be left/);
    expect(() => memoryBackend({ runtime, minTtlMs: 0 })).toThrow(/^minTtlMs must be .*got 0/);
    expect(() => memoryBackend({ runtime, maxTtlMs: 9 })).toThrow(/^maxTtlMs must be .*got 9/);
    expect(() => memoryBackend({ runtime, firstToken: 0n })).toThrow(RangeError);
  });

  it("shares a store on the real clock, and keeps stores apart otherwise", async () => {
    const store = memoryStore();
    const [a, b, other] = [memory({ store }), memory({ store }), memory()];
    await take(a, "n", "a");
    expect(await b.acquire({ name: "n", holder: "b", ttlMs: 1_000 }, call)).toHaveProperty("held");
    await take(other, "n", "b");
    expect(a.storeId).toBe(b.storeId);
    expect(other.storeId).not.toBe(a.storeId);
  });

  it("sets timers only while somebody waits, and none that keep the process alive", async () => {
    const sim = simulatedRuntime({ seed: 1 });
    const backend = memoryBackend({ runtime: sim.runtime });
    const grant = await take(backend, "n", "a");
    await backend.renew([grant], call);
    expect(sim.pendingTimers()).toBe(0);
    const ticket = await queueOf(backend).enqueue({ name: "n", holder: "b", ttlMs: 1_000 }, call);
    expect([sim.pendingTimers(), sim.pendingTimers("ref")]).toEqual([2, 0]);
    await ticket.leave(call);
    expect(sim.pendingTimers()).toBe(0);
  });

  it("ends all waiting when its store is closed", async () => {
    const sim = simulatedRuntime({ seed: 1 });
    const backend = memoryBackend({ runtime: sim.runtime });
    await take(backend, "n", "a");
    const ticket = await queueOf(backend).enqueue({ name: "n", holder: "b", ttlMs: 1_000 }, call);
    const turn = ticket.turn(never);
    await backend.close();
    expect(await turn).toBe("gone");
    expect(sim.pendingTimers()).toBe(0);
  });

  it("forgets waiters that went silent", async () => {
    const sim = simulatedRuntime({ seed: 1 });
    const backend = memoryBackend({ runtime: sim.runtime });
    await take(backend, "n", "a", 3_600_000);
    const ticket = await queueOf(backend).enqueue({ name: "n", holder: "b", ttlMs: 1_000 }, call);
    await sim.advance(10_000);
    expect(await queueOf(backend).touch([ticket], call)).toEqual(["gone"]);
    expect((await backend.inspect("n", call))?.waiters).toBe(0);
    expect(sim.pendingTimers()).toBe(0);
  });

  it("does not hold a blocked event loop against its waiters", async () => {
    const sim = simulatedRuntime({ seed: 1 });
    const backend = memoryBackend({ runtime: sim.runtime });
    await take(backend, "n", "a", 3_600_000);
    const ticket = await queueOf(backend).enqueue({ name: "n", holder: "b", ttlMs: 1_000 }, call);
    for (let i = 0; i < 10; i++) {
      sim.block(60_000);
      await sim.settle();
      expect(await queueOf(backend).touch([ticket], call)).toEqual(["waiting"]);
    }
  });

  it("hands over at expiry to the waiter, not to the newcomer of the same moment", async () => {
    const sim = simulatedRuntime({ seed: 1 });
    const backend = memoryBackend({ runtime: sim.runtime });
    await take(backend, "n", "a", 1_000);
    const ticket = await queueOf(backend).enqueue({ name: "n", holder: "b", ttlMs: 1_000 }, call);
    const turn = ticket.turn(never);
    // 1. The loop is blocked beyond the expiry. 2. A newcomer asks before the timer has fired.
    sim.block(2_000);
    const answer = await backend.acquire({ name: "n", holder: "c", ttlMs: 1_000 }, call);
    expect(answer).toMatchObject({ held: { holder: "b" } });
    expect(await turn).toMatchObject({ holder: "b" });
  });

  it("does not keep the records of names that nobody looks at again", async () => {
    const sim = simulatedRuntime({ seed: 1 });
    const store = new MemoryStore({ runtime: sim.runtime });
    for (let i = 0; i < 20_000; i++) {
      store.acquire({ name: `n${i}`, holder: "a", ttlMs: 1_000 });
      if (i % 100 === 0) sim.block(100);
    }
    // Each lives for 1,000 names' time; what is kept is bounded by a few times that.
    expect(store.size).toBeLessThan(4_000);
  });

  it("serves a long line in order", async () => {
    const sim = simulatedRuntime({ seed: 1 });
    const backend = memoryBackend({ runtime: sim.runtime });
    const waiters = 5_000;
    let held = await take(backend, "n", "first");
    const turns = [];
    for (let i = 0; i < waiters; i++) {
      const request = { name: "n", holder: `w${i}`, ttlMs: 1_000 };
      const ticket = await queueOf(backend).enqueue(request, call);
      turns.push(ticket.turn(new AbortController().signal));
    }
    for (let i = 0; i < waiters; i++) {
      await backend.release([held], call);
      const offer = await turns[i]!;
      expect(offer).toMatchObject({ holder: `w${i}` });
      if (offer === "gone") throw new Error("gone");
      expect(offer.token).toBe(held.token + 1n);
      await backend.renew([offer], call);
      held = offer;
    }
  });

  it("gives up an offer when its waiter leaves, and no lease; an offer proves nothing", () => {
    const { runtime } = simulatedRuntime({ seed: 1 });
    const store = new MemoryStore({ runtime });
    store.enqueue({ name: "x", holder: "one", ttlMs: 1000 });
    const token = store.inspect("x")!.token!;
    expect(store.holds("x", "one", token)).toBe(false);
    store.acquire({ name: "x", holder: "one", ttlMs: 1000 });
    expect(store.holds("x", "one", token)).toBe(true);
    store.leave("x", "one");
    expect(store.holds("x", "one", token)).toBe(true);
    store.enqueue({ name: "y", holder: "two", ttlMs: 1000 });
    store.leave("y", "two");
    expect(store.inspect("y")).toBeNull();
  });
});
