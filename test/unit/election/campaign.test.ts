import { describe, expect, it } from "vitest";
import {
  LeaseLostError,
  NotAcquiredError,
  NotLeaderError,
  UnavailableError,
  UnverifiedError,
} from "../../../src/core/errors.js";
import { Tenure } from "../../../src/core/tenure.js";
import { election } from "../../../src/election/election.js";
import type { Leadership } from "../../../src/election/term.js";
import { simulatedRuntime } from "../../../src/testing/simulated-runtime.js";
import { cut, heal, race, stores, terms } from "./candidates.js";

describe.each(Object.keys(stores))("campaign, on a store that %s", (kind) => {
  it("resolves with a leadership; the next one gets a higher term on resign", async () => {
    const { sim, candidates } = await race(kind, 2);
    const [a, b] = candidates;
    const first = await sim.until(a!.election.campaign({ info: { zone: "north" } }));
    expect(first).toMatchObject({ name: "lead", term: first.token, ttlMs: 1_000 });
    expect(first.storeId).toBe(a!.tenure.storeId);
    expect(first.remaining()).toBeGreaterThan(900);
    first.assertLeading();
    expect(await b!.election.leader()).toEqual({
      term: first.term,
      holder: first.holder,
      info: { host: "simulated", pid: 7, candidate: "c0", zone: "north" },
    });
    const second = b!.election.campaign();
    await sim.advance(5_000);
    expect(first.signal.aborted).toBe(false);
    expect(await sim.until(first.resign())).toBe("released");
    expect(first.signal.reason).toBeInstanceOf(NotLeaderError);
    expect(() => first.assertLeading()).toThrow(NotLeaderError);
    expect(first.remaining()).toBe(0);
    const next = await sim.until(second);
    expect(next.term > first.term).toBe(true);
    expect(await sim.until(first.resign())).toBe("released");
    next.assertLeading();
    expect(terms(sim.events)).toEqual([
      `elected ${first.term}`,
      `revoked ${first.term} resigned`,
      `elected ${next.term}`,
    ]);
    await next.resign();
    expect(await b!.election.leader()).toBeNull();
  });

  it("rejects with NotAcquiredError after its wait, which leaves nothing (case 17)", async () => {
    const { sim, candidates } = await race(kind, 3);
    const leading = await sim.until(candidates[0]!.election.campaign());
    const refused = candidates[1]!.election.campaign({ wait: 100 }).catch((e: unknown) => e);
    expect(await sim.until(refused, 200)).toBeInstanceOf(NotAcquiredError);
    const once = candidates[1]!.election.campaign({ wait: 0 }).catch((e: unknown) => e);
    expect(await sim.until(once, 10)).toBeInstanceOf(NotAcquiredError);
    await leading.resign();
    const next = await sim.until(candidates[2]!.election.campaign(), 100);
    expect(next.term > leading.term).toBe(true);
  });

  it("leaves nothing, at whatever step its signal aborts or its tenure closes", async () => {
    const reason = new Error("enough");
    for (const how of ["abort", "close"]) {
      for (let step = 0; step < 40; step++) {
        const { sim, candidates } = await race(kind, 2);
        const [a, b] = candidates;
        const leading = await sim.until(b!.election.campaign());
        const stop = new AbortController();
        const standing = a!.election.campaign({ signal: stop.signal }).catch((e: unknown) => e);
        await sim.settle();
        void leading.resign();
        for (let i = 0; i < step; i++) await Promise.resolve();
        if (how === "abort") stop.abort(reason);
        else void a!.tenure.close();
        const outcome = await sim.until(standing);
        if (how === "abort" && outcome !== reason) await (outcome as Leadership).resign();
        if (how === "close" && !(outcome instanceof UnavailableError)) {
          const won = outcome as Leadership;
          expect(won.signal.reason).toBeInstanceOf(UnavailableError);
          expect(() => won.assertLeading()).toThrow(NotLeaderError);
        }
        await sim.advance(200);
        expect(await b!.election.leader(), `${how} at step ${step}`).toBeNull();
        await Promise.all(candidates.map(({ tenure }) => tenure.close()));
        expect(sim.pendingTimers(), `${how} at step ${step}`).toBe(0);
      }
    }
  });

  it("elects nobody else when the second in line dies (case 45)", async () => {
    const { sim, candidates } = await race(kind, 3);
    const leading = await sim.until(candidates[0]!.election.campaign());
    const won: number[] = [];
    for (const i of [1, 2]) {
      void candidates[i]!.election.campaign().then(
        () => won.push(i),
        () => undefined,
      );
      await sim.advance(300);
    }
    cut(candidates[1]!);
    await sim.advance(20_000);
    expect(won).toEqual([]);
    leading.assertLeading();
    await leading.resign();
    await sim.advance(10_000);
    expect(won).toEqual([2]);
  });
});

describe("a leadership", () => {
  it("of a leader that is cut off ends before the store can elect another", async () => {
    const { sim, candidates } = await race("queues", 2);
    const [a, b] = candidates;
    const term = await sim.until(a!.election.campaign());
    await sim.advance(2_000);
    const next = b!.election.campaign();
    const started = sim.runtime.clock.monotonicMs();
    let revokedMs = Infinity;
    term.signal.addEventListener("abort", () => {
      revokedMs = sim.runtime.clock.monotonicMs();
      expect(term.remaining()).toBeGreaterThan(90);
    });
    cut(a!);
    const second = await sim.until(next);
    const electedMs = sim.runtime.clock.monotonicMs();
    expect(revokedMs).toBeLessThan(electedMs - 100);
    expect(electedMs - started).toBeLessThan(1_100);
    expect(term.signal.reason).toMatchObject({ reason: "deadline" });
    heal(a!);
    await sim.advance(5_000);
    expect(() => term.assertLeading()).toThrow(NotLeaderError);
    expect(await sim.until(term.resign())).toBe("not-held");
    second.assertLeading();
    expect(await b!.election.leader()).toMatchObject({ term: second.term });
    const after = terms(sim.events).slice(-1);
    expect(after).toEqual([`elected ${second.term}`]);
  });

  it("ends at its deadline while reads work and writes fail (case 6)", async () => {
    const { sim, candidates } = await race("queues", 1);
    const { election: mine, faults } = candidates[0]!;
    const term = await sim.until(mine.campaign());
    faults.plan = ({ operation }) => (operation === "inspect" ? undefined : { kind: "refuse" });
    const watching = mine.observe();
    for (let ms = 0; ms < 1_000; ms += 20) {
      await sim.until(mine.leader());
      await sim.advance(20);
    }
    expect(term.signal.aborted).toBe(true);
    expect(() => term.assertLeading()).toThrow(NotLeaderError);
    await watching.return();
  });

  it("that is within the grace is over, and has time to stop", async () => {
    const { sim, candidates } = await race("queues", 1);
    const term = await sim.until(candidates[0]!.election.campaign());
    cut(candidates[0]!);
    sim.block(920);
    expect(term.remaining()).toBeGreaterThan(0);
    expect(() => term.assertLeading()).toThrow(NotLeaderError);
    expect(term.signal.aborted).toBe(true);
    expect(term.signal.reason).toBeInstanceOf(LeaseLostError);
  });

  it("is over for the first statement after a blocked event loop (I8)", async () => {
    const { sim, candidates } = await race("queues", 2);
    const [a, b] = candidates;
    const term = await sim.until(a!.election.campaign());
    const seen: string[] = [];
    term.signal.addEventListener("abort", () => seen.push("abort"));
    sim.block(5_000);
    expect(() => term.assertLeading()).toThrow(NotLeaderError);
    expect(seen).toEqual(["abort"]);
    const next = await sim.until(b!.election.campaign());
    expect(terms(sim.events)).toEqual([
      `elected ${term.term}`,
      `revoked ${term.term} deadline`,
      `elected ${next.term}`,
    ]);
  });

  it("cannot be verified while the clock is in doubt", async () => {
    const { sim, candidates } = await race("queues", 1);
    const term = await sim.until(candidates[0]!.election.campaign());
    sim.pauseVm(400);
    expect(() => term.assertLeading()).toThrow(UnverifiedError);
    await sim.advance(10);
    term.assertLeading();
  });

  it("is revoked at once when the store shows that it was broken", async () => {
    const { sim, candidates } = await race("queues", 2);
    const [a, b] = candidates;
    const term = await sim.until(a!.election.campaign());
    await b!.tenure.break("lead", { token: term.term, reason: "test" });
    await sim.advance(350);
    expect(terms(sim.events).at(-1)).toBe(`revoked ${term.term} absent`);
  });

  it("that resigns while it is being lost is revoked once, and touches no later term", async () => {
    for (let offset = -3; offset <= 3; offset++) {
      const { sim, candidates } = await race("queues", 2);
      const [a, b] = candidates;
      const term = await sim.until(a!.election.campaign());
      const next = b!.election.campaign();
      await sim.settle();
      a!.faults.plan = ({ operation }) => (operation === "renew" ? { kind: "refuse" } : undefined);
      await sim.advance(888 + offset);
      const answer = await sim.until(term.resign());
      const second = await sim.until(next);
      await sim.advance(3_000);
      second.assertLeading();
      const revoked = terms(sim.events).filter((e) => e.startsWith(`revoked ${term.term}`));
      expect(revoked, `${offset} ms, ${answer}`).toHaveLength(1);
    }
  });

  it("is revoked when its tenure closes, before the lease is given back", async () => {
    const { sim, candidates } = await race("queues", 2);
    const [a, b] = candidates;
    const term = await sim.until(a!.election.campaign());
    await sim.until(a!.tenure.close());
    expect(terms(sim.events)).toEqual([`elected ${term.term}`, `revoked ${term.term} closed`]);
    expect(await b!.election.leader()).toBeNull();
    expect(sim.pendingTimers()).toBe(0);
  });

  it("is disposed of by resigning", async () => {
    const { sim, candidates } = await race("queues", 1);
    const term = await sim.until(candidates[0]!.election.campaign());
    await sim.until(Promise.resolve(term[Symbol.asyncDispose]()));
    expect(await candidates[0]!.election.leader()).toBeNull();
  });
});

describe("after its own term", () => {
  it("on a store without an order a candidate lets the others try first", async () => {
    const { sim, candidates } = await race("is polled", 2);
    const [a, b] = candidates;
    for (let round = 0; round < 5; round++) {
      const term = await sim.until(a!.election.campaign());
      const other = b!.election.campaign();
      await sim.advance(5_000);
      await sim.until(term.resign());
      const again = a!.election.campaign();
      await (await sim.until(other)).resign();
      await (await sim.until(again)).resign();
    }
    const elected = sim.events.flatMap((e) => (e.type === "elected" ? [e.term] : []));
    expect(elected).toEqual([...elected].sort((x, y) => (x < y ? -1 : 1)));
    expect(elected).toHaveLength(15);
  });

  it("one try is one try, at once", async () => {
    const { sim, candidates } = await race("is polled", 1);
    await (await sim.until(candidates[0]!.election.campaign())).resign();
    const again = await sim.until(candidates[0]!.election.campaign({ wait: 0 }), 0);
    again.assertLeading();
  });
});

describe("election", () => {
  it.each([
    ["ttl", { ttl: 0 }],
    ["grace", { ttl: 1_000, grace: 500 }],
    ["renewEvery", { ttl: 1_000, renewEvery: 900 }],
    ["info.x", { info: { x: {} } }],
    ["tll", { tll: 5 }],
    ["options", null],
  ])("refuses a wrong %s before any I/O", async (option, options) => {
    const { candidates } = await race("queues", 1);
    const { tenure, faults } = candidates[0]!;
    expect(() => election(tenure, "x", options as any)).toThrow(option);
    expect(() => election(tenure, "")).toThrow("name");
    expect(() => election({} as any, "x")).toThrow("tenure");
    expect(faults.calls).toEqual([]);
  });

  it.each([
    ["wait", { wait: -1 }],
    ["signal", { signal: {} }],
    ["info", { info: "text" }],
    ["stepDown", { stepDown: 1 }],
  ])("refuses a wrong %s of campaign before any I/O", async (option, options) => {
    const { candidates } = await race("queues", 1);
    await expect(candidates[0]!.election.campaign(options as any)).rejects.toThrow(option);
    expect(candidates[0]!.faults.calls).toEqual([]);
  });

  it("refuses a store without tokens, forced past the types", async () => {
    const sim = simulatedRuntime({ seed: 1 });
    const { candidates } = await race("queues", 1);
    const inner = candidates[0]!.faults;
    const manifest = { ...inner.manifest, backend: "redlock", tokens: "none", heldCheck: false };
    const backend = { ...inner, manifest } as any;
    const tenure = await Tenure.open<any>(backend, sim.runtime, { purpose: "efficiency" });
    expect(() => election(tenure, "x")).toThrow("redlock hands out no tokens");
  });
});
