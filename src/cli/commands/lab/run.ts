/** `tenure lab run`: plays a scenario, and draws what happened. */
import { parse } from "../../arguments.js";
import type { Command } from "../../command.js";
import { EXIT } from "../../exit-codes.js";
import { print, printJson, say } from "../../output.js";
import { fenceFlag, FENCES, scenarioOperand, seedFlag, writeReport } from "./plan.js";
import { html } from "../../../lab/report/html.js";
import { mermaid } from "../../../lab/report/mermaid.js";
import { reportedOf, type Reported } from "../../../lab/report/reported.js";
import { timeline } from "../../../lab/report/timeline.js";
import { examine, type Examined } from "../../../lab/scenarios/examine.js";
import { reportedWithout } from "../../../lab/scenarios/leave-out.js";
import type { Scenario } from "../../../lab/scenarios/scenario.js";

const HELP = `Plays a scenario with the real code in a simulated world, and draws what happened.

usage: tenure lab run SCENARIO [--fence none|naive|armed] [--seed N] [--html FILE] [--mermaid]
                      [--history FILE] [--json]

  tenure lab run paused-holder --fence none
  tenure lab run first-write-hole --fence naive --html hole.html

flags
  --fence MODE    none: every write is taken; naive: a token below the highest written is refused;
                  armed (the default): the fence of this library
  --seed N        what the run is made of, 0 to 4294967295; default 1
  --html FILE     write a page with the same seed under all three fences, below each other, and
                  each again without one of its faults: a slider chooses which
  --mermaid       print a Mermaid sequence diagram instead of the timeline
  --history FILE  write what happened as lines of JSON, which tenure lab check reads
  --json          print the outcome as one line of JSON

exit code: 0 it went as the scenario says for this fence, lost updates included   1 it did not
64 wrong usage`;

const FLAGS = {
  fence: { type: "string" },
  seed: { type: "string" },
  html: { type: "string" },
  history: { type: "string" },
  mermaid: { type: "boolean" },
  json: { type: "boolean" },
} as const;

async function run(args: readonly string[]): Promise<number> {
  const { values, operands } = parse(args, FLAGS);
  const scenario = scenarioOperand(operands, "tenure lab run SCENARIO [flags]");
  const [fence, seed] = [fenceFlag(values.fence), seedFlag(values.seed)];
  const result = await examine(scenario, { seed, fence });
  const { wrong } = result;
  if (values.history !== undefined) {
    writeReport(values.history, "--history", result.sim.world.history.toJsonLines());
  }
  if (values.html !== undefined) {
    writeReport(values.html, "--html", html(await panels(scenario, seed, result), fence));
    if (values.json !== true) say(`wrote ${values.html}`);
  }
  const reported = reportedOf(result, scenario.title);
  if (values.json === true) printJson(outcomeOf(result));
  else if (values.mermaid === true) print(mermaid(reported).trimEnd());
  else print(timeline(reported, { width: process.stdout.columns ?? 100 }).trimEnd());
  if (wrong === undefined) return EXIT.ok;
  if (values.json !== true) say(`it did not go as the scenario says: ${wrong}`);
  return EXIT.broken;
}

/** What `--json` prints. */
function outcomeOf(result: Examined): Record<string, unknown> {
  const { scenario, seed, fence, grants, faults, lostUpdates, staleRefused } = result;
  const { violations, traceHash, simulatedMs, wrong } = result;
  const asExpected = wrong === undefined;
  return {
    ...{ scenario, seed, fence, grants, faults, lostUpdates, staleRefused, violations, traceHash },
    simulatedMs,
    asExpected,
    ...(asExpected ? {} : { wrong }),
  };
}

/** The same seed under each fence, and for each without one fault after the other. */
async function panels(
  scenario: Scenario,
  seed: number,
  played: Examined,
): Promise<readonly Reported[]> {
  const all: Reported[] = [];
  for (const fence of FENCES) {
    const result = fence === played.fence ? played : await examine(scenario, { seed, fence });
    all.push(await reportedWithout(scenario, { seed, fence }, result));
  }
  return all;
}

/** The verb. */
export const command: Command = { help: HELP, run };
