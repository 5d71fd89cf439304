/** `tenure lab list`: the scenarios. */
import { parse, unexpected } from "../../arguments.js";
import type { Command } from "../../command.js";
import { EXIT } from "../../exit-codes.js";
import { print, printJson, table } from "../../output.js";
import { SCENARIOS } from "../../../lab/scenarios/play.js";

const HELP = `Lists the scenarios of the lab.

usage: tenure lab list [--json]

flags
  --json  one line of JSON for each: id, name, title

exit code: 0   64 wrong usage`;

const FLAGS = { json: { type: "boolean" } } as const;

async function run(args: readonly string[]): Promise<number> {
  const { values, operands } = parse(args, FLAGS);
  if (operands[0] !== undefined) throw unexpected(operands[0], "tenure lab list [--json]");
  const all = [...SCENARIOS].sort((a, b) => order(a.id) - order(b.id));
  if (values.json === true) {
    for (const { id, name, title } of all) printJson({ id, name, title });
  } else {
    const rows = all.map(({ id, name, title }) => [id === 0 ? "" : String(id), name, title]);
    print(table([["NO", "NAME", "WHAT HAPPENS"], ...rows]));
  }
  return EXIT.ok;
}

/** Those without a number are only there to look at, and come last. */
function order(id: number): number {
  return id === 0 ? Number.MAX_SAFE_INTEGER : id;
}

/** The verb. */
export const command: Command = { help: HELP, run };
