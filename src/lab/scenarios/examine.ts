/** One scenario, played, checked, played again and closed: all that can be known of one seed. */
import { checkRepeat } from "../checkers/repeat.js";
import type { InvariantId, Violation } from "../checkers/violation.js";
import { closeAll, heal } from "../closing.js";
import type { Simulation, SimulationOptions } from "../simulation.js";
import { play } from "./play.js";
import type { Scenario, ScenarioResult } from "./scenario.js";

/** What came of a scenario, and whether that is what it says. */
export interface Examined extends ScenarioResult {
  /** In which way it did not go as the scenario says; undefined where it did. */
  readonly wrong: string | undefined;
}

/**
 * Plays a scenario twice (I13), and in the second run lets all heal and closes every client (I10).
 * A second run that is another one, and whatever was left behind, count as wrong, too. The history
 * is that of the first.
 */
export async function examine(scenario: Scenario, settings: SimulationOptions): Promise<Examined> {
  const result = await play(scenario, settings);
  const wrong = complaintOf(scenario, result);
  const again = await play(scenario, settings);
  const { events } = result.sim.world.history;
  const repeat = checkRepeat(result.seed, events, again.sim.world.history.events);
  const left = await leftBehind(again.sim);
  const found = [...repeat, ...(left ?? [])];
  const tested = new Set<InvariantId>([...result.tested, "I13"]);
  if (left !== undefined) tested.add("I10");
  return {
    ...result,
    violations: [...result.violations, ...found],
    tested,
    wrong: wrong ?? found[0]?.text,
  };
}

/** What clients kept when they were closed; undefined where nobody was left to be closed. */
async function leftBehind(sim: Simulation): Promise<readonly Violation[] | undefined> {
  const { history } = sim.world;
  const storyMs = sim.world.nowMs;
  heal(sim);
  if ((await closeAll(sim)) === 0) return undefined;
  return history.of("leak").map(({ client, what }) => {
    const text = `${client} was closed and kept ${what}`;
    return { invariant: "I10", text, atMs: storyMs } as const;
  });
}

/** What the scenario says of a run that did not go as it must. */
function complaintOf(scenario: Scenario, result: ScenarioResult): string | undefined {
  try {
    scenario.check(result);
    return undefined;
  } catch (error) {
    if (!(error instanceof Error) || error.name !== "ScenarioFailure") throw error;
    return error.message;
  }
}
