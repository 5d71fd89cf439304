import { uptime } from "node:os";
import type { Clock, Timer, Timers } from "../core/clock.js";

/** Resolution of the uptime clock on Linux, milliseconds: a fresher look tells nothing new. */
const UPTIME_STEP_MS = 10;

/**
 * The machine's clocks.
 *
 * The uptime clock is asked on Linux only: there the monotonic clock stands still during suspend,
 * on macOS and Windows it does not. Asking costs several microseconds, so an answer is carried
 * forward on the monotonic clock for at most 10 ms, and not across a jump of the wall clock, which
 * every suspend causes.
 */
export function machineClock(): Clock {
  const monotonicMs = (): number => performance.now();
  if (process.platform !== "linux") {
    return { monotonicMs, uptimeMs: () => undefined, wallMs: () => Date.now() };
  }
  let askedAtMs = -Infinity;
  let offsetMs = 0;
  let wallOffsetMs = 0;
  let latestMs = 0;
  const uptimeMs = (): number => {
    const nowMs = performance.now();
    const wallNowMs = Date.now() - nowMs;
    const jumped = Math.abs(wallNowMs - wallOffsetMs) > UPTIME_STEP_MS / 2;
    if (jumped || nowMs - askedAtMs >= UPTIME_STEP_MS) {
      askedAtMs = nowMs;
      wallOffsetMs = wallNowMs;
      offsetMs = uptime() * 1000 - nowMs;
    }
    latestMs = Math.max(latestMs, offsetMs + nowMs);
    return latestMs;
  };
  return { monotonicMs, uptimeMs, wallMs: () => Date.now() };
}

/** Longest delay that `setTimeout` holds; a longer one would fire at once. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

/** Node's timers. Delays beyond 2^31 - 1 ms are split; a timer never fires early. */
export const machineTimers: Timers = {
  after(delayMs, run, options): Timer {
    const dueMs = performance.now() + delayMs;
    let handle: NodeJS.Timeout;
    const fire = (): void => {
      // Node may fire up to a millisecond early.
      if (performance.now() < dueMs) set();
      else run();
    };
    const set = (): void => {
      const leftMs = Math.max(0, dueMs - performance.now());
      handle = setTimeout(fire, Math.min(Math.ceil(leftMs), LONGEST_TIMEOUT_MS));
      if (options?.ref === false) handle.unref();
    };
    set();
    return { cancel: () => clearTimeout(handle) };
  },
  soon(run): Timer {
    const handle = setImmediate(run);
    return { cancel: () => clearImmediate(handle) };
  },
};
