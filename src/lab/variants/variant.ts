/** A lock that is wrong on purpose, so that the checkers can show that they see it. */
import type { ChaosOptions } from "../chaos.js";
import type { InvariantId } from "../checkers/violation.js";

/** Everything of a random run but its seed. */
export type VariantRun = Omit<ChaosOptions, "seed">;

/** One known-bad lock. */
export interface Variant {
  /** Short name, as on the command line. */
  readonly name: string;
  /** What is wrong with it, in a sentence. */
  readonly title: string;
  /** What was changed: the store, the resource, the client's clocks, what lies between the core and
   * its store, a small lock in the place of the core, or a candidate of an election. */
  readonly where: "store" | "resource" | "clock" | "backend" | "lock" | "candidate";
  /** Other defences that would hide the flaw, and are off; of the control, too. */
  readonly defencesOff: string;
  /** The invariants by which it may be caught. */
  readonly breaks: readonly InvariantId[];
  /** Settings of a run with it, and of the same run without the flaw. */
  readonly flawed: VariantRun;
  readonly control: VariantRun;
}

/** How long the runs of variants last, milliseconds. */
const RUN_MS = 240_000;

/** What all runs of variants share. */
export const SHORT_RUN: Pick<VariantRun, "forMs" | "heals"> = { forMs: RUN_MS, heals: false };
