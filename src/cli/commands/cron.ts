/** `tenure cron`: a command at the times of a cron expression, on one of all machines. */
import { machineTimers } from "../../platform/clocks.js";
import type { Fire } from "../../schedule/fire.js";
import { ChildRun } from "../child-run.js";
import { checkPlatform, CLOSE_MS, endOf, orInterrupted, within } from "../command-end.js";
import type { Command } from "../command.js";
import { readCronPlan, type CronPlan } from "../cron-plan.js";
import { signalExit } from "../exit-codes.js";
import { isUnavailable, tellFailure } from "../failure.js";
import { GuardedChild, StartError } from "../guarded-child.js";
import { exitOf } from "../lease-run.js";
import { RunReport } from "../run-report.js";
import { Signals } from "../signals.js";
import { schedulesOn } from "../store.js";

const HELP = `Runs a command at the times of a cron expression, on one of all machines that do this.

usage: tenure cron NAME 'EXPRESSION' [flags] -- COMMAND [ARGUMENT…]

  tenure cron report '0 3 * * *' -- ./report.sh         on each machine: one of them runs it
  tenure cron report '0 3 * * *' --tz Europe/Berlin --missed last -- ./report.sh

It stays in the foreground until it is ended by a signal, which the running command gets, too. Times
are those of the store's clock. A fire that comes while the command still runs is skipped.

flags
  --tz ZONE          time zone of the expression; default UTC
  --missed skip|last|all
                     fires whose time passed while no machine was there; default skip
  --late 1m          how late a fire may be begun before it counts as missed
  --crashed rerun|leave
                     a run whose machine died: run it again after its lease, or not; default rerun
  --ttl 30s          how long others wait for a run whose machine died
  --grace 1s         time between TERM and KILL when the lease is lost; below a third of the TTL
  --store URL        sqlite:PATH or postgres://…; else $TENURE_STORE, else a file in your state folder
  --json             events as lines of JSON on stderr
  -c, --shell        run the words after -- with sh -c

The command gets TENURE_FIRE (the time that it is run for, in ISO 8601), and as of tenure run:
TENURE_NAME TENURE_TOKEN TENURE_HOLDER TENURE_TTL_MS TENURE_STORE.

exit code: 128 + the signal that ended it, or
  64 wrong usage   69 store unavailable   126 cannot be run   127 no such command
What the command ends with is told and kept; the schedule goes on.`;

async function run(argv: readonly string[]): Promise<number> {
  const plan = readCronPlan(argv);
  checkPlatform("cron");
  const signals = new Signals();
  const report = new RunReport(plan.name, plan.json);
  try {
    return await keepTime(plan, signals, report);
  } catch (error) {
    return endOf(error, plan, report);
  } finally {
    signals.close();
  }
}

async function keepTime(plan: CronPlan, signals: Signals, report: RunReport): Promise<number> {
  const { schedule, isoTime } = await schedulesOn(plan.store);
  const stop = new AbortController();
  let cannotStart: StartError | undefined;
  const work = async (fire: Fire): Promise<void> => {
    try {
      await runOnce(fire, isoTime(fire.fireMs), { plan, signals, report });
    } catch (error) {
      if (!(error instanceof StartError)) throw error;
      // It will not be there at the next fire either.
      cannotStart = error;
      stop.abort();
      throw error;
    }
  };
  const opening = schedule(plan.store.url, plan.name, plan.cron, work, {
    timeZone: plan.timeZone,
    missed: plan.missed,
    crashed: plan.crashed,
    signal: stop.signal,
    ...(plan.lateMs === undefined ? {} : { late: plan.lateMs }),
    ...(plan.ttlMs === undefined ? {} : { lease: plan.ttlMs }),
    onError: (error) => tell(error, report, plan.json),
  });
  const running = await orInterrupted(opening, signals.waiting);
  report.scheduled(plan.cron);
  const end = (): void => stop.abort();
  signals.waiting.addEventListener("abort", end, { once: true });
  if (signals.waiting.aborted) end();
  try {
    // The command gets the signal as well, and is waited for.
    await running.ended;
  } finally {
    await within(running.close(), CLOSE_MS);
  }
  if (cannotStart !== undefined) throw cannotStart;
  return signals.asked === undefined ? 0 : signalExit(signals.asked.number);
}

/** The command of a fire did not end well. */
class FireFailed extends Error {
  readonly fire: string;

  constructor(fire: string, message: string) {
    super(message);
    this.name = "Command";
    this.fire = fire;
  }
}

async function runOnce(
  fire: Fire,
  time: string,
  parts: { readonly plan: CronPlan; readonly signals: Signals; readonly report: RunReport },
): Promise<void> {
  const { report, plan } = parts;
  const { name, token, holder, signal, leaseMs: ttlMs } = fire;
  const right = { name, token, holder, signal, ttlMs, remaining: () => fire.remaining() };
  report.fired(right, time, fire.tries);
  const child = new GuardedChild(plan.name, machineTimers);
  const childRun = new ChildRun(right, { ...parts, child });
  try {
    const { end, stopped } = await childRun.child({ TENURE_FIRE: time }, { givesBack: false });
    if (stopped || end === undefined) throw new FireFailed(time, "stopped: its lease was lost");
    const code = exitOf(end);
    report.ended(end.code, end.signal, code);
    if (code !== 0) throw new FireFailed(time, `the command ended with exit code ${code}`);
  } finally {
    childRun.close();
    child.dismiss();
  }
}

function tell(error: unknown, report: RunReport, json: boolean): void {
  if (error instanceof FireFailed) report.fireFailed(error.fire, error.message);
  else if (isUnavailable(error)) report.silent(error);
  else if (!(error instanceof StartError)) tellFailure(error, json);
}

/** The verb. */
export const command: Command = { help: HELP, run };
