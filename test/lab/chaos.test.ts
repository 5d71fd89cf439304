import { describe, expect, test } from "vitest";
import {
  chaos,
  observedStore,
  replicatedPair,
  sessionStore,
  singleStore,
  type MakeStore,
} from "../../src/lab/index.js";

const STORES: Readonly<Record<string, MakeStore>> = {
  "a single store that is polled": singleStore({ waiting: "poll" }),
  "a single store that tells of releases": singleStore({ waiting: "notify" }),
  "a single store with a queue": singleStore({ waiting: "queue" }),
  "a pair with a replica": replicatedPair,
  "a session store": (world) => sessionStore(world),
  "a store that compares no clocks": observedStore,
};

const SEEDS = [1, 2, 3];
const MINUTES = 4;

describe.each(Object.entries(STORES))("%s, with paused, killed and cut-off clients", (_, store) => {
  test("breaks no invariant, and an armed resource loses no update", async () => {
    for (const seed of SEEDS) {
      const result = await chaos({ seed, fence: "armed", store, forMs: MINUTES * 60_000 });
      expect(result.violations).toEqual([]);
      expect(result.grants).toBeGreaterThan(20);
    }
  });

  test("loses updates without a fence, and breaks nothing else", async () => {
    let lost = 0;
    for (const seed of SEEDS) {
      const result = await chaos({ seed, fence: "none", store, forMs: MINUTES * 60_000 });
      lost += result.lostUpdates;
      expect(result.violations.filter(({ invariant }) => invariant !== "I5")).toEqual([]);
    }
    expect(lost).toBeGreaterThan(0);
  });
});

test("the same seed is the same run, and another seed another", async () => {
  const run = async (seed: number): Promise<string> =>
    (await chaos({ seed, fence: "armed", forMs: 60_000 })).traceHash;
  expect(await run(5)).toBe(await run(5));
  expect(await run(5)).not.toBe(await run(6));
});
