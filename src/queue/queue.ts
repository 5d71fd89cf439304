/**
 * Jobs that run one at a time per key, and in parallel across keys.
 *
 * A worker takes a job with a lease, by the store's clock, and a token. When the lease is over the
 * job is taken again, with a higher token; the first worker can then neither extend nor complete
 * it, and a fence that the second has armed refuses its writes.
 */
import { now } from "../core/deadline.js";
import { ArgumentTypeError } from "../core/errors.js";
import { reasonOf } from "../core/mishaps.js";
import type { Runtime } from "../core/runtime.js";
import { checkName } from "../core/names.js";
import { checkKnown } from "../core/options.js";
import type { Answered } from "../sql/script.js";
import type { CallersTx, SqlStore } from "../sql/store.js";
import { wholeNumber } from "../sql/whole-number.js";
import { afterwards } from "../sql/script.js";
import { HeldJob, type Job, type QueueDialect } from "./job.js";
import { addJob, reviveJob, takeJob } from "./line.js";
import {
  checkJob,
  takeTerms,
  workTerms,
  type Added,
  type NewJob,
  type QueueTerms,
  type TakeOptions,
  type TakeTerms,
  type WorkOptions,
} from "./options.js";
import { deadJobs, queueStats, sweepJobs, type DeadJob, type QueueStats } from "./overview.js";
import { workOff, type Taken, type Tell } from "./worker.js";

const SWEEP_EVERY_MS = 60_000;

/** What a worker does with a job. When it returns the job is completed, unless it did so itself. */
export type JobHandler<K extends QueueDialect> = (job: Job<K>) => unknown;

/** A queue in a store. */
export class Queue<K extends QueueDialect> {
  readonly #store: SqlStore<K>;
  readonly #runtime: Runtime;
  readonly #terms: QueueTerms;
  readonly #closing = new AbortController();
  readonly #working = new Set<Promise<void>>();
  #sweptAtMs = -Infinity;

  constructor(store: SqlStore<K>, runtime: Runtime, terms: QueueTerms) {
    this.#store = store;
    this.#runtime = runtime;
    this.#terms = terms;
  }

  /** Id of the store, part of the scope of its tokens. */
  get storeId(): string {
    return this.#store.storeId;
  }

  /**
   * Adds a job; with a transaction, only if that is committed. On SQLite the answer is there at
   * once in a transaction.
   *
   * @throws TypeError or RangeError for a wrong key, id, delay or payload: nothing was written.
   */
  add(job: NewJob): Promise<Added>;
  add(tx: CallersTx<K>, job: NewJob): Answered<K, Added>;
  add(...args: [NewJob] | [CallersTx<K>, NewJob]): Promise<Added> | Answered<K, Added> {
    const [job, run] =
      args.length === 1 ? [args[0], this.#store.run] : [args[1], this.#store.within(args[0])];
    let id = "";
    const done = run("add a job", () => {
      const checked = checkJob(job, this.#terms.name, () => this.#runtime.random.id());
      ({ id } = checked);
      return addJob(checked);
    });
    return afterwards(done, (added) => ({ id, added })) as Answered<K, Added>;
  }

  /**
   * The next job whose key has none running, or null where there is none now. It is not extended
   * unless its `extend` is called.
   */
  async take(options: TakeOptions = {}): Promise<Job<K> | null> {
    const terms = takeTerms(options, this.#me());
    return (await this.#take(terms, (error) => this.#warn(error))).job;
  }

  /**
   * Takes jobs and hands them to a handler until `signal` aborts; those that run are then waited
   * for. Each job is extended in the background while its handler runs. A job whose handler throws
   * is given back, to be tried again.
   *
   * @throws UnavailableError when asking the store again cannot help; what `onError` throws.
   */
  async work(handler: JobHandler<K>, options: WorkOptions = {}): Promise<void> {
    if (typeof handler !== "function") {
      throw new ArgumentTypeError("handler", handler, "a function");
    }
    const terms = workTerms(options, this.#me());
    const work = workOff({
      runtime: this.#runtime,
      take: (tell) => this.#take(terms, tell),
      handler,
      terms,
      about: this.#about,
      closing: this.#closing.signal,
    });
    const settled = work.catch(() => undefined);
    this.#working.add(settled);
    await work.finally(() => this.#working.delete(settled));
  }

  /** Numbers of the queue. */
  stats(): Promise<QueueStats> {
    return this.#store.run("count jobs", () => queueStats(this.#terms.name));
  }

  /** Jobs that were set aside, the latest first. Default limit 100. */
  async dead(options: { readonly limit?: number } = {}): Promise<DeadJob[]> {
    checkKnown(options, ["limit"]);
    const { limit = 100 } = options;
    const most = wholeNumber(limit, "limit", 10_000);
    return await this.#store.run("list dead jobs", () => deadJobs(this.#terms.name, most));
  }

  /** Puts a dead job back into its old place in line; false where there is none with this id. */
  async revive(id: string): Promise<boolean> {
    const checked = checkName(id, "id");
    return await this.#store.run("revive a job", () => reviveJob(this.#terms.name, checked));
  }

  /** Ends the work, waits for the jobs that run, and closes what was opened here. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all(this.#working);
    await this.#store.close();
  }

  async #take({ worker, leaseMs }: TakeTerms, tell: Tell): Promise<Taken<K>> {
    const { name: queue, maxTries } = this.#terms;
    await this.#sweep().catch(tell);
    for (;;) {
      const holder = this.#runtime.random.id();
      const sentAt = now(this.#runtime.clock);
      const taker = { queue, holder, worker, leaseMs, maxTries };
      const { job, inMs } = await this.#store.run("take a job", () => takeJob(taker));
      if (job === null && inMs === 0 && !this.#closing.signal.aborted) continue;
      if (job === null) return { job: null, inMs };
      const holding = { queue, holder, leaseMs, maxTries, sentAt };
      return { job: new HeldJob(this.#store, this.#runtime, job, holding), inMs: null };
    }
  }

  /** What cannot be forgotten only takes up room: no job is to be lost over it. */
  async #sweep(): Promise<void> {
    const { name, keepDoneMs } = this.#terms;
    const atMs = this.#runtime.clock.monotonicMs();
    if (atMs - this.#sweptAtMs < SWEEP_EVERY_MS) return;
    this.#sweptAtMs = atMs;
    const sweep = () => sweepJobs(name, keepDoneMs);
    const hasMore = await this.#store.run("forget jobs that are done", sweep);
    if (hasMore) this.#sweptAtMs = -Infinity;
  }

  #warn(error: unknown): void {
    const warning = { type: "warning", message: reasonOf(error) } as const;
    this.#runtime.events.publish({ ...warning, ...this.#about });
  }

  /** Which queue it is, for events. */
  get #about(): { readonly name: string; readonly backend: QueueDialect } {
    return { name: this.#terms.name, backend: this.#store.dialect };
  }

  #me(): string {
    const { host, pid } = this.#runtime.holderInfo;
    return `${host ?? "?"}:${pid ?? "?"}`;
  }
}
