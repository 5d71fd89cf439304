/** Many random runs, one seed after the other, over all models of stores in turn. */
import { chaos, type ChaosResult } from "./chaos.js";
import { checkRepeat } from "./checkers/repeat.js";
import type { Violation } from "./checkers/violation.js";
import type { HistoryEvent } from "./history.js";
import type { FenceMode } from "./resource.js";
import { STORE_MODELS, storeOf, type StoreName } from "./store-models.js";

/** Settings of a soak. */
export interface SoakOptions {
  readonly firstSeed: number;
  /** How many seeds. Default: until `until` says so. */
  readonly seeds?: number;
  /** Takes every so many seeds, so that others can take those between. Default 1. */
  readonly every?: number;
  /** Length of the faults of each run, milliseconds. Default: so that 1,000 runs are 160 hours. */
  readonly forMs?: number;
  /** Default `armed`. */
  readonly fence?: FenceMode;
  /** Default: each model in its turn. */
  readonly store?: StoreName;
  /** Asked before each run: whether it was enough. */
  readonly until?: () => boolean;
  readonly onRun?: (run: SoakRun) => void;
}

/** One run of a soak. */
export interface SoakRun {
  readonly seed: number;
  readonly store: StoreName;
  readonly fence: FenceMode;
  readonly result: ChaosResult;
}

/** What a run broke. */
export interface SoakFind {
  readonly seed: number;
  readonly store: StoreName;
  readonly fence: FenceMode;
  readonly violations: readonly Violation[];
}

/** What came of a soak. */
export interface SoakResult {
  readonly runs: number;
  /** Runs that were made twice, to see that they are the same. */
  readonly replays: number;
  readonly simulatedMs: number;
  readonly grants: number;
  readonly faults: number;
  readonly events: number;
  readonly lostUpdates: number;
  readonly staleRefused: number;
  /** Updates that an unfenced resource lost are counted, and are no violation. */
  readonly violations: readonly SoakFind[];
}

/** Every so many runs one is made twice. */
const REPLAY_EVERY = 50;

/** Runs seed after seed. @throws Error where neither `seeds` nor `until` gives it an end. */
export async function soak(options: SoakOptions): Promise<SoakResult> {
  const { firstSeed, seeds = Infinity, every = 1, fence = "armed", forMs, until } = options;
  if (seeds === Infinity && until === undefined) throw new RangeError("a soak needs an end");
  const sum = { runs: 0, replays: 0, simulatedMs: 0, grants: 0, faults: 0, events: 0 };
  const refused = { lostUpdates: 0, staleRefused: 0 };
  const found: SoakFind[] = [];
  for (let nth = 0; nth < seeds && until?.() !== true; nth++) {
    const seed = firstSeed + nth * every;
    const store = options.store ?? storeOf(seed);
    const run = (): Promise<ChaosResult> =>
      chaos({ seed, fence, store: STORE_MODELS[store], ...(forMs === undefined ? {} : { forMs }) });
    const result = await run();
    const violations = result.violations.filter(
      ({ invariant }) => fence === "armed" || invariant !== "I5",
    );
    if (nth % REPLAY_EVERY === 0) {
      sum.replays += 1;
      const again = await run();
      violations.push(...checkRepeat(seed, factsOf(result), factsOf(again)));
    }
    sum.runs += 1;
    sum.simulatedMs += result.simulatedMs;
    sum.grants += result.grants;
    sum.faults += result.faults;
    sum.events += result.sim.world.events;
    refused.lostUpdates += result.lostUpdates;
    refused.staleRefused += result.staleRefused;
    if (violations.length > 0) found.push({ seed, store, fence, violations });
    options.onRun?.({ seed, store, fence, result });
  }
  return { ...sum, ...refused, violations: found };
}

function factsOf({ sim }: ChaosResult): readonly HistoryEvent[] {
  return sim.world.history.events;
}

/** Several soaks as one. */
export function sumOf(soaks: readonly SoakResult[]): SoakResult {
  const total = (count: (one: SoakResult) => number): number =>
    soaks.reduce((sum, one) => sum + count(one), 0);
  return {
    runs: total(({ runs }) => runs),
    replays: total(({ replays }) => replays),
    simulatedMs: total(({ simulatedMs }) => simulatedMs),
    grants: total(({ grants }) => grants),
    faults: total(({ faults }) => faults),
    events: total(({ events }) => events),
    lostUpdates: total(({ lostUpdates }) => lostUpdates),
    staleRefused: total(({ staleRefused }) => staleRefused),
    violations: soaks.flatMap(({ violations }) => violations).sort((a, b) => a.seed - b.seed),
  };
}
