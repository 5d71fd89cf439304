/** What `tenure cron` was asked to do. */
import { duration, STORE_FLAGS, UsageError, word } from "./arguments.js";
import { COMMAND_FLAGS, parseOwn, readCommand, splitCommand, type CommandPlan } from "./command-plan.js";

/** A checked command line of `tenure cron`. Durations in milliseconds. */
export interface CronPlan extends CommandPlan {
  readonly cron: string;
  readonly timeZone: string;
  readonly missed: "skip" | "last" | "all";
  readonly crashed: "rerun" | "leave";
  /** Undefined: the default. */
  readonly lateMs: number | undefined;
}

const FLAGS = {
  ...STORE_FLAGS,
  ...COMMAND_FLAGS,
  tz: { type: "string" },
  missed: { type: "string" },
  crashed: { type: "string" },
  late: { type: "string" },
} as const;

const USAGE = "tenure cron NAME 'EXPRESSION' [flags] -- COMMAND [ARGUMENT…]";

/**
 * The plan of a command line.
 *
 * @throws UsageError, TypeError or RangeError naming flag and value.
 */
export function readCronPlan(argv: readonly string[]): CronPlan {
  const split = splitCommand(argv);
  const { own, words } = split;
  const { values, operands } = parseOwn(split, FLAGS);
  const [name, cron, ...more] = operands;
  if (name === undefined) throw new UsageError("NAME is missing", USAGE);
  if (cron === undefined) throw new UsageError("EXPRESSION is missing", USAGE);
  if (more.length > 0 && words !== undefined) {
    const hint = "an expression is one word: put it in quotes";
    throw new UsageError(`unexpected argument ${JSON.stringify(more[0])}`, hint);
  }
  if (words === undefined) throw new UsageError("the command to run must follow after --", USAGE);
  return {
    ...readCommand("cron", values, operands.slice(0, 1), own, words),
    cron,
    timeZone: values.tz ?? "UTC",
    missed: word(values.missed, "--missed", ["skip", "last", "all"], "skip"),
    crashed: word(values.crashed, "--crashed", ["rerun", "leave"], "rerun"),
    lateMs: duration(values.late, "--late"),
  };
}
