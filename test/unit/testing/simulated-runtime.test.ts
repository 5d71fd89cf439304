import { describe, expect, it } from "vitest";
import { simulatedRuntime } from "../../../src/testing/simulated-runtime.js";

describe("simulated runtime", () => {
  it("fires timers at their moment, in order, with promises settled in between", async () => {
    const sim = simulatedRuntime({ seed: 1 });
    const { clock, timers } = sim.runtime;
    const startMs = clock.monotonicMs();
    const seen: string[] = [];
    const note = (what: string): void => void seen.push(`${what}@${clock.monotonicMs() - startMs}`);
    timers.after(20, () => note("b"));
    timers.after(20, () => note("c"));
    timers.after(10, () => {
      longChain(500, () => note("a"));
      timers.after(5, () => note("nested"));
    });
    timers.after(15, () => note("cancelled")).cancel();
    await sim.advance(30);
    expect(seen).toEqual(["a@10", "nested@15", "b@20", "c@20"]);
    expect(clock.monotonicMs() - startMs).toBe(30);
    expect(sim.pendingTimers()).toBe(0);
  });

  it("runs soon after promises, without time and without being asked", async () => {
    const sim = simulatedRuntime({ seed: 1 });
    const seen: string[] = [];
    const cancelled = sim.runtime.timers.soon(() => seen.push("cancelled"));
    await new Promise<void>((resolve) => {
      sim.runtime.timers.soon(() => {
        seen.push("soon");
        resolve();
      });
      longChain(100, () => seen.push("promise"));
      cancelled.cancel();
    });
    expect(seen).toEqual(["promise", "soon"]);
  });

  it("moves the right clocks for suspend, paused machine, set clock and blocked loop", async () => {
    const sim = simulatedRuntime({ seed: 1 });
    const { clock, timers } = sim.runtime;
    const read = (): number[] => [clock.monotonicMs(), clock.uptimeMs() ?? NaN, clock.wallMs()];
    const start = read();
    const since = (): number[] => read().map((ms, i) => ms - start[i]!);
    let firedAt: number[] = [];
    timers.after(50, () => (firedAt = since()));

    sim.suspend(1_000);
    expect(since()).toEqual([0, 1_000, 1_000]);
    sim.pauseVm(1_000);
    expect(since()).toEqual([0, 1_000, 2_000]);
    sim.jumpWall(-3_000);
    expect(since()).toEqual([0, 1_000, -1_000]);
    sim.runtime.pauses.start();
    sim.block(900);
    expect(since()).toEqual([900, 1_900, -100]);
    expect(firedAt).toEqual([]);
    await sim.settle();
    expect(firedAt).toEqual([900, 1_900, -100]);
    expect(sim.runtime.pauses.read().eventLoopMaxMs).toBe(900);
  });

  it("runs until a promise settles, and says when it does not", async () => {
    const sim = simulatedRuntime({ seed: 1 });
    const later = new Promise<string>((resolve) => {
      sim.runtime.timers.after(7_000, () => resolve("done"));
    });
    expect(await sim.until(later)).toBe("done");
    await expect(sim.until(new Promise(() => {}))).rejects.toThrow(/did not settle/);
  });

  it("repeats itself with the same seed and differs with another", () => {
    const draw = (seed: number): unknown[] => {
      const { random } = simulatedRuntime({ seed }).runtime;
      return [random.id(), random.uniform(), random.id()];
    };
    expect(draw(1)).toEqual(draw(1));
    expect(draw(1)).not.toEqual(draw(2));
    expect(draw(3)[0]).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
  });

  it("counts the timers that keep a process alive apart", () => {
    const sim = simulatedRuntime({ seed: 1 });
    sim.runtime.timers.after(2 ** 40, () => {}, { ref: false });
    sim.runtime.timers.after(1, () => {});
    expect([sim.pendingTimers(), sim.pendingTimers("ref")]).toEqual([2, 1]);
  });
});

/** Calls `end` after so many promise reactions. */
function longChain(turns: number, end: () => void): void {
  queueMicrotask(() => (turns === 0 ? end() : longChain(turns - 1, end)));
}
