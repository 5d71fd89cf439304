/** The known-bad locks: each alone, each to be caught by the checkers. */
import { chaos, type ChaosResult } from "../chaos.js";
import { backendVariants } from "./backends.js";
import { candidateVariants } from "./candidates.js";
import { clockVariants } from "./clocks.js";
import { fenceVariants } from "./fences.js";
import { lockVariants } from "./locks.js";
import { storeVariants } from "./stores.js";
import type { Variant } from "./variant.js";

/** All known-bad locks. */
export const VARIANTS: readonly Variant[] = [
  ...storeVariants,
  ...fenceVariants,
  ...clockVariants,
  ...backendVariants,
  ...lockVariants,
  ...candidateVariants,
];

/** The first run that caught a variant. */
export interface Catch {
  readonly variant: string;
  readonly seed: number;
  readonly result: ChaosResult;
}

/** A run of a variant; of its control, without the flaw, as well. */
export function playVariant(
  variant: Variant,
  seed: number,
  which: "flawed" | "control" = "flawed",
): Promise<ChaosResult> {
  return chaos({ ...variant[which], seed });
}

/** The first seed, from 1, whose run breaks one of the invariants that the variant must break. */
export async function catchVariant(
  variant: Variant,
  mostSeeds: number,
): Promise<Catch | undefined> {
  for (let seed = 1; seed <= mostSeeds; seed++) {
    const result = await playVariant(variant, seed);
    const isCaught = result.violations.some(({ invariant }) => variant.breaks.includes(invariant));
    if (isCaught) return { variant: variant.name, seed, result };
  }
  return undefined;
}

/** How many of the known-bad locks the checkers see. */
export interface MutationScore {
  readonly caught: number;
  readonly of: number;
  /** Names of those that were not seen, for looking at. */
  readonly missed: readonly string[];
}

/** Tries each known-bad lock on the first seeds. */
export async function mutationScore(mostSeeds: number): Promise<MutationScore> {
  const missed: string[] = [];
  for (const variant of VARIANTS) {
    if ((await catchVariant(variant, mostSeeds)) === undefined) missed.push(variant.name);
  }
  return { caught: VARIANTS.length - missed.length, of: VARIANTS.length, missed };
}
