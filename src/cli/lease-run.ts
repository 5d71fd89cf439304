/** A child that runs under a lease, and what becomes of the lease afterwards. */
import { constants } from "node:os";
import type { Lease } from "../core/lease.js";
import type { Tenure } from "../core/tenure.js";
import type { FencingToken } from "../core/token.js";
import { ChildRun, environment } from "./child-run.js";
import type { ChildParts } from "./child-run.js";
import { EXIT, signalExit } from "./exit-codes.js";
import type { ChildEnd } from "./guard-protocol.js";
import { keep, leave } from "./keeping.js";
import { restMs, stamp } from "./machine-time.js";
import type { RunPlan } from "./run-plan.js";
import type { RunReport } from "./run-report.js";
import type { Signals } from "./signals.js";

type AnyLease = Lease<FencingToken | undefined>;
type AnyTenure = Tenure<FencingToken | undefined>;

/** What a run works with. */
export interface RunParts extends ChildParts {
  readonly plan: RunPlan;
  readonly signals: Signals;
}

/** Runs the child without a lease: the store is unavailable and the caller said to proceed. */
export async function runWithoutLease({ plan, child, signals, report }: RunParts): Promise<number> {
  // What an outer run set would be taken for this one's.
  const env = environment(plan, undefined);
  signals.passTo(child);
  try {
    report.started(await child.start({ file: plan.file, args: plan.args, env }, null, null));
    return told(await child.ended, report);
  } finally {
    signals.passToNobody();
  }
}

/** How a run under a lease ended. */
export interface RunEnd {
  readonly code: number;
  /** Whether the tenure may be closed; false when that would give back a lease that is to stay. */
  readonly closes: boolean;
}

/**
 * Runs the child under the lease, and gives the lease back when nothing of the child is left.
 *
 * An ending signal that came before `--at-least` had passed ends the wait: the lease is then set
 * to run out when it has passed.
 *
 * @throws StartError when the child cannot be run; the lease is then given back.
 */
export async function runUnderLease(
  tenure: AnyTenure,
  lease: AnyLease,
  parts: RunParts,
): Promise<RunEnd> {
  const { plan, report, signals } = parts;
  const until = { at: stamp(), inMs: plan.atLeastMs };
  const run = new ChildRun(lease, parts);
  let code: number;
  try {
    const { end, stopped } = await run.child({}, { keepUntil: until });
    code = stopped || end === undefined ? EXIT.lost : exitOf(end);
    if (end !== undefined) report.ended(end.code, end.signal, code);
  } catch (error) {
    // Nothing ran, so there is nothing to keep the lease for.
    await release(lease, report);
    throw error;
  } finally {
    run.close();
  }
  const inTime = run.leftMs() > 0;
  const keeps = restMs(until) > 0 && lease.state !== "lost";
  if (keeps && !(await keep(lease, until, signals, report))) {
    return { code, closes: await leave(tenure, lease, until, report) };
  }
  const answer = await release(lease, report);
  if (answer === "not-held" && keeps) report.notKept();
  const wasRemoved = answer === "not-held" && !keeps && inTime && code !== EXIT.lost;
  if (wasRemoved) report.removed();
  // A lease that could not be given back is left to its TTL: closing would try again.
  return { code: wasRemoved ? EXIT.lost : code, closes: answer !== "unknown" };
}

/** Never rejects: how the child ended is what counts, and the TTL is the backstop. */
async function release(
  lease: AnyLease,
  report: RunReport,
): Promise<"released" | "not-held" | "unknown"> {
  try {
    const answer = await lease.release();
    report.released(answer);
    return answer;
  } catch (error) {
    report.notReleased(error, lease.ttlMs);
    return "unknown";
  }
}

/** Exit code that stands for how a child ended. */
export function exitOf({ code, signal }: ChildEnd): number {
  return code ?? signalExit(signal === null ? 0 : constants.signals[signal]);
}

function told(end: ChildEnd, report: RunReport): number {
  const exit = exitOf(end);
  report.ended(end.code, end.signal, exit);
  return exit;
}
