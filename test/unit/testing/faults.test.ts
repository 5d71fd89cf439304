import { describe, expect, it } from "vitest";
import { memoryBackend } from "../../../src/backends/memory/index.js";
import { OutcomeUnknownError, UnavailableError } from "../../../src/core/errors.js";
import { withFaults, type Fault, type FaultyBackend } from "../../../src/testing/faults.js";
import { simulatedRuntime, type Simulation } from "../../../src/testing/simulated-runtime.js";
import type { FencingToken } from "../../../src/core/token.js";

const request = { name: "n", holder: "a", ttlMs: 10_000 };

function set(fault: Fault): {
  sim: Simulation;
  faulty: FaultyBackend<FencingToken>;
  isHeld(): Promise<boolean>;
} {
  const sim = simulatedRuntime({ seed: 1 });
  const backend = memoryBackend({ runtime: sim.runtime });
  const faulty = withFaults(backend, sim.runtime.timers, ({ operation, nth }) =>
    operation === "acquire" && nth === 1 ? fault : undefined,
  );
  return { sim, faulty, isHeld: async () => (await backend.inspect("n", call())) !== null };
}

function call(signal = new AbortController().signal): { signal: AbortSignal; timeoutMs: number } {
  return { signal, timeoutMs: 1_000 };
}

describe("faults", () => {
  it.each([
    ["refuse", UnavailableError, false],
    ["lose-request", OutcomeUnknownError, false],
    ["lose-reply", OutcomeUnknownError, true],
  ] as const)("%s", async (kind, error, applied) => {
    const { faulty, isHeld } = set({ kind });
    await expect(faulty.acquire(request, call())).rejects.toBeInstanceOf(error);
    expect(await isHeld()).toBe(applied);
    await expect(faulty.acquire(request, call())).resolves.toHaveProperty("grant");
  });

  it.each([true, false])("hang, applied: %s, until the caller stops waiting", async (applied) => {
    const { sim, faulty, isHeld } = set({ kind: "hang", applied });
    const controller = new AbortController();
    let outcome: unknown;
    const answer = faulty.acquire(request, call(controller.signal)) as Promise<unknown>;
    answer.catch((error: unknown) => (outcome = error));
    await sim.advance(60_000);
    expect(outcome).toBeUndefined();
    controller.abort();
    await sim.settle();
    expect(outcome).toBeInstanceOf(OutcomeUnknownError);
    expect(await isHeld()).toBe(false);
    expect(sim.pendingTimers()).toBe(0);
  });

  it("delay: the request arrives although the caller has stopped waiting", async () => {
    const { sim, faulty, isHeld } = set({ kind: "delay", requestMs: 500 });
    const controller = new AbortController();
    const answer = faulty.acquire(request, call(controller.signal)) as Promise<unknown>;
    const outcome = answer.catch((error: unknown) => error);
    await sim.advance(100);
    controller.abort();
    expect(await outcome).toBeInstanceOf(OutcomeUnknownError);
    expect(await isHeld()).toBe(false);
    await sim.advance(400);
    expect(await isHeld()).toBe(true);
  });

  it("duplicate: the second copy arrives after a release, and is applied", async () => {
    const { sim, faulty, isHeld } = set({ kind: "duplicate", afterMs: 500 });
    await faulty.acquire(request, call());
    await faulty.release([request], call());
    expect(await isHeld()).toBe(false);
    await sim.advance(500);
    expect(await isHeld()).toBe(true);
  });

  it("shows manifest and storeId as they are once the backend was opened", async () => {
    const { runtime } = simulatedRuntime({ seed: 1 });
    const inner = memoryBackend({ runtime });
    const opening = {
      ...inner,
      storeId: "",
      async open() {
        opening.storeId = "opened";
        opening.manifest = { ...inner.manifest, tokens: "until-failover" };
      },
    };
    const faulty = withFaults(opening, runtime.timers);
    await faulty.open?.(call());
    expect([faulty.storeId, faulty.manifest.tokens]).toEqual(["opened", "until-failover"]);
  });

  it("keeps a list of all calls, and passes tickets through", async () => {
    const { sim, faulty } = set({ kind: "refuse" });
    const { waiting } = faulty;
    if (waiting.kind !== "queue") throw new Error("memory has a queue");
    const ticket = await waiting.enqueue(request, call());
    await sim.until(ticket.turn(new AbortController().signal));
    const [touched] = await waiting.touch([ticket], call());
    expect(touched).toMatchObject({ holder: "a" });
    await ticket.leave(call());
    expect(faulty.calls.map(({ operation }) => operation)).toEqual([
      "enqueue",
      "turn",
      "touch",
      "leave",
    ]);
    expect(faulty.calls[2]).toEqual({ operation: "touch", nth: 1, names: ["n"], holders: ["a"] });
  });
});
