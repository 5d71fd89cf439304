/** `tenure release`: gives a lease back that `tenure acquire` took. */
import { nameOperand, parse, required, STORE_FLAGS, tokenFlag } from "../arguments.js";
import type { Command } from "../command.js";
import { EXIT } from "../exit-codes.js";
import { printJson, say } from "../output.js";
import { withStoreAsItIs } from "../store.js";

const HELP = `Gives a lease back that \`tenure acquire\` took. Never touches a later lease.

usage: tenure release NAME --holder H --token N [--store URL] [--json]

  tenure release backup --holder "$TENURE_HOLDER" --token "$TENURE_TOKEN"

flags
  --holder H     the holder that \`tenure acquire\` printed
  --token N      the token that \`tenure acquire\` printed
  --store URL    the store; else $TENURE_STORE, else a file in your state folder
  --json         one line of JSON

exit code: 0 released   64 wrong usage   69 store unavailable
  79 not held any more: it had run out, was broken, or was given back before`;

const FLAGS = { ...STORE_FLAGS, holder: { type: "string" }, token: { type: "string" } } as const;

async function run(args: readonly string[]): Promise<number> {
  const { values, operands } = parse(args, FLAGS);
  const name = nameOperand(operands, "tenure release NAME --holder H --token N [flags]");
  const holder = required(values.holder, "--holder", "the holder that `tenure acquire` printed");
  const token = tokenFlag(values.token);
  const tell = (answer: "released" | "not-held"): number => {
    if (values.json === true) printJson({ name, token, answer });
    else if (answer !== "released") say(`${JSON.stringify(name)} was not held by token ${token}`);
    return answer === "released" ? EXIT.ok : EXIT.lost;
  };
  return withStoreAsItIs(
    values,
    () => tell("not-held"),
    async (tenure) => tell(await tenure.giveBack({ name, holder, token })),
  );
}

/** The verb. */
export const command: Command = { help: HELP, run };
