/** Work under a lease: armed, awaited, released, whatever happens. */
import type { ArmTarget, Armed } from "./arm.js";
import { ArgumentTypeError, LeaseLostError } from "./errors.js";
import type { WorkOutcome } from "./errors.js";
import type { HeldLease, Lease } from "./lease.js";
import { checkObject } from "./options.js";
import type { AcquireOptions } from "./options.js";
import type { FencingToken, TokenBearer } from "./token.js";

/** Resources by the names that the caller gives them. */
export type ArmTargets = Readonly<Record<string, ArmTarget<unknown>>>;

/** Options of `hold`. */
export interface HoldOptions<R extends ArmTargets = Record<never, never>> extends AcquireOptions {
  /**
   * Resources to arm before the work begins, in this order; all or the work does not start. The
   * work gets the armed handles under the same names.
   */
  readonly arm?: R;
  /**
   * Whether the lock is mandatory (`fail`, the default) or advisory (`proceed`: the work runs
   * without a lease when the store cannot be asked now; what asking again would not better, such as
   * a wrong password, fails all the same). `proceed` needs purpose `efficiency`.
   */
  readonly onUnavailable?: "fail" | "proceed";
}

/** The work of a `hold`. */
export type Work<L, R extends ArmTargets, V> = (lease: L, armed: Armed<R>) => V | PromiseLike<V>;

/** What `hold` was called with: the work comes last, after options or none. */
export function readHold<L, V>(
  first: HoldOptions<ArmTargets> | Work<L, ArmTargets, V>,
  second: Work<L, ArmTargets, V> | undefined,
): { readonly options: HoldOptions<ArmTargets>; readonly work: Work<L, ArmTargets, V> } {
  if (typeof first === "function" && second !== undefined) {
    const must = "left out after the work: the call is hold(name, options, work)";
    throw new ArgumentTypeError("the third argument", second, must);
  }
  const [options, work] = typeof first === "function" ? [{}, first] : [first, second];
  if (typeof work !== "function") throw new ArgumentTypeError("work", work, "a function");
  checkObject(options, "options");
  checkTargets(options.arm);
  return { options, work };
}

/** @throws TypeError naming the one that cannot be armed. */
function checkTargets(targets: unknown): void {
  if (targets === undefined) return;
  checkObject(targets, "arm");
  for (const [name, target] of Object.entries(targets as object)) {
    const { arm } = (target ?? {}) as { readonly arm?: unknown };
    if (typeof arm === "function") continue;
    throw new ArgumentTypeError(`arm.${name}`, target, "a resource of a fence");
  }
}

/** Arms every target, in the order in which they are named. */
export async function armTargets<R extends ArmTargets>(
  lease: Lease<FencingToken | undefined>,
  targets: R | undefined,
): Promise<Armed<R>> {
  const armed: Record<string, unknown> = {};
  for (const [name, target] of Object.entries(targets ?? {})) {
    // A fence checks at run time what the types of `hold` already demand: that there is a token.
    armed[name] = await target.arm(lease as TokenBearer);
  }
  return armed as Armed<R>;
}

/**
 * The outcome of the work, once its lease is given back.
 *
 * An error of the work is never replaced by one of the release: the release is then left to the
 * clean-up and, last, to the TTL.
 *
 * @throws LeaseLostError, with the work's own outcome, when the lease was lost before it ended. So
 *   too when the work fulfilled and the store had the lease no more: it was broken or deleted, or a
 *   client library sent the release twice and the first answer got lost.
 */
export async function runHeld<T extends FencingToken | undefined, V>(
  lease: HeldLease<T>,
  work: () => V | PromiseLike<V>,
  releaseFailed: (lease: HeldLease<T>, error: unknown) => void,
): Promise<V> {
  const [outcome] = await Promise.allSettled([(async () => work())()]);
  let lost = lease.lostError();
  // The work may have given it back, or handed it over, itself.
  const wasOpen = lease.isOpen;
  const answer = await lease.release().catch((error: unknown) => releaseFailed(lease, error));
  const wasRemoved = wasOpen && answer === "not-held";
  if (wasRemoved && outcome.status === "fulfilled") lost ??= lease.removedError();
  if (lost !== undefined) throw withOutcome(lost, outcome);
  if (outcome.status === "rejected") throw outcome.reason;
  return outcome.value;
}

function withOutcome(lost: LeaseLostError, outcome: WorkOutcome): LeaseLostError {
  return new LeaseLostError(`${lost.message} before the work had ended`, {
    ...(lost.backend === undefined ? {} : { backend: lost.backend }),
    ...(lost.lock === undefined ? {} : { lock: lost.lock }),
    ...(lost.by === undefined ? {} : { by: lost.by }),
    ...(outcome.status === "rejected" ? { cause: outcome.reason } : {}),
    reason: lost.reason,
    outcome,
  });
}
