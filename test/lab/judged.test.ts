import { describe, expect, test } from "vitest";
import type { InvariantId } from "../../src/lab/checkers/violation.js";
import { reportedOf } from "../../src/lab/report/reported.js";
import { timeline } from "../../src/lab/report/timeline.js";
import { verdictsOf } from "../../src/lab/report/verdicts.js";
import { examine, type Examined } from "../../src/lab/scenarios/examine.js";
import { findScenario, SCENARIOS } from "../../src/lab/scenarios/play.js";
import type { Scenario } from "../../src/lab/scenarios/scenario.js";
import {
  singleStore, type Fitting, type MakeStore, type Simulation,
} from "../../src/lab/simulation.js";
import { sessionStore } from "../../src/lab/stores/session-store.js";
import { VARIANTS } from "../../src/lab/variants/index.js";

type Backend = Parameters<NonNullable<Fitting["backend"]>>[0];

const ids = (result: Examined, is: "pass" | "fail" | "unknown"): readonly InvariantId[] =>
  verdictsOf(reportedOf(result))
    .filter((verdict) => verdict.is === is)
    .map(({ id }) => id);

const by = (result: Examined, id: InvariantId): readonly string[] =>
  result.violations.filter(({ invariant }) => invariant === id).map(({ text }) => text);

/** Scenarios with clients of the library: the others are models of elections. */
const MODELS = ["bully-split", "paxos-election", "raft-election", "minority-leader"];
/** Nobody waits in them for what comes free. */
const UNCONTENDED = [
  ...["silent-reconnect", "redlock-amnesia", "token-reissued", "counter-lost", "backend-killed"],
  ...["own-late-write", "correlated-stop", "setnx-then-expire"],
];
/** They play for longer than the others: `scenarios.test.ts` plays them. */
const LONG = ["leader-churn"];

describe("every scenario", () => {
  test.each(SCENARIOS.filter(({ name }) => !LONG.includes(name)))(
    "$name leaves unknown only what it has nothing to tell by, and leaves nothing behind",
    async (scenario) => {
      const result = await examine(scenario, { seed: 2, fence: "armed" });
      expect(result.wrong).toBeUndefined();
      const known = verdictsOf(reportedOf(result)).filter(({ is }) => is !== "unknown");
      const isKnown = (id: InvariantId): boolean => known.some((verdict) => verdict.id === id);
      const { name } = scenario;
      expect(isKnown("I13")).toBe(true);
      expect(isKnown("I10")).toBe(!MODELS.includes(name));
      expect(isKnown("I9")).toBe(![...MODELS, ...UNCONTENDED].includes(name));
      const ranOut = result
        .of("end")
        .some(({ why, early }) => why === "expired" && early !== true);
      if (isKnown("I11") && name !== "setnx-then-expire") expect(ranOut).toBe(true);
    },
  );

  test("whose verdict is unknown says why, each reason once", async () => {
    const result = await examine(findScenario("late-packet"), { seed: 1, fence: "none" });
    const text = timeline(reportedOf(result));
    expect(text).toMatch(/^unknown {3}I4 I6: no resource was armed$/m);
    expect(text).toMatch(/^ {10}I8: nobody stood for election$/m);
    expect(text).toMatch(/^ {10}I11: no holder's time ran out while somebody waited$/m);
    expect(text).toMatch(/^checks {4}.*\bI9 I10 I12 I13/m);
  });
});

/** Longer than all that comes after. */
const HELD_MS = 100_000;
const CALL = { signal: new AbortController().signal, timeoutMs: 1_000 };

/**
 * A backend whose subscriptions are never ended, whose tickets are touched on instead of left, and
 * whose sessions are kept alive instead of closed.
 */
const forgetful: Fitting = {
  backend: (inner, process) => {
    const { waiting, sessions } = inner;
    const goOn = async (care: () => unknown): Promise<void> => {
      for (;;) {
        await process.sleep(1_000);
        // The store may be closed to it: its place is there all the same.
        await Promise.resolve(care()).catch(() => undefined);
      }
    };
    if (sessions !== undefined) {
      const close = async (id: string): Promise<void> =>
        void goOn(() => sessions.keepAlive(id, CALL));
      return { ...inner, sessions: { ...sessions, close }, close: async () => undefined };
    }
    if (waiting.kind === "notify") {
      const subscribe: typeof waiting.subscribe = async (...args) => {
        await waiting.subscribe(...args);
        return { [Symbol.asyncDispose]: async () => undefined };
      };
      return { ...inner, waiting: { ...waiting, subscribe } };
    }
    if (waiting.kind !== "queue") return inner;
    const enqueue: typeof waiting.enqueue = async (...args) => {
      const ticket = await waiting.enqueue(...args);
      const leave = async (): Promise<void> => void goOn(() => waiting.touch([ticket], CALL));
      return { ...ticket, leave };
    };
    return { ...inner, waiting: { ...waiting, enqueue } };
  },
};

const lock = (name: string): Fitting => {
  const { fitting } = VARIANTS.find((variant) => variant.name === name)!.flawed;
  return fitting!;
};

describe("what is broken on purpose is told by lab run", () => {
  test("I9: a waiter that relies on a notice that was lost", async () => {
    const scenario = findScenario("lost-notice");
    const sound = await examine(scenario, { seed: 1, fence: "none" });
    expect(ids(sound, "pass")).toContain("I9");
    const result = await examine(scenario, {
      ...{ seed: 1, fence: "none", fitting: lock("no-fallback-poll") },
    });
    expect(ids(result, "fail")).toContain("I9");
    expect(by(result, "I9")[0]).toMatch(/free, and \w waited \d+ ms in peace for/);
  });

  test("I11: a store in which no lease ends by itself", async () => {
    const scenario = findScenario("kill-restart");
    expect(ids(await examine(scenario, { seed: 1, fence: "none" }), "pass")).toContain("I11");
    const store = singleStore({ flaw: "no-expiry" });
    const result = await examine(scenario, { seed: 1, fence: "none", store });
    expect(ids(result, "fail")).toContain("I11");
  });

  test.each<[string, RegExp, MakeStore]>([
    ["a subscription", /^B was closed and kept 1 subscription$/, singleStore({ waiting: "notify" })],
    ["a ticket", /^B was closed and kept 1 ticket$/, singleStore({ waiting: "queue" })],
    ["a session", /B was closed and kept \d sessions?$/, (world) => sessionStore(world)],
  ])("I10: %s", async (_, text, store) => {
    const settings = { seed: 1, fence: "none", store } as const;
    const sound = await examine(waited, settings);
    expect(by(sound, "I10")).toEqual([]);
    expect(ids(sound, "pass")).toContain("I10");
    const result = await examine(waited, { ...settings, fitting: forgetful });
    expect(by(result, "I10").join()).toMatch(text);
    expect(result.wrong).toMatch(text);
  });

  test.each<[string, RegExp, (sim: Simulation) => Promise<void>]>([
    ["a timer", /kept 1 timer$/, async (sim) => {
      const { process } = sim.clients[0]!;
      process.runtime.timers.after(1e9, () => undefined);
    }],
    ["a listener on a signal", /kept 1 listener on a signal of its caller$/, async (sim) => {
      sim.clients[0]!.heard.signal.addEventListener("abort", () => undefined);
    }],
    ["a lease that is renewed on", /kept the lease of job$/, async (sim) => {
      const { process, tenure } = sim.clients[0]!;
      const { backend } = fittedBackends.get(process.name)!;
      await tenure.close();
      const answer = await backend.acquire(
        { name: "job", holder: "nobody's", ttlMs: 10_000, holderInfo: { host: process.name } },
        CALL,
      );
      if (!("grant" in answer)) throw new Error("the name was not free");
      const renew = async (): Promise<void> => {
        for (;;) {
          await process.sleep(3_000);
          await backend.renew([answer.grant], CALL);
        }
      };
      void renew();
    }],
  ])("I10: %s", async (_, text, leave) => {
    const scenario: Scenario = {
      ...{ id: 0, name: "leaves", title: "leaves something behind" },
      async play(sim) {
        await sim.client("A");
        await sim.world.until(leave(sim), 60_000);
      },
      check: () => undefined,
    };
    const result = await examine(scenario, { seed: 1, fence: "none", fitting: remembering });
    expect(by(result, "I10").join()).toMatch(text);
  });

  test("I13: a run that depends on the one before it", async () => {
    let runs = 0;
    const scenario: Scenario = {
      ...{ id: 0, name: "counts", title: "counts its own runs" },
      play: async (sim) => sim.world.history.add({ kind: "note", text: `run ${runs++}` }),
      check: () => undefined,
    };
    const result = await examine(scenario, { seed: 9, fence: "none" });
    expect(by(result, "I13")).toEqual(["seed 9 gave two runs, which part at fact 0"]);
    expect(result.wrong).toBe("seed 9 gave two runs, which part at fact 0");
  });
});

const fittedBackends = new Map<string, { readonly backend: Backend }>();
/** Lets a test speak to the store as a client does. A closed tenure closes the backend's own. */
const remembering: Fitting = {
  backend: (inner, process) => {
    fittedBackends.set(process.name, { backend: inner });
    return { ...inner, close: async () => undefined };
  },
};

/** A holder that is no client, and a waiter that gives up. */
const waited: Scenario = {
  ...{ id: 0, name: "waited", title: "B waits for a while, and gives up" },
  async play(sim) {
    const { model } = sim.store.find();
    const session = model.sessions?.open(HELD_MS).id;
    const request = { name: "job", holder: "h", ttlMs: HELD_MS, holderInfo: { host: "H" } };
    model.acquire(session === undefined ? request : { ...request, session });
    const b = await sim.client("B");
    void sim.work(b, { turns: 1, key: "job", restMs: [500, 600], waitMs: 3_000 });
    await sim.world.run(5_000);
  },
  check: () => undefined,
};
