/**
 * Time as two processes of one machine agree on it.
 *
 * The clock of `src/platform` counts from the start of its own process. A deadline that travels
 * from the wrapper to its guard needs clocks with a common zero: both of these count from boot.
 */
import { uptime } from "node:os";

const UPTIME_STEP_MS = 10;

/** A reading of the machine's two clocks, milliseconds. */
export interface Stamp {
  /** Stands still while the machine is suspended (Linux). */
  readonly monotonicMs: number;
  /** Does not; in steps of 10 ms. */
  readonly uptimeMs: number;
}

/** Both clocks now. */
export function stamp(): Stamp {
  return { monotonicMs: Number(process.hrtime.bigint()) / 1e6, uptimeMs: uptime() * 1000 };
}

/**
 * When a child must stop, counted from a stamp.
 *
 * The stamp is taken **before** the time left is asked for, so that a pause between the two, or on
 * the way to the reader, makes the limit earlier and never later.
 */
export interface Limit {
  readonly at: Stamp;
  /** TERM is due this long after `at`. */
  readonly termInMs: number;
  /** KILL is due this long after `at`. */
  readonly killInMs: number;
}

/** Milliseconds until TERM and KILL are due; negative once past. */
export interface TimeLeft {
  readonly termMs: number;
  readonly killMs: number;
}

/** What is left of a limit: by whichever clock is ahead. */
export function left(limit: Limit, now: Stamp): TimeLeft {
  const { monotonicMs, uptimeMs } = since(limit.at, now);
  const elapsed = Math.max(monotonicMs, uptimeMs);
  return { termMs: limit.termInMs - elapsed, killMs: limit.killInMs - elapsed };
}

/** Until when something is kept: a time after a stamp. */
export interface Until {
  readonly at: Stamp;
  readonly inMs: number;
}

/** Milliseconds until then, never too few for the steps of a clock; negative once past. */
export function restMs({ at, inMs }: Until, now: Stamp = stamp()): number {
  const { monotonicMs, uptimeMs } = since(at, now);
  return inMs - Math.max(monotonicMs, uptimeMs - UPTIME_STEP_MS);
}

function since(from: Stamp, to: Stamp): Stamp {
  return {
    monotonicMs: to.monotonicMs - from.monotonicMs,
    uptimeMs: to.uptimeMs - from.uptimeMs,
  };
}
