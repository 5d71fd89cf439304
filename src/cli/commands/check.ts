/** `tenure check`: whether a token still holds. */
import type { Inspection } from "../../core/inspection.js";
import type { Tenure } from "../../core/tenure.js";
import type { FencingToken } from "../../core/token.js";
import { nameOperand, parse, STORE_FLAGS, tokenFlag } from "../arguments.js";
import type { Command } from "../command.js";
import { EXIT } from "../exit-codes.js";
import { printJson, say, whoHolds } from "../output.js";
import { withStoreAsItIs } from "../store.js";

type AnyTenure = Tenure<FencingToken | undefined>;

const HELP = `Asks the store whether a token still holds NAME.

usage: tenure check NAME --token N [--holder H] [--store URL] [--json]

  tenure check "$TENURE_NAME" --token "$TENURE_TOKEN" || exit

The answer is true of the moment at which the store gave it. A script that checks and then writes
can still be overtaken in between: only a resource that compares tokens at the write prevents that.

flags
  --token N      the token to check
  --holder H     check the holder, too
  --store URL    the store; else $TENURE_STORE, else a file in your state folder
  --json         one line of JSON

exit code: 0 it holds   64 wrong usage   69 store unavailable   79 it does not`;

const FLAGS = { ...STORE_FLAGS, token: { type: "string" }, holder: { type: "string" } } as const;

async function run(args: readonly string[]): Promise<number> {
  const { values, operands } = parse(args, FLAGS);
  const name = nameOperand(operands, "tenure check NAME --token N [flags]");
  const token = tokenFlag(values.token);
  const tell = (held: Inspection | null): number => {
    const holds =
      held?.token === token && (values.holder === undefined || held.holder === values.holder);
    if (values.json === true) printJson({ name, token, holds, held });
    else if (!holds) {
      const now = held === null ? "nobody holds it" : `held by ${whoHolds(held)}`;
      say(`token ${token} does not hold ${JSON.stringify(name)}: ${now}`);
    }
    return holds ? EXIT.ok : EXIT.lost;
  };
  const ask = async (tenure: AnyTenure): Promise<number> => tell(await tenure.inspect(name));
  return withStoreAsItIs(values, () => tell(null), ask);
}

/** The verb. */
export const command: Command = { help: HELP, run };
