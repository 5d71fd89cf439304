/** How `run` and `elect` begin, wait and end. */
import { whenAborted } from "../core/aborting.js";
import { machineTimers } from "../platform/clocks.js";
import { UsageError } from "./arguments.js";
import type { CommandPlan } from "./command-plan.js";
import { EXIT } from "./exit-codes.js";
import { exitFor, tellFailure } from "./failure.js";
import { StartError } from "./guarded-child.js";
import type { RunReport } from "./run-report.js";
import { InterruptError } from "./signals.js";

/** How long closing the store may hold up the exit, milliseconds. */
export const CLOSE_MS = 2_000;

/** @throws UsageError where a command cannot be guarded. */
export function checkPlatform(verb: string): void {
  if (process.platform !== "win32") return;
  throw new UsageError(`tenure ${verb} needs process groups, and Windows has none`, "see hold()");
}

/** Tells why a command was not run, or not to its end; answers the exit code. */
export function endOf(error: unknown, plan: CommandPlan, report: RunReport): number {
  if (error instanceof StartError) {
    const code = error.code === "ENOENT" ? EXIT.notFound : EXIT.cannotRun;
    const why =
      code === EXIT.notFound
        ? "no such command; a shell's own words, or a line of it, need -c: -c -- 'exit 3'"
        : `cannot be run (${error.message})`;
    report.failed(`${plan.file}: ${why}`, code);
    return code;
  }
  if (error instanceof InterruptError) return exitFor(error);
  tellFailure(error, plan.json);
  return exitFor(error);
}

/** What `work` brings, unless an ending signal comes first. */
export async function orInterrupted<T>(work: Promise<T>, waiting: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const unlisten = whenAborted(waiting, () => reject(waiting.reason));
    work.then(resolve, reject).finally(unlisten);
  });
}

/** Waits for a clean-up, but not for ever. */
export async function within(work: Promise<unknown>, ms: number): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = machineTimers.after(ms, resolve);
    const done = (): void => {
      timer.cancel();
      resolve();
    };
    work.then(done, done);
  });
}

/** Waits for a time to pass, or for one of these signals: not at all where one has aborted. */
export async function passed(ms: number, ...signals: readonly AbortSignal[]): Promise<void> {
  let unlisten: readonly (() => void)[] = [];
  await new Promise<void>((resolve) => {
    const timer = machineTimers.after(ms, resolve);
    const enough = (): void => {
      timer.cancel();
      resolve();
    };
    unlisten = signals.map((signal) => whenAborted(signal, enough));
  });
  for (const stop of unlisten) stop();
}
