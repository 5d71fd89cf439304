/** Options of the queue, checked before any input or output. */
import { parseDuration, type Duration } from "../core/duration.js";
import { ArgumentTypeError } from "../core/errors.js";
import { jsonText, MOST_JSON_BYTES } from "../core/json.js";
import { checkOnError, reasonText, type OnError } from "../core/mishaps.js";
import { checkName } from "../core/names.js";
import { checkKnown, checkSignal } from "../core/options.js";
import type { SqlStoreOptions } from "../sql/store.js";
import { wholeNumber } from "../sql/whole-number.js";
import { scopeOf, type AddedJob } from "./terms.js";

/** Options of `queue`. */
export interface QueueOptions extends SqlStoreOptions {
  /** Which queue of the store: 1 to 64 letters, digits, `_`, `.` and `-`. Default `jobs`. */
  readonly name?: string;
  /** A job that was taken so often without being completed is set aside. Default 5. */
  readonly maxTries?: number;
  /** How long the id of a job that is done is kept, so that it is not added again. Default 24 h. */
  readonly keepDone?: Duration;
}

/** A job to add. */
export interface NewJob {
  /** Jobs of one key run one at a time, in the order in which they were added. */
  readonly key: string;
  /** Anything that JSON can carry; at most 1 MiB. */
  readonly payload: unknown;
  /** Adding the same id again does nothing. Default: a fresh one. */
  readonly id?: string;
  /** Not to be taken earlier. It keeps its place: later jobs of its key wait for it. Default 0. */
  readonly delay?: Duration;
}

/** What became of an `add`. */
export interface Added {
  readonly id: string;
  /** False when the id was there already; what is there is left as it is. */
  readonly added: boolean;
}

/** Options of `take`. */
export interface TakeOptions {
  /** Says who it is, for people who look at the store. Default: host and pid. */
  readonly worker?: string;
  /** How long the job is this worker's without being extended. Default 30 s. */
  readonly lease?: Duration;
}

/** Options of `work`. */
export interface WorkOptions extends TakeOptions {
  /** How many jobs at a time. Default 1. */
  readonly concurrency?: number;
  /** Ends the work: no further job is taken, and those that run are waited for. */
  readonly signal?: AbortSignal;
  /** How often to look for a job where there was none. Default 500 ms. */
  readonly pollEvery?: Duration;
  /**
   * Told what a handler threw, with its job, and what the store failed with; the work goes on. If
   * it throws itself, the work ends, and rejects with that. Default: a `tenure:warning`.
   */
  readonly onError?: OnError<FailedJob>;
}

/** The job whose handler threw. */
export interface FailedJob {
  readonly id: string;
  readonly key: string;
  readonly payload: unknown;
  readonly tries: number;
}

/** Options of `fail`. */
export interface FailOptions {
  readonly retryIn?: Duration;
  /** Why, for people; the first 2000 characters are kept. */
  readonly reason?: string;
}

/** Checked options of `queue`. */
export interface QueueTerms {
  readonly name: string;
  readonly maxTries: number;
  readonly keepDoneMs: number;
}

/** Checked options of `take`. */
export interface TakeTerms {
  readonly worker: string;
  readonly leaseMs: number;
}

/** Checked options of `work`. */
export interface WorkTerms extends TakeTerms {
  readonly concurrency: number;
  readonly signal: AbortSignal | undefined;
  readonly pollMs: number;
  readonly onError: OnError<FailedJob> | undefined;
}

const NAME = /^[A-Za-z0-9_.-]{1,64}$/;
const LEASE = { minMs: 100, maxMs: 86_400_000 };
const YEAR_MS = 365 * 86_400_000;
const TAKE = ["worker", "lease"];
const WORK = [...TAKE, "concurrency", "signal", "pollEvery", "onError"];

/** @throws TypeError or RangeError naming option and value. */
export function queueTerms(options: QueueOptions): QueueTerms {
  const { name = "jobs", maxTries = 5, keepDone = "24h" } = options;
  if (typeof name !== "string" || !NAME.test(name)) {
    throw new ArgumentTypeError("name", name, "1 to 64 letters, digits, _, . and -");
  }
  const limits = { zero: true, maxMs: YEAR_MS };
  const keepDoneMs = parseDuration(keepDone, "keepDone", limits);
  return { name, maxTries: wholeNumber(maxTries, "maxTries", 1_000_000), keepDoneMs };
}

/** A job as it is written. @throws as `queueTerms`. */
export function checkJob(job: NewJob, queue: string, newId: () => string): AddedJob {
  checkKnown(job, ["key", "payload", "id", "delay"]);
  const key = checkName(job.key, "key");
  // What a fence keeps has the queue's name in it.
  checkName(scopeOf(queue, key), "key");
  const id = job.id === undefined ? newId() : checkName(job.id, "id");
  const { delay = 0 } = job;
  const delayMs = parseDuration(delay, "delay", { zero: true, maxMs: YEAR_MS });
  return { queue, key, id, payload: jsonText(job.payload, "payload", MOST_JSON_BYTES), delayMs };
}

/** @throws as `queueTerms`. */
export function takeTerms(options: TakeOptions, me: string, known: string[] = TAKE): TakeTerms {
  checkKnown(options, known);
  const { worker = me, lease = "30s" } = options;
  return {
    worker: checkName(worker, "worker"),
    leaseMs: parseDuration(lease, "lease", LEASE),
  };
}

/** @throws as `queueTerms`. */
export function workTerms(options: WorkOptions, me: string): WorkTerms {
  const take = takeTerms(options, me, WORK);
  const { concurrency = 1, pollEvery = 500 } = options;
  return {
    ...take,
    concurrency: wholeNumber(concurrency, "concurrency", 1_000),
    signal: checkSignal(options.signal),
    pollMs: parseDuration(pollEvery, "pollEvery", { minMs: 10, maxMs: 3_600_000 }),
    onError: checkOnError(options.onError),
  };
}

/** Milliseconds until a failed job may be taken again. */
export function retryPause(retryIn: Duration | undefined, tries: number): number {
  if (retryIn !== undefined) {
    return parseDuration(retryIn, "retryIn", { zero: true, maxMs: YEAR_MS });
  }
  return Math.min(600_000, 1_000 * 2 ** Math.min(20, tries - 1));
}

/** Text for people, shortened. @throws TypeError for anything but text. */
export function checkReason(reason: unknown = "failed"): string {
  if (typeof reason !== "string") throw new ArgumentTypeError("reason", reason, "a text");
  return reasonText(reason);
}
