/** `tenure lab`: failures in a simulated world, and what becomes of them. */
import { UsageError } from "../arguments.js";
import type { Command } from "../command.js";
import { EXIT } from "../exit-codes.js";
import { print } from "../output.js";
import { meantOf } from "../nearest.js";

const HELP = `Makes locks fail, in a simulated world in which the real code runs.

usage: tenure lab VERB …

  tenure lab run paused-holder --fence none      a frozen holder wakes, and its write lands
  tenure lab run paused-holder --fence armed     the same run; the write is refused

  list      the scenarios
  run       play one, and draw what happened
  check     say what is wrong with a recorded history
  attack    freeze a worker of yours past its lease, and see whether its late write lands
  curve     recovery time and overlap by TTL
  soak      random faults for some minutes, on every model of a store
  shrink    a failing random run, with the faults that it needs and no more

tenure lab VERB --help says more. A run is made of its seed: the same seed is the same run.`;

/** The verbs, each loaded when it is asked for. */
const VERBS: Readonly<Record<string, () => Promise<{ readonly command: Command }>>> = {
  list: () => import("./lab/list.js"),
  run: () => import("./lab/run.js"),
  check: () => import("./lab/check.js"),
  attack: () => import("./lab/attack.js"),
  curve: () => import("./lab/curve.js"),
  soak: () => import("./lab/soak.js"),
  shrink: () => import("./lab/shrink.js"),
};

async function run([verb, ...args]: readonly string[]): Promise<number> {
  if (verb === undefined) throw new UsageError("a verb is missing", "see tenure lab --help");
  const load = Object.hasOwn(VERBS, verb) ? VERBS[verb] : undefined;
  if (load === undefined) {
    const verbs = Object.keys(VERBS);
    const hint = `${meantOf(verb, verbs)}verbs are ${verbs.join(" ")}`;
    throw new UsageError(`tenure lab has no verb ${JSON.stringify(verb)}`, hint);
  }
  const { command } = await load();
  const split = args.indexOf("--");
  const flags = split === -1 ? args : args.slice(0, split);
  if (flags.includes("--help") || flags.includes("-h")) {
    print(command.help);
    return EXIT.ok;
  }
  return command.run(args);
}

/** The verb. */
export const command: Command = { help: HELP, run, hasVerbs: true };
