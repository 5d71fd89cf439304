/** The real core on clocks that are wrong on purpose. */
import type { Clock } from "../../core/clock.js";
import { singleStore } from "../simulation.js";
import { SHORT_RUN, type Variant, type VariantRun } from "./variant.js";

/** Holders that work for several TTLs, and look at their clocks all the time. */
const PLAIN: VariantRun = {
  ...SHORT_RUN,
  fence: "none",
  elects: false,
  store: singleStore(),
  work: { ttlMs: 2_000, writes: 8, thinkMs: [50, 1_000] },
};

function clock(name: string, title: string, wrong: (real: Clock) => Clock): Variant {
  return {
    name,
    title,
    where: "clock",
    defencesOff: "the fence",
    breaks: ["I7"],
    flawed: {
      ...PLAIN,
      fitting: { runtime: (runtime) => ({ ...runtime, clock: wrong(runtime.clock) }) },
    },
    control: PLAIN,
  };
}

export const clockVariants: readonly Variant[] = [
  clock("wall-clock-only", "Deadlines are counted on the wall clock alone.", (real) => ({
    monotonicMs: () => real.wallMs(),
    uptimeMs: () => undefined,
    wallMs: () => real.wallMs(),
  })),
  clock("monotonic-only", "Deadlines are counted on the monotonic clock alone.", (real) => ({
    monotonicMs: () => real.monotonicMs(),
    uptimeMs: () => undefined,
    wallMs: () => real.monotonicMs(),
  })),
];
