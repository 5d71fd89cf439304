/** `tenure break`: ends somebody else's lease, on the record. */
import { nameOperand, parse, required, STORE_FLAGS, tokenFlag } from "../arguments.js";
import type { Command } from "../command.js";
import { EXIT } from "../exit-codes.js";
import { printJson, say } from "../output.js";
import { withStoreAsItIs } from "../store.js";

const HELP = `Ends the lease of NAME if exactly this token still holds it. The next token is higher.

usage: tenure break NAME --token N --reason TEXT [--store URL] [--json]

  tenure show nightly-report
  tenure break nightly-report --token 34 --reason "host db3 is gone for good"

The holder may still be running: it learns of the break at its next renewal, up to a third of its
TTL later. Break only what certainly runs no more; a lease runs out by itself.

flags
  --token N      the token that \`tenure show\` prints: a later holder is not touched
  --reason TEXT  why; goes into the record of the break
  --store URL    the store; else $TENURE_STORE, else a file in your state folder
  --json         one line of JSON

exit code: 0 ended   64 wrong usage   69 store unavailable   79 that token does not hold`;

const FLAGS = { ...STORE_FLAGS, token: { type: "string" }, reason: { type: "string" } } as const;

async function run(args: readonly string[]): Promise<number> {
  const { values, operands } = parse(args, FLAGS);
  const name = nameOperand(operands, "tenure break NAME --token N --reason TEXT");
  const token = tokenFlag(values.token);
  const reason = required(values.reason, "--reason", 'such as --reason "host gone"');
  const tell = (broken: boolean): number => {
    if (values.json === true) printJson({ name, token, reason, broken });
    else if (!broken) {
      say(`token ${token} does not hold ${JSON.stringify(name)}: nothing was changed`);
    }
    return broken ? EXIT.ok : EXIT.lost;
  };
  return withStoreAsItIs(
    values,
    () => tell(false),
    async (tenure) => tell(await tenure.break(name, { token, reason })),
  );
}

/** The verb. */
export const command: Command = { help: HELP, run };
