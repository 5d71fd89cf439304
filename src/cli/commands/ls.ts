/** `tenure ls`: the leases that are held. */
import type { Tenure } from "../../core/tenure.js";
import type { FencingToken } from "../../core/token.js";
import { parse, STORE_FLAGS, unexpected } from "../arguments.js";
import type { Command } from "../command.js";
import { EXIT } from "../exit-codes.js";
import { print, printJson, processOf, quoted, readable, table } from "../output.js";
import { LOOKING, withStoreAsItIs } from "../store.js";

const HELP = `Lists the leases that are held, in order of their names.

usage: tenure ls [PREFIX] [--store URL] [--json]

  tenure ls
  tenure ls report: --json | jq -r .name

flags
  --store URL  the store; else $TENURE_STORE, else a file in your state folder
  --json       one line of JSON for each lease

exit code: 0 (also when there is none)   64 wrong usage   69 store unavailable`;

async function run(args: readonly string[]): Promise<number> {
  const { values, operands } = parse(args, STORE_FLAGS);
  const [prefix = "", extra] = operands;
  if (extra !== undefined) throw unexpected(extra, "tenure ls [PREFIX] [flags]");
  const list = async (tenure: Tenure<FencingToken | undefined>): Promise<number> => {
    const found = [];
    for await (const lease of tenure.list(prefix)) found.push(lease);
    found.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
    if (values.json === true) {
      for (const lease of found) printJson(lease);
    } else if (found.length > 0) {
      const rows = found.map((lease) => [
        quoted(lease.name),
        lease.token?.toString() ?? "-",
        lease.expiresInMs === undefined ? "-" : readable(Math.max(0, lease.expiresInMs)),
        processOf(lease),
      ]);
      print(table([["NAME", "TOKEN", "LEFT", "HOLDER"], ...rows]));
    }
    return EXIT.ok;
  };
  return withStoreAsItIs(values, () => EXIT.ok, list, LOOKING);
}

/** The verb. */
export const command: Command = { help: HELP, run };
