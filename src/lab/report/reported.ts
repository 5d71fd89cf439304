/** What a report is made from: a played scenario, or a history that was recorded. */
import type { InvariantId, Violation } from "../checkers/violation.js";
import type { HistoryEvent } from "../history.js";
import type { FenceMode } from "../resource.js";
import type { ScenarioResult } from "../scenarios/scenario.js";

/** A run and what the checkers say of it. */
export interface Reported {
  readonly scenario: string;
  /** What happens in it, in a sentence. */
  readonly title?: string;
  readonly seed?: number;
  readonly fence?: FenceMode;
  readonly events: readonly HistoryEvent[];
  readonly violations: readonly Violation[];
  readonly traceHash?: string;
  /** Shows only so much of its end, milliseconds. Default all of it. */
  readonly lastMs?: number;
  /** What plays it again. */
  readonly replay?: string;
  /** Invariants that were looked at beyond those that the history shows to be. */
  readonly checked?: readonly InvariantId[];
  /** Why some of them were not looked at, where it is not for want of facts. */
  readonly unasked?: Readonly<Partial<Record<InvariantId, string>>>;
  /** The same seed without one fault, once for each. */
  readonly without?: readonly LeftOut[];
  /** How many faults it has, where they are too many for that. */
  readonly untried?: number;
}

/** A run from which one fault was left out. */
export interface LeftOut {
  /** The fault, in words. */
  readonly text: string;
  /** When it struck, milliseconds. */
  readonly atMs: number;
  readonly reported: Reported;
  /** Why the story does not come about without it; its report ends there. */
  readonly stopped?: string;
}

/** A played scenario as a report takes it. */
export function reportedOf(result: ScenarioResult, title?: string): Reported {
  const { scenario, seed, fence, violations, traceHash } = result;
  const checked = [...result.tested];
  const { events } = result.sim.world.history;
  const about = title === undefined ? {} : { title };
  const replay = `tenure lab run ${scenario} --fence ${fence} --seed ${seed}`;
  return { scenario, seed, fence, violations, traceHash, events, replay, checked, ...about };
}
