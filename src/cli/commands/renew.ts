/** `tenure renew`: sets the time left of a lease that `tenure acquire` took. */
import {
  duration, nameOperand, parse, required, STORE_FLAGS, tokenFlag,
} from "../arguments.js";
import type { Command } from "../command.js";
import { EXIT } from "../exit-codes.js";
import { printJson, say } from "../output.js";
import { withStoreAsItIs } from "../store.js";

const HELP = `Renews a lease that \`tenure acquire\` took: the time left becomes --ttl.

usage: tenure renew NAME --holder H --token N [--ttl 30s] [--store URL] [--json]

  tenure renew backup --holder "$TENURE_HOLDER" --token "$TENURE_TOKEN" --ttl 5m || exit

flags
  --holder H     the holder that \`tenure acquire\` printed
  --token N      the token that \`tenure acquire\` printed
  --ttl 30s      the new time left; without it $TENURE_TTL_MS of this lease, else 30 s
  --store URL    the store; else $TENURE_STORE, else a file in your state folder
  --json         one line of JSON

exit code: 0 renewed   64 wrong usage   69 store unavailable   79 lost: stop working`;

const FLAGS = {
  ...STORE_FLAGS,
  holder: { type: "string" },
  token: { type: "string" },
  ttl: { type: "string" },
} as const;

async function run(args: readonly string[]): Promise<number> {
  const { values, operands } = parse(args, FLAGS);
  const name = nameOperand(operands, "tenure renew NAME --holder H --token N [flags]");
  const holder = required(values.holder, "--holder", "the holder that `tenure acquire` printed");
  const token = tokenFlag(values.token);
  const ttl = duration(values.ttl, "--ttl") ?? ownTtl(holder);
  const nothing = (): number => {
    say(`${JSON.stringify(name)} is not held by token ${token}`);
    return EXIT.lost;
  };
  return withStoreAsItIs(values, nothing, async (tenure) => {
    const terms = { renew: false, ...(ttl === undefined ? {} : { ttl }) };
    const lease = await tenure.adopt({ name, holder, token }, terms);
    // Closing would give it back.
    tenure.detach(lease);
    if (values.json === true) printJson({ name, token, holder, ttlMs: lease.ttlMs });
    return EXIT.ok;
  });
}

/** The TTL that `tenure acquire` printed and `eval` set, if it is of this very lease. */
function ownTtl(holder: string): number | undefined {
  if (process.env["TENURE_HOLDER"] !== holder) return undefined;
  return Number(process.env["TENURE_TTL_MS"]) || undefined;
}

/** The verb. */
export const command: Command = { help: HELP, run };
