/** `tenure run`: a command under a lease. */
import { isPermanent } from "../../core/call.js";
import type { Lease } from "../../core/lease.js";
import type { Tenure } from "../../core/tenure.js";
import type { FencingToken } from "../../core/token.js";
import { machineTimers } from "../../platform/clocks.js";
import { acquireOrRefuse, RefusedError } from "../acquire.js";
import { checkPlatform, CLOSE_MS, endOf, orInterrupted, within } from "../command-end.js";
import type { Command } from "../command.js";
import { isUnavailable } from "../failure.js";
import { GuardedChild } from "../guarded-child.js";
import { runUnderLease, runWithoutLease } from "../lease-run.js";
import type { RunParts } from "../lease-run.js";
import { stamp } from "../machine-time.js";
import { readRunPlan } from "../run-plan.js";
import { RunReport } from "../run-report.js";
import { InterruptError, Signals } from "../signals.js";
import { openStore } from "../store.js";

type AnyTenure = Tenure<FencingToken | undefined>;
type AnyLease = Lease<FencingToken | undefined>;

/** How long an interrupted wait may take to give up its place, milliseconds. */
const GIVE_UP_MS = 100;

const HELP = `Runs a command while holding the lease of NAME.

usage: tenure run NAME [flags] -- COMMAND [ARGUMENT…]

  tenure run nightly-report -- ./report.sh              waits until NAME is free, then runs
  tenure run nightly-report -n -- ./report.sh           does not wait: exit code 75 when it is held
  tenure run sync --wait 10m --ttl 1m -- rsync -a a/ b/ waits ten minutes at most
  tenure run stats -c -- 'sort in.txt | uniq -c > out'  through a shell

flags
  --ttl 30s          how long the store keeps the lease without renewal; it is renewed all the while
  --wait 10m         longest wait; without it as long as it takes
  -n, --no-wait      one try
  -E CODE            exit code when NAME is held by someone else, instead of 75
  --at-least 40s     keep the lease that long, even if the command ends sooner
  --grace 1s         time between TERM and KILL when the lease is lost; below a third of the TTL
  --on-unavailable fail|proceed
                     proceed: run without a lease when the store cannot be asked (a double run then
                     only wastes work; the command finds no TENURE_TOKEN)
  --store URL        the store; else $TENURE_STORE, else a file in your state folder
  --json             events as lines of JSON on stderr
  -c, --shell        run the words after -- with sh -c

The command gets TENURE_NAME TENURE_TOKEN TENURE_HOLDER TENURE_TTL_MS TENURE_STORE.

exit code: the command's own, 128 + signal, or
  64 wrong usage   69 store unavailable   75 not acquired   79 lease lost, the command was stopped
  126 cannot be run   127 no such command`;

async function run(argv: readonly string[]): Promise<number> {
  const plan = readRunPlan(argv);
  checkPlatform("run");
  const signals = new Signals();
  const child = new GuardedChild(plan.name, machineTimers);
  const report = new RunReport(plan.name, plan.json);
  const parts = { plan, child, signals, report };
  try {
    return await connected(parts);
  } catch (error) {
    return endWith(error, parts);
  } finally {
    child.dismiss();
    signals.close();
  }
}

async function connected(parts: RunParts): Promise<number> {
  const { plan, signals } = parts;
  let tenure: AnyTenure | undefined;
  let lease: AnyLease;
  try {
    const purpose = plan.proceeds ? "efficiency" : "correctness";
    const opening = openStore(plan.store, { purpose });
    tenure = await orInterrupted(opening, signals.waiting);
    lease = await acquire(tenure, parts);
  } catch (error) {
    if (tenure !== undefined) {
      await within(tenure.close(), error instanceof InterruptError ? GIVE_UP_MS : CLOSE_MS);
    }
    if (!plan.proceeds || !isUnavailable(error) || isPermanent(error)) throw error;
    parts.report.proceeding(error);
    return runWithoutLease(parts);
  }
  let closes = true;
  try {
    const end = await runUnderLease(tenure, lease, parts);
    closes = end.closes;
    return end.code;
  } finally {
    if (closes) await within(tenure.close(), CLOSE_MS);
  }
}

async function acquire(tenure: AnyTenure, { plan, signals, report }: RunParts): Promise<AnyLease> {
  const from = stamp();
  const { ttlMs, graceMs, file } = plan;
  const lease = await acquireOrRefuse(tenure, plan.name, {
    ...(ttlMs === undefined ? {} : { ttl: ttlMs }),
    ...(graceMs === undefined ? {} : { grace: graceMs }),
    holderInfo: { command: file },
    wait: plan.waitMs,
    signal: signals.waiting,
  });
  report.granted(lease, stamp().monotonicMs - from.monotonicMs);
  if (signals.asked !== undefined) throw signals.asked;
  return lease;
}

function endWith(error: unknown, { plan, report }: RunParts): number {
  if (error instanceof RefusedError) {
    report.notAcquired(error.held);
    return plan.busyExit;
  }
  return endOf(error, plan, report);
}

/** The verb. */
export const command: Command = { help: HELP, run };
