/** `tenure show`: who holds one name. */
import type { Inspection } from "../../core/inspection.js";
import type { Tenure } from "../../core/tenure.js";
import type { FencingToken } from "../../core/token.js";
import { nameOperand, parse, STORE_FLAGS } from "../arguments.js";
import type { Command } from "../command.js";
import { EXIT } from "../exit-codes.js";
import { print, printJson, quoted, readable, table, visible } from "../output.js";
import { LOOKING, withStoreAsItIs } from "../store.js";

type AnyTenure = Tenure<FencingToken | undefined>;

const HELP = `Shows who holds NAME, with which token, and for how long yet.

usage: tenure show NAME [--store URL] [--json]

  tenure show nightly-report
  tenure show nightly-report --json | jq -r .token

flags
  --store URL  the store; else $TENURE_STORE, else a file in your state folder
  --json       one line of JSON: {"name":…,"held":true,"token":"34","holder":…,"expiresInMs":…}

exit code: 0 held   1 free   64 wrong usage   69 store unavailable`;

async function run(args: readonly string[]): Promise<number> {
  const { values, operands } = parse(args, STORE_FLAGS);
  const name = nameOperand(operands, "tenure show NAME [flags]");
  const tell = (held: Inspection | null): number => {
    if (values.json === true) printJson({ name, held: held !== null, ...held });
    else if (held === null) print(`${quoted(name)} is free`);
    else print(table(rows(held)));
    return held === null ? EXIT.free : EXIT.ok;
  };
  const ask = async (tenure: AnyTenure): Promise<number> => tell(await tenure.inspect(name));
  return withStoreAsItIs(values, () => tell(null), ask, LOOKING);
}

function rows(held: Inspection): string[][] {
  const { name, token, holder, expiresInMs, waiters } = held;
  const info = Object.entries(held.holderInfo ?? {});
  const all: [string, string | undefined][] = [
    ["name", quoted(name)],
    ["token", token?.toString()],
    ["holder", holder],
    ...info.map(([key, value]): [string, string] => [key, String(value)]),
    ["time left", expiresInMs === undefined ? undefined : readable(Math.max(0, expiresInMs))],
    ["waiters", waiters?.toString()],
  ];
  return all.flatMap(([key, value]) => (value === undefined ? [] : [[key, visible(value)]]));
}

/** The verb. */
export const command: Command = { help: HELP, run };
