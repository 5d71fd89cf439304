/** Loads the parser of cron expressions. The only file that imports it. */
/* eslint-disable no-restricted-globals -- its times are Dates; each moment is given to it. */
import type { Cron } from "croner";
import { ArgumentTypeError } from "../../core/errors.js";
import { MissingLibraryError } from "../missing-library.js";

const INSTALL_LINE = "npm install croner";
const SECOND_MS = 1_000;

/** The times of one cron expression in one time zone, milliseconds since 1970. */
export interface CronTimes {
  /** The latest `most` times that are not after `nowMs`, the oldest first. */
  latest(most: number, nowMs: number): readonly number[];
  /** The first time after `nowMs`; null where there is none any more. */
  next(nowMs: number): number | null;
}

/**
 * Reads a cron expression.
 *
 * @throws TypeError for an expression or a time zone that cannot be read, with the reason.
 * @throws UnavailableError when the parser is not installed.
 */
export async function cronTimes(expression: unknown, timeZone: unknown): Promise<CronTimes> {
  if (typeof expression !== "string" || expression.trim() === "") {
    throw new ArgumentTypeError("cron", expression, "a cron expression, such as 0 3 * * *");
  }
  const { Cron: CronOf } = await load();
  checkZone(timeZone);
  const read = (): Cron => {
    try {
      return new CronOf(expression, { timezone: timeZone });
    } catch (error) {
      const why = (error as Error).message.replace(/^\w+: /, "");
      throw new ArgumentTypeError("cron", expression, `a cron expression (${why})`);
    }
  };
  const cron = read();
  if (cron.nextRun(new Date(0)) === null) {
    throw new ArgumentTypeError("cron", expression, "a cron expression with a time to come");
  }
  return {
    latest(most, nowMs) {
      // It reckons in whole seconds, and leaves out the second that it is given.
      const after = new Date((Math.floor(nowMs / SECOND_MS) + 1) * SECOND_MS);
      const times = cron.previousRuns(most, after).map((date) => date.getTime());
      return times.filter((ms) => ms <= nowMs).sort((a, b) => a - b);
    },
    next: (nowMs) => cron.nextRun(new Date(nowMs))?.getTime() ?? null,
  };
}

/** A time as text: ISO 8601 in UTC. */
export function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}

/** Milliseconds of a time as text; undefined for text that is no time. */
export function timeOfIso(text: string): number | undefined {
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? undefined : ms;
}

function checkZone(timeZone: unknown): asserts timeZone is string {
  try {
    if (typeof timeZone !== "string" || timeZone === "") throw new RangeError();
    new Intl.DateTimeFormat("en", { timeZone });
  } catch {
    const must = "a time zone such as UTC or Europe/Berlin";
    throw new ArgumentTypeError("timeZone", timeZone, must);
  }
}

async function load(): Promise<{ readonly Cron: typeof Cron }> {
  try {
    return await import("croner");
  } catch (cause) {
    const what = "a schedule needs a parser of cron expressions";
    throw new MissingLibraryError(what, INSTALL_LINE, { cause });
  }
}
