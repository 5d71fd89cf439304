import { describe, expect, test } from "vitest";
import { soak, sumOf } from "../../src/lab/soak.js";
import { STORE_MODELS, storeOf } from "../../src/lab/store-models.js";

/** Each model of a store has the same share of them. */
const SEEDS = 72;
const HOUR_MS = 3_600_000;

describe("a soak", () => {
  test("breaks no invariant on any model of a store", async () => {
    const stores = new Set<string>();
    const result = await soak({
      firstSeed: 1,
      seeds: SEEDS,
      onRun: ({ store, result: { grants } }) => {
        stores.add(store);
        expect(grants).toBeGreaterThan(50);
      },
    });
    expect(result.violations).toEqual([]);
    expect(result.lostUpdates).toBe(0);
    expect([...stores].sort()).toEqual(Object.keys(STORE_MODELS).sort());
    expect(result.simulatedMs).toBeGreaterThan(11 * HOUR_MS);
    expect(result.staleRefused).toBeGreaterThan(100);
    expect(result.replays).toBeGreaterThan(1);
  });

  test("loses updates where nothing fences them, and breaks nothing else", async () => {
    const result = await soak({ firstSeed: 1, seeds: 12, fence: "none", forMs: 120_000 });
    expect(result.lostUpdates).toBeGreaterThan(0);
    expect(result.violations).toEqual([]);
  });

  test("ends when it is told to, and needs an end", async () => {
    let runs = 0;
    const short = { firstSeed: 5, forMs: 10_000, onRun: () => runs++ };
    const result = await soak({ ...short, until: () => runs === 2 });
    expect(result.runs).toBe(2);
    await expect(soak({ firstSeed: 1 })).rejects.toThrow("a soak needs an end");
  });

  test("shared out among several is the same as one", async () => {
    const short = { fence: "none", forMs: 20_000 } as const;
    const whole = await soak({ ...short, firstSeed: 1, seeds: 6 });
    const odd = await soak({ ...short, firstSeed: 1, seeds: 3, every: 2 });
    const even = await soak({ ...short, firstSeed: 2, seeds: 3, every: 2 });
    expect(sumOf([odd, even])).toEqual({ ...whole, replays: 2 });
    expect(storeOf(1)).not.toBe(storeOf(2));
  });
});
