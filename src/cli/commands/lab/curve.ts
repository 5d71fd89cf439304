/** `tenure lab curve`: what a TTL costs and what it buys. */
import { duration, parse, unexpected, UsageError } from "../../arguments.js";
import type { Command } from "../../command.js";
import { EXIT } from "../../exit-codes.js";
import { print, printJson, say } from "../../output.js";
import { seedFlag, writeReport } from "./plan.js";
import { curve } from "../../../lab/curve.js";
import { curveHtml, curveText } from "../../../lab/report/curve-plot.js";

const HELP = `Measures in simulated runs, for several TTLs, with and without renewal: how long
nobody holds the lease after a crash, and how often a holder still works when the next is let in.

usage: tenure lab curve [--ttl TIME]… [--turns N] [--seed N] [--html FILE] [--json]

  tenure lab curve
  tenure lab curve --ttl 5s --ttl 15s --ttl 45s --html curve.html

flags
  --ttl TIME   a TTL to measure, several times; default 500ms to 60s
  --turns N    turns of work for each; default 600
  --seed N     what the runs are made of; default 1
  --html FILE  write a page with the plots
  --json       print one line of JSON for each TTL, with and without renewal

exit code: 0   64 wrong usage`;

const FLAGS = {
  ttl: { type: "string", multiple: true },
  turns: { type: "string" },
  seed: { type: "string" },
  html: { type: "string" },
  json: { type: "boolean" },
} as const;

const LIMITS = { minMs: 100, maxMs: 3_600_000 } as const;
const MOST_TURNS = 100_000;

async function run(args: readonly string[]): Promise<number> {
  const { values, operands } = parse(args, FLAGS);
  if (operands[0] !== undefined) throw unexpected(operands[0], "tenure lab curve [flags]");
  const ttls = values.ttl?.map((ttl) => duration(ttl, "--ttl", LIMITS)!).sort((a, b) => a - b);
  const points = await curve({
    seed: seedFlag(values.seed),
    ...(ttls === undefined ? {} : { ttls }),
    ...(values.turns === undefined ? {} : { turns: turnsFlag(values.turns) }),
  });
  if (values.html !== undefined) {
    writeReport(values.html, "--html", curveHtml(points));
    if (values.json !== true) say(`wrote ${values.html}`);
  }
  if (values.json === true) for (const point of points) printJson(point);
  else print(curveText(points).trimEnd());
  return EXIT.ok;
}

function turnsFlag(value: string): number {
  const turns = Number(value);
  if (/^\d+$/.test(value) && turns > 0 && turns <= MOST_TURNS) return turns;
  const got = JSON.stringify(value);
  throw new UsageError(`--turns is a whole number from 1 to ${MOST_TURNS}, got ${got}`);
}

/** The verb. */
export const command: Command = { help: HELP, run };
