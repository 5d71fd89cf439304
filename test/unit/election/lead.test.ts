import { AsyncLocalStorage } from "node:async_hooks";
import { describe, expect, it } from "vitest";
import {
  NotLeaderError,
  StepDownTimeoutError,
  UnavailableError,
} from "../../../src/core/errors.js";
import type { EventSink } from "../../../src/core/events.js";
import type { Leadership } from "../../../src/election/term.js";
import { gate, present } from "../core/rig.js";
import { aborted, cut, heal, race, stores, terms, until } from "./candidates.js";

/** Leads until it is told to stop. */
const obedient = async (term: Leadership): Promise<string> => {
  await aborted(term.signal);
  return "stopped";
};

describe.each(Object.keys(stores))("lead, on a store that %s", (kind) => {
  it("answers what the work answers, and has resigned then", async () => {
    const { sim, candidates } = await race(kind, 2);
    const [a, b] = candidates;
    const seen: Leadership[] = [];
    const work = (term: Leadership): number => seen.push(term) * 7;
    expect(await sim.until(a!.election.lead(work))).toBe(7);
    expect(await b!.election.leader()).toBeNull();
    expect(terms(sim.events)).toEqual([
      `elected ${seen[0]!.term}`,
      `revoked ${seen[0]!.term} resigned`,
    ]);
    expect(sim.pendingTimers()).toBe(0);
  });

  it("begins no work of a term that was revoked before it", async () => {
    const { sim, candidates } = await race(kind, 1);
    const { events } = sim.runtime as { events: EventSink };
    const stop = new AbortController();
    const tell = events.publish.bind(events);
    events.publish = (event) => {
      tell(event);
      if (event.type === "elected") stop.abort(new Error("enough"));
    };
    let ran = 0;
    const leading = candidates[0]!.election.lead(() => void ran++, stop).catch((e: unknown) => e);
    expect(await sim.until(leading)).toMatchObject({ message: "enough" });
    expect(ran).toBe(0);
    expect(await candidates[0]!.election.leader()).toBeNull();
  });

  it("rejects with the work's own error, and has resigned then", async () => {
    const { sim, candidates } = await race(kind, 1);
    const own = new UnavailableError("the work's own store is down");
    const leading = candidates[0]!.election
      .lead(() => Promise.reject(own))
      .catch((e: unknown) => e);
    expect(await sim.until(leading)).toBe(own);
    expect(await candidates[0]!.election.leader()).toBeNull();
  });

  it("stands again after it was cut off, behind the other, and can lead later (case 44)", async () => {
    const { sim, candidates } = await race(kind, 2);
    const [a, b] = candidates;
    const led: string[] = [];
    const stop = new AbortController();
    const working = (who: string) => async (term: Leadership) => {
      led.push(who);
      await aborted(term.signal);
    };
    const both = [a!.election.lead(working("a"), stop)];
    await until(sim, "a leads", () => led.length === 1);
    both.push(b!.election.lead(working("b"), stop));
    await sim.advance(3_000);
    expect(led).toEqual(["a"]);
    cut(a!);
    const cutMs = sim.runtime.clock.monotonicMs();
    await until(sim, "b leads", () => led.length === 2);
    expect(sim.runtime.clock.monotonicMs() - cutMs).toBeLessThan(2_000);
    await sim.advance(30_000);
    heal(a!);
    await sim.advance(30_000);
    expect(led).toEqual(["a", "b"]);
    cut(b!);
    await until(sim, "a leads again", () => led.length === 3);
    expect(led).toEqual(["a", "b", "a"]);
    heal(b!);
    stop.abort(new Error("enough"));
    await sim.until(Promise.allSettled(both));
    expect(await a!.election.leader()).toBeNull();
  });

  it("that resigns goes to the back, and each of three has its turn", async () => {
    const { sim, candidates } = await race(kind, 3);
    const led: string[] = [];
    const stop = new AbortController();
    const all = candidates.map(({ election }, i) =>
      election.lead(async (term) => {
        led.push(String(i));
        const rest = gate();
        sim.runtime.timers.after(5_000, () => rest.open());
        await rest.promise;
        await term.resign();
      }, stop),
    );
    while (led.length < 30) await sim.advance(1_000);
    stop.abort(new Error("enough"));
    await sim.until(Promise.allSettled(all));
    // Without an order in the store the other two draw lots for each term.
    const fewest = kind === "queues" ? 10 : 5;
    for (const who of ["0", "1", "2"]) {
      expect(led.slice(0, 30).filter((one) => one === who).length).toBeGreaterThanOrEqual(fewest);
    }
    for (let i = 1; i < led.length; i++) expect(led[i]).not.toBe(led[i - 1]);
  });

  it("leaves nothing, at whatever step its signal aborts or its tenure closes", async () => {
    const reason = new Error("enough");
    for (const how of ["abort", "close"]) {
      for (let step = 0; step < 60; step++) {
        const { sim, candidates } = await race(kind, 2);
        const [a, b] = candidates;
        const held = present(await b!.tenure.tryAcquire("lead"));
        const stop = new AbortController();
        const leading = a!.election.lead(obedient, { signal: stop.signal });
        const outcome = leading.catch((e: unknown) => e);
        await sim.settle();
        void held.release();
        for (let i = 0; i < step; i++) await Promise.resolve();
        if (how === "abort") stop.abort(reason);
        else void a!.tenure.close();
        const ended = await sim.until(outcome);
        if (ended !== "stopped") {
          if (how === "abort") expect(ended).toBe(reason);
          else expect(ended).toBeInstanceOf(UnavailableError);
        }
        await sim.advance(100);
        expect(await b!.election.leader(), `${how} at step ${step}`).toBeNull();
        await Promise.all(candidates.map(({ tenure }) => tenure.close()));
        expect(sim.pendingTimers(), `${how} at step ${step}`).toBe(0);
      }
    }
  });
});

describe("lead", () => {
  it("aborts the work the grace before the deadline, and awaits its end", async () => {
    const { sim, candidates } = await race("queues", 1);
    const [a] = candidates;
    const at: Record<string, number> = {};
    const nowMs = (): number => sim.runtime.clock.monotonicMs();
    const leading = a!.election.lead(
      async (term) => {
        at["begun"] ??= nowMs();
        await aborted(term.signal);
        at["aborted"] ??= nowMs();
        at["left"] ??= term.remaining();
        const rest = gate();
        sim.runtime.timers.after(50, () => rest.open());
        await rest.promise;
        at["ended"] ??= nowMs();
        return "never a result: the term was lost";
      },
      { stepDown: 60 },
    );
    await until(sim, "leading", () => at["begun"] !== undefined);
    cut(a!);
    await until(sim, "ended", () => at["ended"] !== undefined);
    expect(at["aborted"]! - at["begun"]!).toBeLessThanOrEqual(900);
    expect(at["left"]).toBeGreaterThan(90);
    heal(a!);
    await sim.advance(10_000);
    expect(terms(sim.events).filter((e) => e.startsWith("elected"))).toHaveLength(2);
    await sim.until(a!.tenure.close());
    expect(await sim.until(leading)).toBe("never a result: the term was lost");
  });

  it("does not stand while a work runs that has time left to stop", async () => {
    const { sim, candidates } = await race("queues", 1);
    let running = 0;
    let most = 0;
    let runs = 0;
    const leading = candidates[0]!.election.lead(
      async (term) => {
        most = Math.max(most, ++running);
        if (++runs === 3) return "done";
        await aborted(term.signal);
        const rest = gate();
        sim.runtime.timers.after(5_000, () => rest.open());
        await rest.promise;
        running -= 1;
        return "lost";
      },
      { stepDown: "1m" },
    );
    for (const expected of [1, 2]) {
      await until(sim, "leading", () => runs === expected);
      sim.block(2_000);
    }
    expect(await sim.until(leading)).toBe("done");
    expect(most).toBe(1);
  });

  it.each([
    ["the grace, by default", undefined, 100],
    ["what was said", 3_000, 3_000],
    ["nothing", 0, 0],
  ])("gives a work that ignores its signal %s", async (_, stepDown, expectedMs) => {
    const { sim, candidates } = await race("queues", 2);
    const [a, b] = candidates;
    const never = gate();
    const begun: bigint[] = [];
    const options = stepDown === undefined ? {} : { stepDown };
    let revokedMs = 0;
    const leading = a!.election
      .lead(async (term) => {
        begun.push(term.term);
        term.signal.addEventListener("abort", () => (revokedMs = sim.runtime.clock.monotonicMs()));
        await never.promise;
      }, options)
      .catch((error: unknown) => error);
    await until(sim, "leading", () => begun.length === 1);
    a!.faults.plan = ({ operation }) => (operation === "renew" ? { kind: "refuse" } : undefined);
    const before = a!.faults.calls.filter(({ operation }) => operation === "release").length;
    const error = await sim.until(leading);
    expect(error).toBeInstanceOf(StepDownTimeoutError);
    expect(error).toMatchObject({ term: begun[0], lock: "lead", cause: { reason: "deadline" } });
    expect(sim.runtime.clock.monotonicMs() - revokedMs).toBeCloseTo(expectedMs, -1);
    await sim.advance(20_000);
    const releases = a!.faults.calls.filter(({ operation }) => operation === "release").length;
    expect(releases).toBe(before);
    expect(begun).toHaveLength(1);
    const next = await sim.until(b!.election.campaign());
    expect(next.term > begun[0]!).toBe(true);
    never.open();
    await sim.advance(1_000);
    next.assertLeading();
  });

  it("keeps the lease of a work that is slow to follow the caller's signal", async () => {
    const { sim, candidates } = await race("queues", 2);
    const [a, b] = candidates;
    const slow = gate();
    const stop = new AbortController();
    const reason = new Error("shutdown");
    let term: Leadership | undefined;
    const leading = a!.election.lead(
      async (mine) => {
        term = mine;
        await slow.promise;
        return "done";
      },
      { signal: stop.signal, stepDown: "1m" },
    );
    await until(sim, "leading", () => term !== undefined);
    stop.abort(reason);
    expect(term!.signal.reason).toBe(reason);
    expect(() => term!.assertLeading()).toThrow(NotLeaderError);
    await sim.advance(30_000);
    expect(await b!.election.leader()).toMatchObject({ term: term!.term });
    slow.open();
    expect(await sim.until(leading)).toBe("done");
    expect(await b!.election.leader()).toBeNull();
  });

  it("stops its work when its tenure closes; closing awaits it", async () => {
    const { sim, candidates } = await race("queues", 2);
    const [a, b] = candidates;
    const steps: string[] = [];
    const leading = a!.election.lead(async ({ signal }) => {
      await aborted(signal);
      const rest = gate();
      sim.runtime.timers.after(80, () => rest.open());
      await rest.promise;
      steps.push((await b!.election.leader()) === null ? "given back" : "held");
      return "ended";
    });
    await sim.advance(100);
    const closing = a!.tenure.close().then(() => steps.push("closed"));
    expect(await sim.until(leading)).toBe("ended");
    await sim.until(closing);
    expect(steps).toEqual(["held", "closed"]);
    expect(sim.pendingTimers()).toBe(0);
  });

  it("goes on standing while the store does not answer, also from the start", async () => {
    const { sim, candidates } = await race("queues", 1);
    const [a] = candidates;
    cut(a!);
    const leading = a!.election.lead(() => "led at last");
    await sim.advance(600_000);
    heal(a!);
    expect(await sim.until(leading, 20_000)).toBe("led at last");
  });

  it("tells of an error that the work throws after its term was lost, and stands again", async () => {
    const { sim, candidates } = await race("queues", 1);
    const [a] = candidates;
    let runs = 0;
    const leading = a!.election.lead(async ({ signal }) => {
      if (++runs === 2) return "again";
      await aborted(signal);
      throw new Error("half done");
    });
    await until(sim, "leading", () => runs === 1);
    sim.block(2_000);
    expect(await sim.until(leading)).toBe("again");
    const told = sim.events.filter((e) => e.type === "warning");
    expect(told).toHaveLength(1);
    expect(told[0]).toMatchObject({ name: "lead", message: expect.stringContaining("half done") });
  });

  it("does not tell of the abort itself as an error", async () => {
    const { sim, candidates } = await race("queues", 1);
    let runs = 0;
    const leading = candidates[0]!.election.lead(async ({ signal }) => {
      if (++runs === 2) return "again";
      await aborted(signal);
      throw signal.reason;
    });
    await until(sim, "leading", () => runs === 1);
    sim.block(2_000);
    expect(await sim.until(leading)).toBe("again");
    expect(sim.events.some((e) => e.type === "warning")).toBe(false);
  });

  it("runs the work in the caller's async context", async () => {
    const { sim, candidates } = await race("queues", 1);
    const storage = new AsyncLocalStorage<string>();
    const leading = storage.run("mine", () =>
      candidates[0]!.election.lead(() => storage.getStore()),
    );
    expect(await sim.until(leading)).toBe("mine");
  });

  it.each([
    ["work", undefined, {}],
    ["stepDown", () => 1, { stepDown: -1 }],
    ["signal", () => 1, { signal: 7 }],
    ["wait", () => 1, { wait: 7 }],
  ])("refuses a wrong %s before any I/O", async (option, work, options) => {
    const { candidates } = await race("queues", 1);
    const leading = candidates[0]!.election.lead(work as any, options as any);
    await expect(leading).rejects.toThrow(option);
    expect(candidates[0]!.faults.calls).toEqual([]);
  });
});
