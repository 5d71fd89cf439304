/** `tenure lab check`: what is wrong with a recorded history. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { duration, parse, unexpected, UsageError } from "../../arguments.js";
import type { Command } from "../../command.js";
import { EXIT } from "../../exit-codes.js";
import { print, printJson, say } from "../../output.js";
import { writeReport } from "./plan.js";
import { html } from "../../../lab/report/html.js";
import { checkHistory, readHistory, UNRECORDED, type BadLine } from "../../../lab/report/recorded.js";
import type { Reported } from "../../../lab/report/reported.js";
import { timeline } from "../../../lab/report/timeline.js";

const HELP = `Says what is wrong with a history: one of the lab, or one from logs of your system.

usage: tenure lab check HISTORY.jsonl [--html FILE] [--last TIME] [--tokens-may-repeat]
                        [--json]

  tenure lab run paused-holder --fence none --history run.jsonl
  tenure lab check run.jsonl

HISTORY.jsonl has one fact on a line, in the order in which they happened; - reads it from stdin.
Grants of the store and writes of the resource are enough:
  {"atMs":0,"kind":"grant","key":"job","token":"33","holder":"h1","client":"A","ttlMs":10000}
  {"atMs":10000,"kind":"end","key":"job","token":"33","holder":"h1","why":"expired"}
and of a write, on one line:
  {"atMs":12000,"kind":"write","resource":"account","client":"A","token":"33","holder":"h1",
   "accepted":true,"base":0,"value":1}
docs/guide/lab.md in this package lists all kinds of facts.

flags
  --html FILE          write a page that shows it
  --last TIME          show only so much of its end; all of it is checked
  --tokens-may-repeat  the store may give a token out again, as after a failover that lost a grant
  --json               print what was found as one line of JSON

exit code: 0 nothing is wrong   1 an invariant is broken   2 a line is no fact   64 wrong usage`;

const FLAGS = {
  html: { type: "string" },
  last: { type: "string" },
  "tokens-may-repeat": { type: "boolean" },
  json: { type: "boolean" },
} as const;

const USAGE = "tenure lab check HISTORY.jsonl [flags]";
/** More lines than these say the same: it is another format. */
const MOST_TOLD = 5;

async function run(args: readonly string[]): Promise<number> {
  const { values, operands } = parse(args, FLAGS);
  const [file, extra] = operands;
  if (file === undefined) throw new UsageError("HISTORY.jsonl is missing", USAGE);
  if (extra !== undefined) throw unexpected(extra, USAGE);
  const json = values.json === true;
  const { events, bad } = readHistory(readText(file));
  if (bad.length > 0) return refuse(file, bad, json);
  if (events.length === 0) return refuse(file, [{ line: 1, why: "there is no fact in it" }], json);
  const tokensMayRepeat = values["tokens-may-repeat"] === true;
  const violations = checkHistory(events, { tokensMayRepeat });
  const lastMs = duration(values.last, "--last");
  const shown = lastMs === undefined ? {} : { lastMs };
  const about = { scenario: path.basename(file), unasked: UNRECORDED };
  const reported: Reported = { ...about, events, violations, ...shown };
  if (values.html !== undefined) {
    writeReport(values.html, "--html", html([reported]));
    if (!json) say(`wrote ${values.html}`);
  }
  const isWrong = violations.length > 0;
  if (json) printJson({ history: file, facts: events.length, ok: !isWrong, violations });
  else print(timeline(reported, { width: process.stdout.columns ?? 100, rows: 0 }).trimEnd());
  return isWrong ? EXIT.broken : EXIT.ok;
}

function readText(file: string): string {
  try {
    return readFileSync(file === "-" ? 0 : file, "utf8");
  } catch (error) {
    throw new UsageError(`${file} cannot be read: ${(error as Error).message}`);
  }
}

function refuse(file: string, bad: readonly BadLine[], json: boolean): number {
  if (json) {
    printJson({ history: file, ok: false, bad });
    return EXIT.malformed;
  }
  for (const { line, why } of bad.slice(0, MOST_TOLD)) say(`${file}: line ${line}: ${why}`);
  if (bad.length > MOST_TOLD) say(`${file}: ${bad.length - MOST_TOLD} more lines are wrong`);
  return EXIT.malformed;
}

/** The verb. */
export const command: Command = { help: HELP, run };
