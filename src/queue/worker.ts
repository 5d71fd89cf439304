/** Working jobs off: takes one after the other, as many at a time as is allowed. */
import { whenAborted } from "../core/aborting.js";
import { isNoAnswer } from "../core/call.js";
import { UnavailableError } from "../core/errors.js";
import { asWarnings, Mishaps } from "../core/mishaps.js";
import type { Runtime } from "../core/runtime.js";
import { jittered, restFor, type Rest } from "../sql/rest.js";
import type { HeldJob, Job, QueueDialect } from "./job.js";
import type { FailedJob, WorkTerms } from "./options.js";

/** A job, or how long until there may be one. */
export interface Taken<K extends QueueDialect> {
  readonly job: HeldJob<K> | null;
  readonly inMs: number | null;
}

/** Told of what went wrong beside a take, which goes on. */
export type Tell = (error: unknown) => void;

/** What the work is made of. */
export interface WorkParts<K extends QueueDialect> {
  readonly runtime: Runtime;
  readonly take: (tell: Tell) => Promise<Taken<K>>;
  readonly handler: (job: Job<K>) => unknown;
  readonly terms: WorkTerms;
  /** Of the queue, for events. */
  readonly about: { readonly name: string; readonly backend: string };
  /** The queue is being closed. */
  readonly closing: AbortSignal;
}

/**
 * Resolves when the signal has aborted and nothing runs any more.
 *
 * One take at a time while there is nothing to do. While each finds a job, twice as many are asked
 * for at once the next time, up to what may run: a take is a commit, and waits for a disk.
 *
 * @throws What asking the store failed with for good, or what `onError` threw.
 */
export async function workOff<K extends QueueDialect>(parts: WorkParts<K>): Promise<void> {
  const { runtime, terms, closing } = parts;
  const mishaps = new Mishaps(terms.onError ?? asWarnings(runtime.events, parts.about));
  const { signal: stop, unlisten } = anyOf(terms.signal, closing, mishaps.over);
  const running = new Set<Promise<void>>();
  let resting: Rest | undefined;
  let ends = 0;
  let most = 1;
  const rest = async (ms: number): Promise<void> => {
    resting = restFor(runtime, ms, stop);
    await resting.over;
  };
  /** Its job runs as soon as it is there, whatever becomes of others that were asked for. */
  const takeOne = async (): Promise<Taken<K>> => {
    const next = await takeNext(parts, mishaps);
    if (next.job === null) return next;
    const done = runJob(next.job, parts.handler, mishaps).finally(() => {
      running.delete(done);
      ends += 1;
      // Its key may have a further job.
      resting?.end();
    });
    running.add(done);
    return next;
  };
  try {
    while (!stop.aborted) {
      const free = terms.concurrency - running.size;
      if (free === 0) {
        await Promise.race(running);
        continue;
      }
      const before = ends;
      const taken = await allOf(Array.from({ length: Math.min(free, most) }, takeOne));
      const none = taken.filter(({ job }) => job === null);
      most = none.length === 0 ? Math.min(2 * most, terms.concurrency) : 1;
      // A job that ended meanwhile may have been in the way of the next of its key.
      if (none.length < taken.length || ends > before) continue;
      const inMs = Math.min(...none.map((next) => next.inMs ?? Infinity));
      await rest(Math.min(jittered(runtime, terms.pollMs), Math.max(1, inMs)));
    }
  } finally {
    unlisten();
    await Promise.all(running);
  }
  mishaps.throwIfOver();
}

/** Waits for all, also where one fails. */
async function allOf<R>(answers: readonly Promise<R>[]): Promise<R[]> {
  await Promise.allSettled(answers);
  return await Promise.all(answers);
}

async function takeNext<K extends QueueDialect>(
  { take }: WorkParts<K>,
  mishaps: Mishaps<FailedJob>,
): Promise<Taken<K>> {
  try {
    return await take((error) => mishaps.tell(error));
  } catch (error) {
    const isHopeless = error instanceof UnavailableError && !error.retryable;
    if (!isNoAnswer(error) || isHopeless) throw error;
    mishaps.tell(error);
    return { job: null, inMs: null };
  }
}

/** Never rejects: what fails is told, and the lease ends what could not be ended. */
async function runJob<K extends QueueDialect>(
  job: HeldJob<K>,
  handler: (job: Job<K>) => unknown,
  mishaps: Mishaps<FailedJob>,
): Promise<void> {
  job.keep();
  try {
    try {
      await handler(job);
      await job.settle();
    } catch (error) {
      mishaps.tell(error, job);
      await job.giveBack(error);
    }
  } catch (error) {
    mishaps.tell(error, job);
  } finally {
    job.end();
  }
}

/** `AbortSignal.any` would be kept by a signal that lives as long as the process. */
function anyOf(...signals: readonly (AbortSignal | undefined)[]): {
  readonly signal: AbortSignal;
  readonly unlisten: () => void;
} {
  const any = new AbortController();
  const ends = signals.map((one) => whenAborted(one, () => any.abort()));
  return { signal: any.signal, unlisten: () => ends.forEach((end) => end()) };
}
