/**
 * The clock of a store in a SQLite file: one for all processes of the machine, which no step of the
 * wall clock moves.
 *
 * It is the machine's time since boot, suspends included, plus an offset that the first process
 * after a boot takes from the wall clock and leaves in the file. So it is the time of day, as the
 * wall clock had it then, and a process whose wall clock is wrong, or is set while it runs, changes
 * nothing. It is exact to 10 ms, which is the step of the clock underneath on Linux.
 *
 * Where the system tells no id of its boot (Windows), it is the wall clock.
 *
 * Not promised: that it is right. A machine whose clock is set only after the first use is off
 * by as much until its next boot.
 */
import type { Clock } from "../core/clock.js";
import type { Script } from "./script.js";
import { anchorClock } from "./tables.js";

/** What is asked of the machine. */
export interface SqliteMachine {
  readonly bootId: string | undefined;
  readonly clockId: string;
  /** Monotonic milliseconds that all processes of one boot share. */
  nowMs(): number;
}

/** Reads the store's time in whole milliseconds since 1970. */
export type NowMs = () => bigint;

/** The clock of a file, by a script that runs once when it is opened. */
export function* sqliteClock(here: SqliteMachine, clock: Clock): Script<NowMs> {
  const { bootId } = here;
  if (bootId === undefined) return () => BigInt(Math.floor(clock.wallMs()));
  const sinceBootMs = (): number => clock.uptimeMs() ?? here.nowMs();
  const offsetMs = Math.floor(clock.wallMs() - sinceBootMs());
  const anchor = yield* anchorClock(bootId, here.clockId, offsetMs);
  return () => BigInt(Math.floor(anchor + sinceBootMs()));
}
