import { describe, expect, it } from "vitest";
import { whenAborted } from "../../../src/core/aborting.js";
import { memoryBackend } from "../../../src/backends/memory/index.js";
import { MemoryStore } from "../../../src/backends/memory/store.js";
import { UnavailableError } from "../../../src/core/errors.js";
import { Tenure } from "../../../src/core/tenure.js";
import { simulatedRuntime } from "../../../src/testing/simulated-runtime.js";
import { notifying } from "./models.js";
import { present, rig } from "./rig.js";

/** Tokens as they are told, null for nobody, until the watch ends. */
function told(tenure: Tenure, name: string, signal?: AbortSignal) {
  const tokens: (bigint | null | undefined)[] = [];
  const ended = (async () => {
    const options = signal === undefined ? {} : { signal };
    for await (const state of tenure.watch(name, options)) {
      tokens.push(state === null ? null : state.token);
    }
    return "ended";
  })();
  // Most tests end before their watch does.
  ended.catch(() => undefined);
  return { tokens, ended };
}

describe("watch", () => {
  it("tells the present state first, and each change within a second", async () => {
    const { sim, a, b } = await rig();
    const { tokens } = told(a, "x");
    await sim.settle();
    expect(tokens).toEqual([null]);
    const first = present(await b.tryAcquire("x"));
    await sim.advance(1_000);
    await first.release();
    await sim.advance(1_000);
    const second = present(await b.tryAcquire("x"));
    await sim.advance(60_000);
    expect(tokens).toEqual([null, first.token, null, second.token]);
  });

  it("tells one holder from the next where the store hands out no tokens", async () => {
    const { sim, a, hooks } = await rig();
    let holder: string | undefined;
    hooks.inspect = async () => (holder === undefined ? null : { holder, why: "held" });
    const { tokens } = told(a, "x");
    for (const next of ["one", "two", undefined]) {
      await sim.advance(1_000);
      holder = next;
    }
    await sim.advance(1_000);
    expect(tokens).toEqual([null, undefined, undefined, null]);
  });

  it("ends when its signal aborts, and leaves no timer", async () => {
    const { sim, a } = await rig();
    const stop = new AbortController();
    const { tokens, ended } = told(a, "x", stop.signal);
    await sim.advance(5_000);
    stop.abort();
    expect(await sim.until(ended)).toBe("ended");
    expect(tokens).toEqual([null]);
    expect(sim.pendingTimers()).toBe(0);
  });

  it("ends with UnavailableError when the tenure is closed", async () => {
    const { sim, a } = await rig();
    const first = told(a, "x");
    await sim.settle();
    const late = a.watch("x");
    await sim.until(a.close());
    await expect(first.ended).rejects.toThrow(UnavailableError);
    await expect(late.next()).rejects.toThrow("closed");
    expect(() => a.watch("x")).toThrow("closed");
    expect(sim.pendingTimers()).toBe(0);
  });

  it("asks the store no more often for a hundred observers than for one", async () => {
    const { sim, a, calls } = await rig();
    const count = async (): Promise<number> => {
      calls.length = 0;
      await sim.advance(60_000);
      return calls.filter(({ method }) => method === "inspect").length;
    };
    const stop = new AbortController();
    const watches = [told(a, "x", stop.signal)];
    await sim.settle();
    const alone = await count();
    expect(alone).toBeLessThan(300);
    for (let i = 0; i < 99; i++) watches.push(told(a, "x", stop.signal));
    await sim.settle();
    const together = await count();
    expect(together).toBeLessThan(alone * 1.2);
    stop.abort();
    await Promise.all(watches.map(({ ended }) => ended));
    expect(new Set(watches.map(({ tokens }) => tokens.length))).toEqual(new Set([1]));
    expect(await count()).toBe(0);
  });

  it("gives a late observer a state that was read after it came", async () => {
    const { sim, a, b } = await rig();
    told(a, "x");
    await sim.advance(20_000);
    const lease = present(await b.tryAcquire("x"));
    const late = told(a, "x");
    await sim.settle();
    expect(late.tokens).toEqual([lease.token]);
    await a.close();
  });

  it("tells a slow observer the newest state alone", async () => {
    const { sim, a, b } = await rig();
    const slow = a.watch("x");
    expect((await slow.next()).value).toBeNull();
    let newest = 0n;
    for (let i = 0; i < 5; i++) {
      const lease = present(await b.tryAcquire("x"));
      newest = lease.token;
      await sim.advance(2_000);
      if (i < 4) await lease.release();
      await sim.advance(2_000);
    }
    expect((await slow.next()).value).toMatchObject({ token: newest });
    await slow.return();
    expect((await a.watch("x").next()).value).toMatchObject({ token: newest });
  });

  it("goes on over a store that is silent, and says so once", async () => {
    const { sim, a, b, hooks } = await rig();
    const { tokens } = told(a, "x");
    await sim.settle();
    hooks.inspect = () => new Promise(() => undefined);
    const lease = present(await b.tryAcquire("x"));
    await sim.advance(20_000);
    expect(tokens).toEqual([null]);
    delete hooks.inspect;
    await sim.advance(6_000);
    expect(tokens).toEqual([null, lease.token]);
    const said = sim.events.filter((e) => e.type === "unavailable" && e.during === "watch");
    expect(said).toHaveLength(1);
    await a.close();
  });

  it("is not blind for longer than two seconds after one lost answer", async () => {
    const { sim, a, b, hooks } = await rig();
    const { tokens } = told(a, "x");
    await sim.settle();
    let lost = 0;
    hooks.inspect = (next) => (lost++ === 0 ? new Promise(() => undefined) : next());
    const lease = present(await b.tryAcquire("x"));
    await sim.advance(2_000);
    expect(tokens).toEqual([null, lease.token]);
    await a.close();
  });

  it("rejects when asking again cannot help", async () => {
    const { sim, a, hooks } = await rig();
    const { ended } = told(a, "x");
    const seen = ended.catch((error: unknown) => error);
    await sim.settle();
    hooks.inspect = () => {
      throw new UnavailableError("corrupt", { retryable: false });
    };
    expect(await sim.until(seen)).toMatchObject({ message: "corrupt" });
    expect(sim.pendingTimers()).toBe(0);
  });

  it.each([
    ["heard", false, 1],
    ["lost", true, 1_000],
  ])("a release is told by a notice that is %s within %s ms", async (_, drops, withinMs) => {
    const sim = simulatedRuntime({ seed: 1 });
    const store = new MemoryStore({ runtime: sim.runtime });
    const listeners = new Map<string, Set<() => void>>();
    const backend = notifying(sim, store, listeners, () => drops);
    const a = await Tenure.open(backend, sim.runtime);
    const lease = present(await a.tryAcquire("x"));
    const stop = new AbortController();
    const { tokens, ended } = told(a, "x", stop.signal);
    await sim.advance(20_000);
    await lease.release();
    await sim.advance(withinMs);
    expect(tokens).toEqual([lease.token, null]);
    expect(listeners.get("x")?.size).toBe(1);
    stop.abort();
    await ended;
    await sim.settle();
    expect(listeners.get("x")?.size).toBe(0);
    await a.close();
  });

  it.each([
    ["name", (t: Tenure) => t.watch("")],
    ["signal", (t: Tenure) => t.watch("x", { signal: 1 as any })],
    ["singal", (t: Tenure) => t.watch("x", { singal: 1 } as any)],
  ])("refuses a wrong %s at once", async (option, call) => {
    const { a } = await rig();
    expect(() => call(a)).toThrow(option);
  });
});

describe("closing", () => {
  it("aborts before anything is given back", async () => {
    const sim = simulatedRuntime({ seed: 1 });
    const a = await Tenure.open(memoryBackend({ runtime: sim.runtime }), sim.runtime);
    const lease = present(await a.tryAcquire("x"));
    let stateThen: string | undefined;
    a.closing.addEventListener("abort", () => (stateThen = lease.state));
    await sim.until(a.close());
    expect([stateThen, lease.state]).toEqual(["held", "released"]);
    expect(a.closing.reason).toBeInstanceOf(UnavailableError);
  });
});

describe("whenAborted", () => {
  it("calls once, at once when the signal has aborted, and never after it was ended", () => {
    const stop = new AbortController();
    const seen: string[] = [];
    whenAborted(stop.signal, () => seen.push("a"));
    whenAborted(stop.signal, () => seen.push("b"))();
    stop.abort();
    whenAborted(stop.signal, () => seen.push("c"));
    expect(seen).toEqual(["a", "c"]);
  });
});
