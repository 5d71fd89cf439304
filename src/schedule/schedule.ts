/**
 * Work that runs at the times of a cron expression, on one of all replicas.
 *
 * Every replica waits for the next time, by the store's clock, and then asks for the fire; one is
 * given it, with a lease and a token. The others see that it was dealt with. A run whose process
 * dies is begun again by another replica when its lease is over, with a higher token.
 *
 * Not promised: that the work runs exactly once. It is *begun* once unless a process dies or is
 * frozen; its effects are there once if they stand in one transaction with `fire.complete(tx)`, or
 * behind a fence.
 */
import { whenAborted } from "../core/aborting.js";
import { isNoAnswer } from "../core/call.js";
import { now } from "../core/deadline.js";
import { SupersededError, UnavailableError } from "../core/errors.js";
import { asWarnings, Mishaps, reasonOf } from "../core/mishaps.js";
import { checkKnown } from "../core/options.js";
import type { Runtime } from "../core/runtime.js";
import { jittered, restFor, type Rest } from "../sql/rest.js";
import type { SqlStore } from "../sql/store.js";
import { wholeNumber } from "../sql/whole-number.js";
import { HeldFire, type Fire, type ScheduleDialect } from "./fire.js";
import { claimFire, listFires, sweepFires, type Claimer, type FireRecord } from "./fires.js";
import { dueFires, type FailedFire, type ScheduleTerms, type Times } from "./options.js";

/** The store is asked at least so often: its clock may be set meanwhile. */
const LONGEST_REST_MS = 60_000;
const AFTER_ERROR_MS = 1_000;
const SWEEP_EVERY_MS = 3_600_000;

/** What runs at each fire. */
export type FireWork<K extends ScheduleDialect> = (fire: Fire<K>) => unknown;

/** What a schedule is made of. */
export interface ScheduleParts<K extends ScheduleDialect> {
  readonly store: SqlStore<K>;
  readonly runtime: Runtime;
  readonly name: string;
  readonly times: Times;
  readonly work: FireWork<K>;
  readonly terms: ScheduleTerms;
}

/** A schedule in this process. It has begun. */
export class Schedule<K extends ScheduleDialect> {
  readonly name: string;
  /**
   * Settles when it has ended; rejects when asking the store again cannot help, which `onError` is
   * told, too, since nobody need look here; and with what `onError` threw.
   */
  readonly ended: Promise<void>;
  readonly #parts: ScheduleParts<K>;
  readonly #stop = new AbortController();
  readonly #mishaps: Mishaps<FailedFire>;
  readonly #running = new Set<Promise<void>>();
  #resting: Rest | undefined;
  #sweptAtMs = -Infinity;
  /** How many runs have ended. */
  #ends = 0;

  constructor(parts: ScheduleParts<K>) {
    this.#parts = parts;
    this.name = parts.name;
    const about = { name: parts.name, backend: parts.store.dialect };
    this.#mishaps = new Mishaps(parts.terms.onError ?? asWarnings(parts.runtime.events, about));
    const ends = [parts.terms.signal, this.#mishaps.over].map((signal) =>
      whenAborted(signal, () => this.#stop.abort()),
    );
    this.ended = this.#loop().finally(() => ends.forEach((end) => end()));
    this.ended.catch(() => undefined);
  }

  /** The latest fires of this schedule on all replicas, the latest first. Default limit 100. */
  async history(options: { readonly limit?: number } = {}): Promise<FireRecord[]> {
    checkKnown(options, ["limit"]);
    const { limit = 100 } = options;
    const most = wholeNumber(limit, "limit", 10_000);
    return await this.#parts.store.run("list fires", () => listFires(this.name, most));
  }

  /** Begins no further run, waits for those that last, and closes what was opened here. */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.ended.catch(() => undefined);
    await this.#parts.store.close();
  }

  async #loop(): Promise<void> {
    const { runtime } = this.#parts;
    try {
      while (!this.#stop.signal.aborted) {
        const ends = this.#ends;
        const inMs = await this.#claim();
        // A run that ended while the store was asked may have been what the answer waits for.
        const isOld = this.#ends > ends;
        if (inMs === 0 || isOld || this.#stop.signal.aborted) continue;
        this.#resting = restFor(runtime, Math.min(inMs, LONGEST_REST_MS), this.#stop.signal);
        await this.#resting.over;
      }
    } catch (error) {
      // Whoever does not look at `ended` would wait for fires that never come.
      this.#mishaps.tell(error);
      this.#mishaps.throwIfOver();
      throw error;
    } finally {
      await Promise.all(this.#running);
    }
    this.#mishaps.throwIfOver();
  }

  /** Begins a run if there is one to begin; answers when to ask again. */
  async #claim(): Promise<number> {
    const { store, runtime, terms } = this.#parts;
    try {
      // What cannot be forgotten only takes up room: no run is to be lost over it.
      await this.#sweep().catch((error: unknown) => this.#mishaps.tell(error));
      const holder = runtime.random.id();
      const sentAt = now(runtime.clock);
      const claimer = this.#claimer(holder);
      const claimed = await store.run("claim a fire", () => claimFire(claimer));
      if (!("fire" in claimed)) return claimed.inMs === null ? LONGEST_REST_MS : claimed.inMs + 1;
      const { leaseMs } = terms;
      const holding = { name: this.name, holder, leaseMs, sentAt };
      this.#begin(new HeldFire(store, runtime, claimed.fire, holding));
      return 0;
    } catch (error) {
      const isHopeless = error instanceof UnavailableError && !error.retryable;
      if (!isNoAnswer(error) || isHopeless) throw error;
      this.#mishaps.tell(error);
      return jittered(runtime, AFTER_ERROR_MS);
    }
  }

  #claimer(holder: string): Claimer {
    const { times, terms, runtime } = this.#parts;
    const { host, pid } = runtime.holderInfo;
    return {
      name: this.name,
      holder,
      worker: terms.worker ?? `${host ?? "?"}:${pid ?? "?"}`,
      leaseMs: terms.leaseMs,
      overlap: terms.overlap,
      crashed: terms.crashed,
      maxTries: terms.maxTries,
      due: (uptoMs, nowMs) => dueFires(times, terms, uptoMs, nowMs),
      next: (nowMs) => times.next(nowMs),
    };
  }

  #begin(fire: HeldFire<K>): void {
    const run = this.#run(fire).finally(() => {
      this.#running.delete(run);
      this.#ends += 1;
      // A fire may be waiting for the end of this run.
      this.#resting?.end();
    });
    this.#running.add(run);
  }

  /** Never rejects: what fails is told, and the lease ends what could not be ended. */
  async #run(fire: HeldFire<K>): Promise<void> {
    const { work } = this.#parts;
    fire.keep();
    try {
      try {
        await work(fire);
        await fire.settle();
      } catch (error) {
        this.#mishaps.tell(error, fire);
        if (error instanceof SupersededError) return;
        await fire.fail(reasonOf(error));
      }
    } catch (error) {
      this.#mishaps.tell(error, fire);
    } finally {
      fire.end();
    }
  }

  async #sweep(): Promise<void> {
    const { store, runtime, terms } = this.#parts;
    const atMs = runtime.clock.monotonicMs();
    if (atMs - this.#sweptAtMs < SWEEP_EVERY_MS) return;
    this.#sweptAtMs = atMs;
    await store.run("forget old fires", () => sweepFires(this.name, terms.keepMs));
  }
}
