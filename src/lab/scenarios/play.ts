/** Plays a scenario, and lists them all. */
import { judgeClients } from "../checkers/clients.js";
import { Simulation, type SimulationOptions } from "../simulation.js";
import { clockJumpScenarios } from "./clock-jumps.js";
import { clockRedlockScenarios } from "./clock-redlock.js";
import { electionTermScenarios } from "./election-terms.js";
import { fenceMarkScenarios } from "./fence-marks.js";
import { fenceTokenScenarios } from "./fence-tokens.js";
import { fenceWriteScenarios } from "./fence-writes.js";
import { holderAsleepScenarios } from "./holder-asleep.js";
import { holderGoneScenarios } from "./holder-gone.js";
import { holderScenarios } from "./holder.js";
import { lookElectionScenarios } from "./look-elections.js";
import { lookLockScenarios } from "./look-locks.js";
import { lookRaftScenarios } from "./look-raft.js";
import { networkAnswerScenarios } from "./network-answers.js";
import { networkCutScenarios } from "./network-cuts.js";
import { networkWaitingScenarios } from "./network-waiting.js";
import { lookTtlScenarios } from "./look-ttl.js";
import type { Scenario, ScenarioResult } from "./scenario.js";
import { storeCancelScenarios } from "./store-cancel.js";
import { storeLossScenarios } from "./store-loss.js";
import { storeMasterScenarios } from "./store-masters.js";
import { storeReleaseScenarios } from "./store-release.js";
import { storeSessionScenarios } from "./store-sessions.js";

/** All scenarios, in the order of their numbers. */
export const SCENARIOS: readonly Scenario[] = inOrder(
  clockRedlockScenarios,
  clockJumpScenarios,
  networkWaitingScenarios,
  networkCutScenarios,
  networkAnswerScenarios,
  holderGoneScenarios,
  holderAsleepScenarios,
  holderScenarios,
  storeLossScenarios,
  storeSessionScenarios,
  fenceWriteScenarios,
  fenceMarkScenarios,
  fenceTokenScenarios,
  storeCancelScenarios,
  storeReleaseScenarios,
  electionTermScenarios,
  storeMasterScenarios,
  lookLockScenarios,
  lookElectionScenarios,
  lookRaftScenarios,
  lookTtlScenarios,
);

/** The scenario of this name. @throws RangeError naming those that there are. */
export function findScenario(name: string): Scenario {
  const found = SCENARIOS.find((scenario) => scenario.name === name);
  if (found !== undefined) return found;
  const names = SCENARIOS.map((scenario) => scenario.name).join(" ");
  throw new RangeError(`there is no scenario ${JSON.stringify(name)}; there are ${names}`);
}

/** By number; those without one come last. */
function inOrder(...groups: readonly (readonly Scenario[])[]): readonly Scenario[] {
  const place = ({ id }: Scenario): number => (id === 0 ? Infinity : id);
  return groups.flat().sort((a, b) => (place(a) === place(b) ? 0 : place(a) - place(b)));
}

/**
 * One run. The same seed gives the same run. Settings come before the scenario's own, so that it
 * can be played with something that is wrong on purpose.
 */
export async function play(
  scenario: Scenario,
  settings: SimulationOptions,
): Promise<ScenarioResult> {
  const sim = new Simulation({ ...scenario.options, ...settings });
  await scenario.play(sim);
  return resultOf(scenario, sim);
}

/** What has come of a run so far. */
export function resultOf(scenario: Scenario, sim: Simulation): ScenarioResult {
  const outcome = sim.outcome();
  const { violations, tested } = judgeClients(sim);
  return {
    ...outcome,
    violations: [...outcome.violations, ...violations],
    tested,
    scenario: scenario.name,
    sim,
    of: (...kinds) => sim.world.history.of(...kinds),
  };
}
