/** A scenario: who is there, what is done to them, and what has to come of it. */
import type { InvariantId } from "../checkers/violation.js";
import type { EventOf, FactKind } from "../history.js";
import type { FenceMode } from "../resource.js";
import type { Outcome, Simulation } from "../simulation.js";

/** One story, told with the real code in a simulated world. */
export interface Scenario {
  /** Its number in the published list; 0 for those that are only there to look at. */
  readonly id: number;
  /** Its name on the command line. */
  readonly name: string;
  /** What happens, in a sentence. */
  readonly title: string;
  /** Its own store or network, where the usual ones do not do. */
  readonly options?: Partial<ConstructorParameters<typeof Simulation>[0]>;
  /** Plays it to its end. */
  play(sim: Simulation): Promise<void>;
  /** What must have come of it under each way of protecting the resource; throws otherwise. */
  check(result: ScenarioResult): void;
}

/** What came of playing a scenario. */
export interface ScenarioResult extends Outcome {
  readonly scenario: string;
  readonly sim: Simulation;
  /** Invariants of which this run could have shown a breach, beyond what its facts show to be. */
  readonly tested: ReadonlySet<InvariantId>;
  /** Facts of one kind, in order. */
  of<K extends FactKind>(...kinds: readonly K[]): readonly EventOf<K>[];
}

/** A scenario that did not go as it must. */
class ScenarioFailure extends Error {
  override readonly name = "ScenarioFailure";
}

/** @throws Error saying what did not hold. */
export function must(holds: boolean, text: string): void {
  if (!holds) throw new ScenarioFailure(text);
}

/** What a stale write comes to under each way of protecting the resource. */
export function mustLose(result: ScenarioResult, losers: readonly FenceMode[]): void {
  const loses = losers.includes(result.fence);
  const text = `with --fence ${result.fence} ${result.lostUpdates} updates were lost`;
  must(loses ? result.lostUpdates > 0 : result.lostUpdates === 0, text);
}

/** Each of these invariants is broken, or may be as `others`, and no further one. */
export function mustBreak(
  result: ScenarioResult,
  broken: readonly InvariantId[],
  others: readonly InvariantId[] = [],
): void {
  const seen = new Set(result.violations.map(({ invariant }) => invariant));
  for (const id of broken) must(seen.has(id), `${id} held`);
  const rest = result.violations.filter(({ invariant }) => {
    return ![...broken, ...others].includes(invariant);
  });
  must(rest.length === 0, rest.map(({ invariant, text }) => `${invariant}: ${text}`).join("; "));
}

/** No invariant is broken, but for the updates that an unfenced resource loses. */
export function mustHold(result: ScenarioResult): void {
  const broken = result.violations.filter(
    ({ invariant }) => result.fence === "armed" || invariant !== "I5",
  );
  must(
    broken.length === 0,
    broken.map(({ invariant, text }) => `${invariant}: ${text}`).join("; "),
  );
}
