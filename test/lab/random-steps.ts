import type { Call } from "../../src/core/backend.js";
import { Draws } from "../../src/lab/draws.js";

export const NAMES: readonly string[] = ["a", "b", "c"];
const HOLDERS = ["h1", "h2", "h3", "h4"];
/** No sum of pauses comes near a TTL, so that no answer hangs on a millisecond. */
const TTLS_MS = [1_050, 2_050, 5_050];
const PAUSES_MS = [100, 400, 1_000, 3_000];
const STEPS = 250;
export const CALL: Call = { signal: new AbortController().signal, timeoutMs: 1_000 };

type Op = "acquire" | "renew" | "release" | "clean up" | "break" | "inspect" | "list" | "pause";
const OPS: readonly Op[] = [
  "acquire", "acquire", "acquire", "renew", "renew", "release", "clean up", "break", "inspect",
  "list", "pause", "pause",
];

/** One thing that all stores are asked. */
export interface Step {
  readonly op: Op;
  readonly name: string;
  readonly holder: string;
  readonly ttlMs: number;
  readonly pauseMs: number;
  /** Which of the grants so far it is about, from 0 to 1. */
  readonly nth: number;
}

/** The same steps for the same seed. */
export function drawSteps(seed: number): readonly Step[] {
  const draws = new Draws(seed);
  return Array.from({ length: STEPS }, () => ({
    op: draws.pick(OPS),
    name: draws.pick(NAMES),
    holder: draws.pick(HOLDERS),
    ttlMs: draws.pick(TTLS_MS),
    pauseMs: draws.pick(PAUSES_MS),
    // Mostly the last ones.
    nth: 1 - draws.uniform() ** 4,
  }));
}
