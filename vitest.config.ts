import { defineConfig, type ViteUserConfig } from "vitest/config";

type Project = NonNullable<NonNullable<ViteUserConfig["test"]>["projects"]>[number];

interface Pace {
  readonly timeoutMs: number;
  /** Whether its tests use what the build writes. */
  readonly built?: boolean;
}

/**
 * Tests on simulated time come first, one file for each of two cores. They do not run beside those
 * that watch real time, which they would starve. Projects of one group share one number of workers.
 */
const SIMULATED = { order: 0, files: 2 } as const;
/** Leases on real servers, which mostly wait for time to pass. */
const WAITING = { order: 1, files: 5 } as const;
/** Races of many processes, and compilers. */
const WORKING = { order: 2, files: 2 } as const;
/** Whole commands, whose children are frozen and killed by the clock; and brokers. */
const PROCESSES = { order: 3, files: 3 } as const;

type Group = typeof SIMULATED | typeof WAITING | typeof WORKING | typeof PROCESSES;

/** Servers start in hooks, several in Java among them. */
const HOOK_TIMEOUT_MS = 180_000;

function project(dir: string, pace: Pace, group: Group): Project {
  return {
    test: {
      name: dir,
      include: [`test/${dir}/**/*.test.ts`],
      environment: "node",
      pool: "forks",
      testTimeout: pace.timeoutMs,
      hookTimeout: HOOK_TIMEOUT_MS,
      // A retry hides the race that the test exists to show.
      retry: 0,
      ...(pace.built === true ? { globalSetup: ["scripts/build-if-stale.mjs"] } : {}),
      maxWorkers: group.files,
      sequence: { groupOrder: group.order },
    },
  };
}

const config: ViteUserConfig = defineConfig({
  test: {
    projects: [
      project("unit", { timeoutMs: 10_000 }, SIMULATED),
      project("lab", { timeoutMs: 300_000 }, SIMULATED),
      project("conformance", { timeoutMs: 60_000 }, WAITING),
      project("backends", { timeoutMs: 60_000 }, WAITING),
      project("fences", { timeoutMs: 60_000 }, WAITING),
      project("patterns", { timeoutMs: 120_000 }, WORKING),
      project("docs", { timeoutMs: 120_000 }, WORKING),
      project("package", { timeoutMs: 180_000, built: true }, WORKING),
      project("partitions", { timeoutMs: 120_000 }, PROCESSES),
      project("process", { timeoutMs: 120_000, built: true }, PROCESSES),
    ],
    allowOnly: false,
    passWithNoTests: false,
  },
});

export default config;
