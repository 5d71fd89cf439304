/**
 * The time that one message to a server has. As `timeLimit` of a transaction, for what has only two
 * ends: it was sent when it was, so nobody is told that it did not happen; and there are many of
 * these, each of which a pair of AbortControllers would cost a fifth of its time in the client.
 */
import { Ending } from "../core/aborting.js";
import type { Timers } from "../core/clock.js";
import { OutOfTime } from "../core/time-limit.js";

/** How long the answer may take beyond the time, which the server keeps as well. */
const GRACE_MS = 1_000;

/** When to give up. */
export interface MessageLimits {
  /** Aborted when no connection was free for too long: nothing was sent then. */
  readonly patience: Ending;
  /** Aborted when nobody waits any more: the connection is cut off. */
  readonly signal: Ending;
}

/** Sends a message, and waits for its answer as long as there is time. @throws OutOfTime. */
export function answerInTime<R>(
  timers: Timers,
  ms: number,
  send: (limits: MessageLimits) => Promise<R>,
): Promise<R> {
  return new Promise<R>((resolve, reject) => {
    const limits = { patience: new Ending(), signal: new Ending() };
    let timer = timers.after(ms, () => {
      limits.patience.abort();
      timer = timers.after(GRACE_MS, () => {
        limits.signal.abort();
        reject(new OutOfTime(ms));
      });
    });
    send(limits).then(
      (answer) => {
        timer.cancel();
        resolve(answer);
      },
      (error: unknown) => {
        timer.cancel();
        reject(error);
      },
    );
  });
}
