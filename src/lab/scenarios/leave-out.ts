/** A scenario without one of its faults: whether it still fails then. */
import { reportedOf, type LeftOut, type Reported } from "../report/reported.js";
import { Simulation, type SimulationOptions } from "../simulation.js";
import { resultOf } from "./play.js";
import type { Scenario, ScenarioResult } from "./scenario.js";

/** A scenario with more faults than these is not played without each of them. */
const MOST = 12;

/**
 * The report of a played scenario, with the same seed played again without each of its faults in
 * turn. A story that does not come about without one is told as far as it came.
 */
export async function reportedWithout(
  scenario: Scenario,
  settings: SimulationOptions,
  played: ScenarioResult,
): Promise<Reported> {
  const reported = reportedOf(played, scenario.title);
  const { plan } = played.sim.world;
  if (plan.length > MOST) return { ...reported, untried: plan.length };
  const without: LeftOut[] = [];
  for (const [nth, { text, atMs }] of plan.entries()) {
    const leaveOut = new Set([nth]);
    const sim = new Simulation({ ...scenario.options, ...settings, leaveOut });
    const stopped = await scenario.play(sim).then(
      () => undefined,
      (error: unknown) => (error instanceof Error ? error.message : String(error)),
    );
    const less = reportedOf(resultOf(scenario, sim));
    const { replay: _, ...rest } = less;
    without.push({ text, atMs, reported: rest, ...(stopped === undefined ? {} : { stopped }) });
  }
  return { ...reported, without };
}
