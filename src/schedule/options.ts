/** Options of a schedule, checked before any input or output. */
import { parseDuration, type Duration } from "../core/duration.js";
import { checkOnError, type OnError } from "../core/mishaps.js";
import { checkName } from "../core/names.js";
import { checkSignal, checkWord } from "../core/options.js";
import type { SqlStoreOptions } from "../sql/store.js";
import { wholeNumber } from "../sql/whole-number.js";
import type { Crashed, Overlap } from "./fires.js";

/** What becomes of fires whose time passed while no replica was there. */
export type Missed = "skip" | "last" | "all";

/** Options of `schedule`. */
export interface ScheduleOptions extends SqlStoreOptions {
  /** Time zone of the expression. Default UTC, so that all replicas agree. */
  readonly timeZone?: string;
  /**
   * What becomes of fires that were missed by more than `late`: `skip` them, run the `last` one, or
   * `all`, the oldest first. Default `skip`.
   */
  readonly missed?: Missed;
  /** Most missed fires that `all` makes up for: the latest ones. Default 100. */
  readonly missedLimit?: number;
  /** A fire that is this late is not missed yet. Default 1 min. */
  readonly late?: Duration;
  /**
   * What becomes of a fire while a run of the schedule lasts: `skip` it, `wait` for the run, or
   * `allow` both. Default `skip`.
   */
  readonly overlap?: Overlap;
  /** A run whose process died: `rerun` it after its lease, or `leave` it. Default `rerun`. */
  readonly crashed?: Crashed;
  /** How often a run is begun at most. Default 3. */
  readonly maxTries?: number;
  /** How long others wait for a run whose process died. Default 30 s. */
  readonly lease?: Duration;
  /** How long fires that have ended are kept, for people. Default 7 days (168 h). */
  readonly keepFires?: Duration;
  /** Says who it is, for people who look at the store. Default: host and pid. */
  readonly worker?: string;
  /** Ends the schedule in this process, after the runs that last. */
  readonly signal?: AbortSignal;
  /**
   * Told what the work threw, with its fire, and what the store failed with; the schedule goes on,
   * unless asking the store again cannot help: then this is the last that it is told, and what
   * `ended` rejects with. If it throws itself, the schedule ends, and rejects with that. Default: a
   * `tenure:warning`.
   */
  readonly onError?: OnError<FailedFire>;
}

/** The fire whose work threw. */
export interface FailedFire {
  /** The time of the cron expression, milliseconds since 1970. */
  readonly fireMs: number;
  readonly tries: number;
}

/** Checked options. */
export interface ScheduleTerms {
  readonly missed: Missed;
  readonly missedLimit: number;
  readonly lateMs: number;
  readonly overlap: Overlap;
  readonly crashed: Crashed;
  readonly maxTries: number;
  readonly leaseMs: number;
  readonly keepMs: number;
  readonly worker: string | undefined;
  readonly signal: AbortSignal | undefined;
  readonly onError: OnError<FailedFire> | undefined;
}

const DAY_MS = 86_400_000;

/** @throws TypeError or RangeError naming option and value. */
export function scheduleTerms(options: ScheduleOptions): ScheduleTerms {
  const { missed = "skip", overlap = "skip", crashed = "rerun", worker } = options;
  const { missedLimit = 100, late = "1m", maxTries = 3, lease = "30s" } = options;
  const { keepFires = "168h" } = options;
  const limits = { zero: true, maxMs: 3_650 * DAY_MS };
  return {
    missed: checkWord(missed, "missed", ["skip", "last", "all"]),
    missedLimit: wholeNumber(missedLimit, "missedLimit", 10_000),
    lateMs: parseDuration(late, "late", { minMs: 1, maxMs: 365 * DAY_MS }),
    overlap: checkWord(overlap, "overlap", ["skip", "wait", "allow"]),
    crashed: checkWord(crashed, "crashed", ["rerun", "leave"]),
    maxTries: wholeNumber(maxTries, "maxTries", 1_000_000),
    leaseMs: parseDuration(lease, "lease", { minMs: 100, maxMs: DAY_MS }),
    keepMs: parseDuration(keepFires, "keepFires", limits),
    worker: worker === undefined ? undefined : checkName(worker, "worker"),
    signal: checkSignal(options.signal),
    onError: checkOnError(options.onError),
  };
}

/** Times of a cron expression. */
export interface Times {
  /** The latest ones up to `nowMs`, so many at most, the oldest first. */
  latest(most: number, nowMs: number): readonly number[];
  /** The first one after `afterMs`; null where there is none any more. */
  next(afterMs: number): number | null;
}

/**
 * Fires after `uptoMs` that are to run at `nowMs`, the oldest first. All that are in time are, also
 * where they are more than the missed ones that are made up for.
 */
export function* dueFires(
  times: Times,
  { missed, missedLimit, lateMs }: ScheduleTerms,
  uptoMs: number,
  nowMs: number,
): Generator<number> {
  const inTimeAfterMs = Math.max(uptoMs, nowMs - lateMs);
  let ms = times.next(inTimeAfterMs);
  const isNoneInTime = ms === null || ms > nowMs;
  // One that is in time runs anyway, and is the last one then.
  const most = missed === "all" ? missedLimit : missed === "last" && isNoneInTime ? 1 : 0;
  if (most > 0 && uptoMs < inTimeAfterMs) {
    const latest = times.latest(most, nowMs);
    yield* latest.filter((missedMs) => missedMs > uptoMs && missedMs <= inTimeAfterMs);
  }
  for (; ms !== null && ms <= nowMs; ms = times.next(ms)) yield ms;
}
