/**
 * How long a holder may act: arithmetic on the holder's own clocks.
 *
 * A lease is counted from the moment **before** its request was sent, since the store starts its
 * TTL some time after that. Elapsed time is the larger of the monotonic and the uptime clock:
 * either may stand still (suspend stops the first on Linux), none runs ahead. A wall clock that ran
 * ahead of both may be a jump, or a virtual machine that was paused with all its clocks: that is
 * doubt, which only an answer of the store can settle.
 */
import type { Clock } from "./clock.js";

/** Bound on how much faster the store's clock may run than ours: 1 %, as Redlock assumes. */
const DRIFT = 0.01;
/** What rounding and timers may cost, milliseconds. */
const SLACK_MS = 2;

/** One reading of all clocks. */
export interface Moment {
  readonly monotonicMs: number;
  readonly uptimeMs: number | undefined;
  readonly wallMs: number;
}

/** The clocks now. */
export function now(clock: Clock): Moment {
  return {
    monotonicMs: clock.monotonicMs(),
    uptimeMs: clock.uptimeMs(),
    wallMs: clock.wallMs(),
  };
}

/** Milliseconds that certainly bound the time from `from` to `to`, by the faster clock. */
export function elapsedMs(from: Moment, to: Moment): number {
  const monotonic = to.monotonicMs - from.monotonicMs;
  if (from.uptimeMs === undefined || to.uptimeMs === undefined) return monotonic;
  return Math.max(monotonic, to.uptimeMs - from.uptimeMs);
}

/** Part of the time between two moments during which the machine was suspended. */
export function suspendedMs(from: Moment, to: Moment): number {
  return Math.max(0, elapsedMs(from, to) - (to.monotonicMs - from.monotonicMs));
}

/** Milliseconds by which the wall clock ran ahead of both other clocks; negative when behind. */
export function wallAheadMs(from: Moment, to: Moment): number {
  return to.wallMs - from.wallMs - elapsedMs(from, to);
}

/** How much earlier than the store a holder ends a lease: 1 % of the TTL and 2 ms. */
export function marginMs(ttlMs: number): number {
  return ttlMs * DRIFT + SLACK_MS;
}

/** How long a holder may act on a grant of `ttlMs`, counted from before its sending. */
export function validityMs(ttlMs: number): number {
  return ttlMs - marginMs(ttlMs);
}

/**
 * By how much the wall clock must run ahead before the clock is in doubt: a pause shorter than the
 * margin is covered by it, and a smaller bound would doubt at every correction of the wall clock.
 */
export function doubtMs(ttlMs: number): number {
  return Math.max(50, marginMs(ttlMs));
}

/** Default grace: 10 % of the TTL, at most 1 s. */
export function defaultGraceMs(ttlMs: number): number {
  return Math.min(ttlMs / 10, 1_000);
}
