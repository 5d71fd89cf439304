/** Keeping a lease after its child has ended, for as long as `--at-least` says. */
import type { Lease } from "../core/lease.js";
import type { Tenure } from "../core/tenure.js";
import type { FencingToken } from "../core/token.js";
import { passed } from "./command-end.js";
import { restMs } from "./machine-time.js";
import type { Until } from "./machine-time.js";
import type { RunReport } from "./run-report.js";
import type { Signals } from "./signals.js";

type AnyLease = Lease<FencingToken | undefined>;
type AnyTenure = Tenure<FencingToken | undefined>;

/** Waits, while the lease is renewed; false when an ending signal came first. */
export async function keep(
  lease: Pick<AnyLease, "signal" | "state" | "remaining">,
  until: Until,
  { asked, waiting }: Pick<Signals, "asked" | "waiting">,
  report: Pick<RunReport, "keeping">,
): Promise<boolean> {
  if (asked !== undefined) return false;
  report.keeping(restMs(until));
  while (!waiting.aborted && lease.state !== "lost") {
    const rest = restMs(until);
    if (rest <= 0) break;
    // The signal comes a grace before the deadline; until that a renewal may still get through.
    if (lease.signal.aborted) await passed(Math.min(rest, lease.remaining()), waiting);
    else await passed(rest, waiting, lease.signal);
  }
  return !waiting.aborted;
}

/** Sets a lease to run out by itself; false where the store cannot, and closing would end it. */
export async function leave(
  tenure: AnyTenure,
  lease: AnyLease,
  until: Until,
  report: RunReport,
): Promise<boolean> {
  const { minTtlMs, maxTtlMs } = tenure.manifest;
  const ttl = Math.ceil(Math.min(Math.max(restMs(until), minTtlMs), maxTtlMs));
  try {
    const again = await tenure.adopt(tenure.detach(lease), { ttl, renew: false });
    tenure.detach(again);
    report.left(ttl);
    return true;
  } catch {
    // A store whose leases live by a session, or that does not answer: the TTL ends it.
    report.left(lease.ttlMs);
    return false;
  }
}
