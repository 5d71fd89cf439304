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
}

/** A played scenario as a report takes it. */
export function reportedOf(result: ScenarioResult, title?: string): Reported {
  const { scenario, seed, fence, violations, traceHash } = result;
  const { events } = result.sim.world.history;
  const about = title === undefined ? {} : { title };
  const replay = `tenure lab run ${scenario} --fence ${fence} --seed ${seed}`;
  return { scenario, seed, fence, violations, traceHash, events, replay, ...about };
}
