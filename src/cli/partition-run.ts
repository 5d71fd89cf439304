/** A command for each partition that is owned here. */
import { defaultGraceMs } from "../core/deadline.js";
import { LeaseLostError } from "../core/errors.js";
import type { OwnedPartition } from "../partitions/contract.js";
import { partitions } from "../partitions/group.js";
import { machineTimers } from "../platform/clocks.js";
import { duration, STORE_FLAGS, UsageError } from "./arguments.js";
import { ChildRun } from "./child-run.js";
import { checkPlatform, CLOSE_MS, endOf, orInterrupted, within } from "./command-end.js";
import { COMMAND_FLAGS, parseOwn, readCommand } from "./command-plan.js";
import type { CommandPlan } from "./command-plan.js";
import { EXIT, signalExit } from "./exit-codes.js";
import { GuardedChild } from "./guarded-child.js";
import { exitOf } from "./lease-run.js";
import { stamp } from "./machine-time.js";
import { RunReport } from "./run-report.js";
import { Signals } from "./signals.js";
import { openForTokens } from "./store.js";

/** A checked command line. */
export interface EachPlan extends CommandPlan {
  readonly count: number;
  /** Undefined: the default of the group. */
  readonly drainMs: number | undefined;
}

const COMMAND_ONLY = ["count", "drain", "ttl", "grace", "shell"] as const;

const FLAGS = {
  ...STORE_FLAGS,
  ...COMMAND_FLAGS,
  count: { type: "string" },
  drain: { type: "string" },
} as const;

/** Whether a command is meant to run, although no `--` says where it begins. */
export function meansCommand(own: readonly string[]): boolean {
  return own.some((arg) => COMMAND_ONLY.some((flag) => arg.startsWith(`--${flag}`)));
}

/**
 * The plan of a command line; `words` is undefined where its `--` is missing.
 *
 * @throws UsageError, TypeError or RangeError naming flag and value.
 */
export function readEachPlan(
  own: readonly string[],
  words: readonly string[] | undefined,
): EachPlan {
  const { values, operands } = parseOwn({ own, words }, FLAGS);
  const { count = "" } = values;
  const plan = readCommand("partitions", values, operands, own, words);
  if (!/^[1-9][0-9]{0,5}$/.test(count)) {
    const got = values.count === undefined ? "" : `, got ${JSON.stringify(count)}`;
    throw new UsageError(`--count needs a number${got}`, "the same for all members of the group");
  }
  const drainMs = duration(values.drain, "--drain", { zero: true });
  return { ...plan, count: Number(count), drainMs };
}

/** A command that did not end well. */
class CommandFailed extends Error {
  readonly exitCode: number;

  constructor(exitCode: number) {
    super(`a command ended with ${exitCode}`);
    this.exitCode = exitCode;
  }
}

/** Runs the command for each partition until an ending signal, or until one has failed. */
export async function runEach(plan: EachPlan): Promise<number> {
  checkPlatform("partitions");
  const signals = new Signals();
  const { ttlMs, graceMs, drainMs, count, file } = plan;
  try {
    const tenure = await orInterrupted(openForTokens(plan.store), signals.waiting);
    try {
      const group = await partitions(tenure, plan.name, {
        count,
        ...(ttlMs === undefined ? {} : { ttl: ttlMs }),
        ...(graceMs === undefined ? {} : { grace: graceMs }),
        ...(drainMs === undefined ? {} : { drain: drainMs }),
        info: { command: file },
        signal: signals.waiting,
      });
      const work = (partition: OwnedPartition): Promise<void> => runOne(partition, plan);
      await group.run(work, { signal: signals.waiting });
    } finally {
      await within(tenure.close(), CLOSE_MS);
    }
    return signals.asked === undefined ? EXIT.ok : signalExit(signals.asked.number);
  } catch (error) {
    if (error instanceof CommandFailed) return error.exitCode;
    return endOf(error, plan, new RunReport(plan.name, plan.json));
  } finally {
    signals.close();
  }
}

/** One command, for as long as its partition is owned. @throws CommandFailed. */
async function runOne(partition: OwnedPartition, plan: EachPlan): Promise<void> {
  const { revoked, signal, ttlMs } = partition;
  const report = new RunReport(partition.name, plan.json);
  const child = new GuardedChild(partition.name, machineTimers);
  // An ending signal goes to the group, which revokes: its TERM is what the command gets.
  const signals = { passTo: () => undefined, passToNobody: () => undefined };
  const run = new ChildRun(partition, { plan, child, signals, report });
  const finish = (): void => void child.signal("SIGTERM", true);
  const overdue = (): void => {
    if (signal.reason instanceof LeaseLostError) return;
    const killInMs = plan.graceMs ?? defaultGraceMs(ttlMs);
    child.stop({ at: stamp(), termInMs: 0, killInMs });
  };
  revoked.addEventListener("abort", finish, { once: true });
  signal.addEventListener("abort", overdue, { once: true });
  try {
    if (revoked.aborted) return;
    const { end } = await run.child({ TENURE_PARTITION: String(partition.partition) });
    if (end === undefined || partition.state !== "owned") return;
    const code = exitOf(end);
    report.ended(end.code, end.signal, code === EXIT.ok ? undefined : code);
    if (code !== EXIT.ok) throw new CommandFailed(code);
  } finally {
    revoked.removeEventListener("abort", finish);
    signal.removeEventListener("abort", overdue);
    run.close();
    child.dismiss();
  }
}
