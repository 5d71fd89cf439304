/** What drivers of SQL servers share: how long a connection may take, and what a full pool says. */
import { UnavailableError } from "../core/errors.js";

/** Longest that a connection takes to be made where nobody waits longer, milliseconds. */
const CONNECT_WITHIN_MS = 5_000;
/** Whatever a caller says: the libraries' timers end at 2^31. */
const LONGEST_MS = 3_600_000;

/** How long a connection may take to be made, milliseconds; told how long a caller would wait. */
export type ConnectWithin = (waitingMs?: number) => number;

/**
 * The longest that any caller was ready to wait, and 5 s at least: over a slow link a connection
 * whose making is given up too soon is never made, and the next attempt begins anew. What is made
 * in the background, or by a pool, knows no caller, and so takes its measure from those before.
 */
export function connectWithin(): ConnectWithin {
  let longestMs = CONNECT_WITHIN_MS;
  return (waitingMs = 0) => {
    longestMs = Math.max(longestMs, Math.min(Math.ceil(waitingMs), LONGEST_MS));
    return longestMs;
  };
}

/**
 * What is told when a pool had nothing free: nothing was sent.
 *
 * @param option what the library calls the number of its connections
 */
export function noneFree(backend: string, option: string): UnavailableError {
  return new UnavailableError(
    "the pool had no free connection in time: all are in use; begin fewer calls at once, or give " +
      `a pool that has more (${option})`,
    { backend },
  );
}
