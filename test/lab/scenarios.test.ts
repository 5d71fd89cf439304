import { describe, expect, test } from "vitest";
import type { FenceMode } from "../../src/lab/resource.js";
import { play, SCENARIOS } from "../../src/lab/scenarios/play.js";

const FENCES: readonly FenceMode[] = ["none", "naive", "armed"];
const SEEDS = [1, 2, 3, 4, 5];

describe.each(SCENARIOS)("$name", (scenario) => {
  test.each(FENCES)("goes as it must with --fence %s, and one seed is one run", async (fence) => {
    const hashes: string[] = [];
    for (const seed of SEEDS) {
      const result = await play(scenario, { seed, fence });
      scenario.check(result);
      hashes.push(result.traceHash);
    }
    const again = await play(scenario, { seed: SEEDS[0]!, fence });
    expect(again.traceHash).toBe(hashes[0]);
  });
});
