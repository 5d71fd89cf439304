/** What `tenure run` was asked to do. */
import { duration, exitCode, STORE_FLAGS, UsageError, word } from "./arguments.js";
import { COMMAND_FLAGS, parseOwn, readCommand, splitCommand } from "./command-plan.js";
import type { CommandPlan } from "./command-plan.js";
import { EXIT } from "./exit-codes.js";

/** A checked command line of `tenure run`. Durations in milliseconds. */
export interface RunPlan extends CommandPlan {
  /** Infinity: until granted. 0: one try. */
  readonly waitMs: number;
  readonly atLeastMs: number;
  /** Exit code when the name is held by someone else. */
  readonly busyExit: number;
  readonly proceeds: boolean;
}

const FLAGS = {
  ...STORE_FLAGS,
  ...COMMAND_FLAGS,
  wait: { type: "string" },
  "no-wait": { type: "boolean", short: "n" },
  "conflict-exit-code": { type: "string", short: "E" },
  "at-least": { type: "string" },
  "on-unavailable": { type: "string" },
} as const;

/**
 * The plan of a command line.
 *
 * @throws UsageError, TypeError or RangeError naming flag and value.
 */
export function readRunPlan(argv: readonly string[]): RunPlan {
  const split = splitCommand(argv);
  const { own, words } = split;
  const { values, operands } = parseOwn(split, FLAGS);
  const plan = readCommand("run", values, operands, own, words);
  const waitMs = duration(values.wait, "--wait", { zero: true });
  if (values["no-wait"] === true && waitMs !== undefined) {
    throw new UsageError("-n and --wait exclude each other", "-n is the same as --wait 0s");
  }
  return {
    ...plan,
    waitMs: values["no-wait"] === true ? 0 : (waitMs ?? Infinity),
    atLeastMs: duration(values["at-least"], "--at-least", { zero: true }) ?? 0,
    busyExit: exitCode(values["conflict-exit-code"], "-E") ?? EXIT.notAcquired,
    proceeds: proceeds(values["on-unavailable"]),
  };
}

function proceeds(value: string | undefined): boolean {
  return word(value, "--on-unavailable", ["fail", "proceed"], "fail") === "proceed";
}
