/** A job that this process has taken. */
import { SupersededError } from "../core/errors.js";
import type { Moment } from "../core/deadline.js";
import { reasonOf } from "../core/mishaps.js";
import { checkKnown } from "../core/options.js";
import type { Runtime } from "../core/runtime.js";
import type { TokenBearer } from "../core/token.js";
import { RowLease } from "../sql/row-lease.js";
import type { Answered } from "../sql/script.js";
import type { CallersTx, SqlStore } from "../sql/store.js";
import {
  completeJob,
  completeOnce,
  extendJob,
  failJob,
  isDone,
} from "./line.js";
import { scopeOf, type Running, type TakenJob } from "./terms.js";
import { checkReason, retryPause, type FailOptions } from "./options.js";

/** Where queues live. */
export type QueueDialect = "sqlite" | "postgres";

/**
 * A job under its lease: this worker's alone until `remaining()` is 0, and the only one of its key.
 *
 * It is what a fence takes for a lease: arm with it what the job writes, and a worker that was
 * frozen writes nothing once the job was taken again.
 *
 * Not promised: that a worker whose lease is over has stopped. Its completion is refused, and so is
 * all that stands in the same transaction; effects outside are repeated by the next worker.
 */
export interface Job<K extends QueueDialect = QueueDialect> extends TokenBearer {
  readonly id: string;
  readonly key: string;
  readonly payload: unknown;
  /** How often it was taken, this time included. */
  readonly tries: number;
  /** Aborted when the lease is lost or its deadline is near. */
  readonly signal: AbortSignal;
  /** Milliseconds to the deadline of the lease, 0 once past. */
  remaining(): number;
  /**
   * Sets the lease anew, from now.
   *
   * @throws LeaseLostError when it is over, also when the answer comes only then: it stays lost.
   */
  extend(): Promise<void>;
  /**
   * Ends the job. With a transaction, together with what stands in it: both are there or neither.
   *
   * @throws SupersededError when the lease is over: roll back then. Nothing was done.
   */
  complete(): Promise<void>;
  complete(tx: CallersTx<K>): Answered<K, void>;
  /**
   * Gives the job back, to be taken again after `retryIn`; after its last try it is set aside.
   * Default for `retryIn`: a second, doubled with each try, at most ten minutes.
   *
   * @throws SupersededError when the lease is over.
   */
  fail(options?: FailOptions): Promise<"retry" | "dead">;
}

/** How a job is held. */
export interface Holding {
  readonly queue: string;
  readonly holder: string;
  readonly leaseMs: number;
  readonly maxTries: number;
  readonly sentAt: Moment;
}

/** The job of a queue. */
export class HeldJob<K extends QueueDialect> extends RowLease implements Job<K> {
  readonly id: string;
  readonly key: string;
  readonly payload: unknown;
  readonly tries: number;
  readonly #store: SqlStore<K>;
  readonly #running: Running;
  readonly #maxTries: number;
  #isCompleting = false;
  #isGivenBack = false;
  /** Settles, and never rejects, when what ends the job has been answered. */
  #ending: Promise<unknown> | undefined;

  constructor(store: SqlStore<K>, runtime: Runtime, taken: TakenJob, holding: Holding) {
    const { queue, holder, leaseMs, sentAt, maxTries } = holding;
    const { key, seq, token } = taken;
    const running: Running = { queue, key, seq, holder, token };
    const name = scopeOf(queue, key);
    super(
      { name, token, holder, storeId: store.storeId, leaseMs, sentAt },
      {
        kind: "queue",
        runtime,
        extend: async () => {
          const isHeld = await store.run("extend a job", () => extendJob(running, leaseMs));
          // It may have met this holder's own end of the job, whose answer is to come.
          if (!isHeld) await this.#ending;
          return isHeld;
        },
      },
    );
    this.id = taken.id;
    this.key = key;
    this.payload = JSON.parse(taken.payload) as unknown;
    this.tries = taken.tries;
    this.#store = store;
    this.#running = running;
    this.#maxTries = maxTries;
  }

  protected override get kind(): string {
    return "Job";
  }

  /** Without the payload, which is the caller's, and may be large. */
  protected override facts(): object {
    const { id, key, tries } = this;
    return { id, key, tries, ...super.facts() };
  }

  complete(): Promise<void>;
  complete(tx: CallersTx<K>): Answered<K, void>;
  complete(...[tx]: [] | [CallersTx<K>]): Promise<void> | Answered<K, void> {
    if (arguments.length === 0) return this.#complete();
    const run = this.#store.within(tx as CallersTx<K>);
    // From here on the row is locked until the transaction ends, and cannot be extended.
    this.#isCompleting = true;
    this.rest();
    return run<void>("complete a job", () => completeJob(this.#running));
  }

  async #complete(): Promise<void> {
    const running = this.#running;
    await this.#end(this.#store.run("complete a job", () => completeOnce(running)));
  }

  async #end<R>(answer: Promise<R>): Promise<R> {
    const ended = answer.then((value) => {
      this.end();
      return value;
    });
    this.#ending = ended.catch(() => undefined);
    return await ended;
  }

  async fail(options: FailOptions = {}): Promise<"retry" | "dead"> {
    checkKnown(options, ["retryIn", "reason"]);
    const retryInMs = retryPause(options.retryIn, this.tries);
    const reason = checkReason(options.reason);
    const maxTries = this.#maxTries;
    const failing = (): ReturnType<typeof failJob> =>
      failJob(this.#running, { reason, retryInMs, maxTries });
    const answer = await this.#end(this.#store.run("give a job back", failing));
    this.#isGivenBack = true;
    return answer;
  }

  /**
   * After a handler has returned: completes the job, unless the handler did so in a transaction
   * or has given it back.
   *
   * @throws Error when that transaction was not committed, SupersededError as `complete`.
   */
  async settle(): Promise<void> {
    if (this.#isGivenBack) return;
    if (!this.#isCompleting) return await this.#complete();
    const running = this.#running;
    const isCommitted = await this.#store.run("look at a job", () => isDone(running));
    if (!isCommitted) throw new Error("the transaction that completes the job was not committed");
    this.end();
  }

  /** After a handler has failed; an error that comes from the end of the lease is left alone. */
  async giveBack(error: unknown): Promise<void> {
    if (this.#isGivenBack) return;
    const running = this.#running;
    // The handler may have completed it and failed afterwards, or not have seen the answer.
    if (await this.#store.run("look at a job", () => isDone(running))) return this.end();
    try {
      await this.fail({ reason: reasonOf(error) });
    } catch (refused) {
      if (!(refused instanceof SupersededError)) throw refused;
      this.end();
    }
  }
}
