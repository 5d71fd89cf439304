/** What the small lock and its leases share: their store, their flaw, and calls bounded in time. */
import type { Backend, Call } from "../../core/backend.js";
import { NotAcquiredError, OutcomeUnknownError } from "../../core/errors.js";
import type { FencingToken } from "../../core/token.js";
import type { SimulatedProcess } from "../process.js";

/**
 * What is wrong with it.
 *
 * - `deadline-from-reply`: a deadline counts from the answer
 * - `no-local-deadline`: a lease is held until the store says otherwise
 * - `token-re-read`: the token is the one that the store shows at each renewal
 * - `lost-wake`: looks, then subscribes, and then relies on notices
 * - `no-fallback-poll`: subscribes, looks, and then relies on notices
 * - `leak-on-cancel`: a grant that comes after its waiter gave up is kept
 * - `renew-pile-up`: renews by the clock, whether the last one was answered or not
 */
export type LockFlaw =
  | "deadline-from-reply"
  | "no-local-deadline"
  | "token-re-read"
  | "lost-wake"
  | "no-fallback-poll"
  | "leak-on-cancel"
  | "renew-pile-up";

/** What a lock and its leases work with. */
export interface LockParts {
  readonly backend: Backend<FencingToken | undefined>;
  readonly process: SimulatedProcess;
  readonly flaw: LockFlaw | undefined;
}

/** Longest that a call to the store may take, milliseconds. */
export const CALL_MS = 5_000;

/** Milliseconds on the clock of a process that ran longer. */
export function elapsed({ runtime: { clock } }: SimulatedProcess): number {
  // Where the two began does not matter: the one that is ahead stays ahead, or catches up.
  return Math.max(clock.monotonicMs(), clock.uptimeMs() ?? 0);
}

/** One call, waited for no longer than `ms`. */
export function call<R>(
  process: SimulatedProcess,
  ms: number,
  ask: (bound: Call) => R | Promise<R>,
): Promise<R> {
  const bound = { signal: new AbortController().signal, timeoutMs: ms };
  return limited(process, ms, Promise.resolve(ask(bound)), () => new OutcomeUnknownError("late"));
}

/** Some work, waited for no longer than `ms`. */
export function limited<R>(
  process: SimulatedProcess,
  ms: number,
  work: Promise<R>,
  late: () => Error = () => new NotAcquiredError("not acquired in time", {}),
): Promise<R> {
  return new Promise((resolve, reject) => {
    const timer = process.runtime.timers.after(ms, () => reject(late()));
    work.then(resolve, reject).finally(() => timer.cancel());
  });
}
