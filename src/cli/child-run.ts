/** A child under a lease or a leadership: the guard is told each new limit, and of the end. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { defaultGraceMs } from "../core/deadline.js";
import { LeaseLostError } from "../core/errors.js";
import type { TenureEvent } from "../core/events.js";
import type { Lease } from "../core/lease.js";
import { formatToken } from "../core/token.js";
import type { FencingToken } from "../core/token.js";
import type { CommandPlan } from "./command-plan.js";
import { StartError } from "./guarded-child.js";
import type { GuardedChild } from "./guarded-child.js";
import type { ChildEnd, Orphan } from "./guard-protocol.js";
import { left, stamp } from "./machine-time.js";
import type { Limit, Until } from "./machine-time.js";
import type { RunReport } from "./run-report.js";
import type { Signals } from "./signals.js";

/** What a lease and a leadership have in common: somebody may act until a deadline. */
export type HeldRight = Pick<
  Lease<FencingToken | undefined>,
  "name" | "token" | "holder" | "ttlMs" | "signal" | "remaining"
>;

/** What the run of a child works with. */
export interface ChildParts {
  readonly plan: CommandPlan;
  readonly child: GuardedChild;
  readonly signals: Pick<Signals, "passTo" | "passToNobody">;
  readonly report: RunReport;
}

/** How a child ended. */
export interface ChildResult {
  /** Undefined: the right was over before the child could start. */
  readonly end: ChildEnd | undefined;
  /** Whether the right ended first. */
  readonly stopped: boolean;
}

/** What becomes of the right when this process is gone. */
export interface Aftermath {
  /** Whether it is a lease that `tenure release` can end. Default true. */
  readonly givesBack?: boolean;
  /** The lease is left to run out then, where that is later than the child's end. */
  readonly keepUntil?: Until;
}

/** A child that runs for as long as a right is held, and no longer. */
export class ChildRun {
  readonly #lease: HeldRight;
  readonly #parts: ChildParts;
  readonly #graceMs: number;
  #limit: Limit;
  #lost: LeaseLostError | undefined;

  constructor(lease: HeldRight, parts: ChildParts) {
    this.#lease = lease;
    this.#parts = parts;
    this.#graceMs = parts.plan.graceMs ?? defaultGraceMs(lease.ttlMs);
    this.#limit = this.#nextLimit();
    subscribe("tenure:renewed", this.#renewed);
    lease.signal.addEventListener("abort", this.#ended);
    if (lease.signal.aborted) this.#ended();
  }

  close(): void {
    unsubscribe("tenure:renewed", this.#renewed);
    this.#lease.signal.removeEventListener("abort", this.#ended);
  }

  /** Milliseconds to the last deadline that was known while the lease was held. */
  leftMs(): number {
    return left(this.#limit, stamp()).killMs;
  }

  /**
   * Runs the child to its end, with more variables in its environment.
   *
   * @throws StartError when it cannot be run.
   */
  async child(
    more: Readonly<Record<string, string>> = {},
    { givesBack = true, keepUntil }: Aftermath = {},
  ): Promise<ChildResult> {
    const { plan, child, signals, report } = this.#parts;
    const env = { ...environment(plan, this.#lease), ...more };
    signals.passTo(child);
    try {
      const command = { file: plan.file, args: plan.args, env };
      const orphan = givesBack ? this.#orphan(keepUntil ?? null) : null;
      report.started(await child.start(command, this.#limit, orphan));
      const end = await child.ended;
      if (end.stopped && this.#lost === undefined) report.stopped();
      return { end, stopped: end.stopped || this.#lost !== undefined };
    } catch (error) {
      if (error instanceof StartError && error.code === "LATE") {
        report.stopped();
        return { end: undefined, stopped: true };
      }
      throw error;
    } finally {
      signals.passToNobody();
    }
  }

  /** What the guard gives back when the wrapper is gone, so that nobody has to wait for the TTL. */
  #orphan(until: Until | null): Orphan | null {
    const { name, holder, token } = this.#lease;
    const script = process.argv[1];
    if (token === undefined || script === undefined) return null;
    return { script, name, holder, token: formatToken(token), until };
  }

  readonly #renewed = (message: unknown): void => {
    const event = message as TenureEvent;
    if (event.type !== "renewed" || event.holder !== this.#lease.holder) return;
    this.#limit = this.#nextLimit();
    this.#parts.child.extend(this.#limit);
  };

  /**
   * At the grace before its deadline the guard acts by itself. A lease that the store took away
   * ends at once: somebody else may hold the name, so the child gets the grace and no more.
   */
  readonly #ended = (): void => {
    const { reason } = this.#lease.signal as { reason: unknown };
    if (!(reason instanceof LeaseLostError)) return;
    if (reason.reason === "deadline") return;
    this.#lost = reason;
    this.#parts.report.lost(reason);
    const killInMs = Math.max(0, Math.min(this.#graceMs, this.leftMs()));
    this.#parts.child.stop({ at: stamp(), termInMs: 0, killInMs });
  };

  #nextLimit(): Limit {
    const at = stamp();
    const killInMs = this.#lease.remaining();
    return { at, termInMs: killInMs - this.#graceMs, killInMs };
  }
}

/** The environment of a child; without a lease nothing of an outer one may show through. */
export function environment(
  { name, store }: CommandPlan,
  lease: HeldRight | undefined,
): Record<string, string | undefined> {
  const token = lease?.token;
  return {
    ...process.env,
    TENURE_NAME: name,
    TENURE_STORE: store.url,
    TENURE_TOKEN: token === undefined ? undefined : formatToken(token),
    TENURE_HOLDER: lease?.holder,
    TENURE_TTL_MS: lease === undefined ? undefined : String(lease.ttlMs),
    TENURE_TERM: undefined,
  };
}
