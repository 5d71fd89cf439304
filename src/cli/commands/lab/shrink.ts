/** `tenure lab shrink`: a failing random run, with the faults that it needs and no more. */
import { parse, unexpected, UsageError } from "../../arguments.js";
import type { Command } from "../../command.js";
import { EXIT } from "../../exit-codes.js";
import { print, printJson, say } from "../../output.js";
import { meantOf } from "../../nearest.js";
import { fenceFlag, seedFlag, writeReport } from "./plan.js";
import { storeFlag } from "./soak.js";
import { shrink, type Shrunk } from "../../../lab/shrink.js";
import { VARIANTS } from "../../../lab/variants/index.js";

const HELP = `Makes a failing random run small: leaves out every fault without which it still fails.

usage: tenure lab shrink SEED [--store MODEL] [--fence none|naive|armed] [--variant NAME]
                         [--history FILE] [--json]

  tenure lab shrink 4711                              a seed that tenure lab soak complained of
  tenure lab shrink 3 --fence none                    how an unfenced resource loses an update
  tenure lab shrink 2 --variant monotonic-only        how a known-bad lock fails

flags
  --store MODEL   poll, notify, queue, pair, sessions or observed; default the one that a soak takes
  --fence MODE    none, naive or armed (the default)
  --variant NAME  run a known-bad lock, on its own store and with its own fence
  --history FILE  write what happened in the small run as lines of JSON
  --json          print one line of JSON

exit code: 0 the run fails, and was made small   1 it does not fail   64 wrong usage`;

const FLAGS = {
  store: { type: "string" },
  fence: { type: "string" },
  variant: { type: "string" },
  history: { type: "string" },
  json: { type: "boolean" },
} as const;

const USAGE = "tenure lab shrink SEED [flags]";

async function run(args: readonly string[]): Promise<number> {
  const { values, operands } = parse(args, FLAGS);
  const [operand, extra] = operands;
  if (operand === undefined) throw new UsageError("SEED is missing", USAGE);
  if (extra !== undefined) throw unexpected(extra, USAGE);
  const seed = seedFlag(operand, "SEED");
  Error.stackTraceLimit = 0;
  const small = await shrink({
    seed,
    fence: fenceFlag(values.fence),
    ...(values.store === undefined ? {} : { store: storeFlag(values.store) }),
    ...(values.variant === undefined ? {} : { variant: variantFlag(values.variant) }),
  });
  if (small === undefined) {
    if (values.json === true) printJson({ seed, violation: null });
    else print(`seed ${seed} breaks no invariant`);
    return EXIT.broken;
  }
  if (values.history !== undefined) {
    writeReport(values.history, "--history", small.result.sim.world.history.toJsonLines());
    if (values.json !== true) say(`wrote ${values.history}`);
  }
  if (values.json === true) printJson(outcomeOf(small));
  else show(small);
  return EXIT.ok;
}

function outcomeOf({ seed, salt, faults, events, removed, isLossy, forMs, runs, ...rest }: Shrunk) {
  const { violation, result } = rest;
  const { fence, traceHash } = result;
  const small = { faults, events, removed, isLossy, forMs: Math.round(forMs) };
  return { seed, salt, fence, ...small, runs, violation, traceHash };
}

function show({ seed, faults, events, removed, isLossy, forMs, runs, violation }: Shrunk): void {
  print(`${violation.invariant}: ${violation.text}`);
  const seconds = (forMs / 1_000).toFixed(0);
  print(`seed ${seed}: ${events} of ${events + removed} faults are needed, within ${seconds} s:`);
  if (isLossy) print("  the network loses and doubles messages");
  for (const fault of faults) print(`  ${fault}`);
  if (events === 0) print("  none: it fails by itself");
  print(`it took ${runs} runs to tell`);
}

function variantFlag(value: string): string {
  const names = VARIANTS.map(({ name }) => name);
  if (names.includes(value)) return value;
  const hint = `${meantOf(value, names)}variants are ${names.join(" ")}`;
  throw new UsageError(`there is no variant ${JSON.stringify(value)}`, hint);
}

/** The verb. */
export const command: Command = { help: HELP, run };
