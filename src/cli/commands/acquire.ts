/** `tenure acquire`: a lease that outlives the command, for scripts. */
import type { DetachedLease } from "../../core/detached.js";
import type { Tenure } from "../../core/tenure.js";
import type { FencingToken } from "../../core/token.js";
import { acquireOrRefuse } from "../acquire.js";
import { duration, nameOperand, parse, STORE_FLAGS, UsageError } from "../arguments.js";
import type { Command } from "../command.js";
import { EXIT } from "../exit-codes.js";
import { exportLines, isStdoutClosed, OutputError, printed, toJson } from "../output.js";
import { Signals } from "../signals.js";
import { chooseStore, openStore } from "../store.js";

const HELP = `Takes the lease of NAME and leaves it to the caller: nobody renews it.

usage: tenure acquire NAME [--ttl 30s] [--wait 10m | -n] [--store URL] [--json]

  lease=$(tenure acquire backup --ttl 5m -n) || exit
  eval "$lease"
  …
  tenure renew backup --holder "$TENURE_HOLDER" --token "$TENURE_TOKEN" --ttl 5m || exit
  …
  tenure release backup --holder "$TENURE_HOLDER" --token "$TENURE_TOKEN"

Prints export lines for TENURE_NAME TENURE_TOKEN TENURE_HOLDER TENURE_TTL_MS TENURE_STORE, or with
--json one object. The lease runs out --ttl after it was asked for, unless renewed. Prefer
\`tenure run\`, which renews, and stops its command when the lease is lost.

flags
  --ttl 30s      how long the lease lasts without \`tenure renew\`
  --wait 10m     longest wait; without it as long as it takes
  -n, --no-wait  one try
  --store URL    the store; else $TENURE_STORE, else a file in your state folder
  --json         one line of JSON

What it prints is all that renews and releases the lease. If stdout cannot be written, the lease is
given back; if stdout is closed, none is taken. \`> /dev/null\` takes one that only its TTL ends.

exit code: 0 granted   64 wrong usage   69 store unavailable   74 stdout cannot be written
  75 held by someone else`;

const FLAGS = {
  ...STORE_FLAGS,
  ttl: { type: "string" },
  wait: { type: "string" },
  "no-wait": { type: "boolean", short: "n" },
} as const;

async function run(args: readonly string[]): Promise<number> {
  const { values, operands } = parse(args, FLAGS);
  const name = nameOperand(operands, "tenure acquire NAME [flags]");
  const ttl = duration(values.ttl, "--ttl");
  const waitMs = duration(values.wait, "--wait", { zero: true });
  if (values["no-wait"] === true && waitMs !== undefined) {
    throw new UsageError("-n and --wait exclude each other", "-n is the same as --wait 0s");
  }
  if (isStdoutClosed()) {
    throw new OutputError("stdout is closed: nobody would learn what releases the lease");
  }
  const signals = new Signals();
  const store = chooseStore(values.store);
  const tenure = await openStore(store);
  try {
    const lease = await acquireOrRefuse(tenure, name, {
      ...(ttl === undefined ? {} : { ttl }),
      wait: values["no-wait"] === true ? 0 : (waitMs ?? Infinity),
      renew: false,
      signal: signals.waiting,
      holderInfo: { command: "tenure acquire" },
    });
    const { ttlMs } = lease;
    const { holder, token } = tenure.detach(lease);
    const text =
      values.json === true
        ? toJson({ name, token, holder, ttlMs, store: store.url })
        : exportLines({
            TENURE_NAME: name,
            TENURE_TOKEN: token.toString(),
            TENURE_HOLDER: holder,
            TENURE_TTL_MS: String(ttlMs),
            TENURE_STORE: store.url,
          });
    const failure = await printed(text);
    if (failure !== undefined) throw await unwritten(tenure, { name, holder, token }, failure);
    return EXIT.ok;
  } finally {
    signals.close();
    await tenure.close().catch(() => undefined);
  }
}

/** Gives back a lease of which nobody has learned. */
async function unwritten(
  tenure: Tenure<FencingToken | undefined>,
  lease: DetachedLease,
  failure: Error,
): Promise<OutputError> {
  const what = `the lease of ${JSON.stringify(lease.name)} could not be written to stdout`;
  try {
    await tenure.giveBack(lease);
    return new OutputError(`${what}, and was given back`, failure);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return new OutputError(`${what}, nor given back: it ends with its TTL; ${why}`, failure);
  }
}

/** The verb. */
export const command: Command = { help: HELP, run };
