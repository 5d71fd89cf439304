/** From a call of `acquire` or `tryAcquire` to a lease, whatever way the backend makes wait. */
import { Attempts } from "./attempt.js";
import type { Contender } from "./attempt.js";
import type { Backend, Held } from "./backend.js";
import type { Calls } from "./call.js";
import { Cleanup } from "./cleanup.js";
import { OutcomeUnknownError, NotAcquiredError, UnavailableError } from "./errors.js";
import { Leases } from "./keeper.js";
import type { HeldLease } from "./lease.js";
import { Members } from "./members.js";
import { Observed } from "./observed.js";
import type { AcquireTerms, LeaseTerms } from "./options.js";
import { Patience, PatienceOver } from "./patience.js";
import { Queueing } from "./queueing.js";
import type { Runtime } from "./runtime.js";
import { SessionPool } from "./sessions.js";
import type { Stats } from "./stats.js";
import type { FencingToken } from "./token.js";
import { Waiting } from "./waiting.js";

/** How long closing waits for tries that are under way, milliseconds. */
const LAST_TRIES_MS = 100;

/** What one try brought. */
type Tried<T extends FencingToken | undefined> =
  { readonly lease: HeldLease<T> } | { readonly held: Held | undefined };

/** Everything between the public calls and the backend. */
export class Acquisition<T extends FencingToken | undefined> {
  readonly leases: Leases<T>;
  readonly cleanup: Cleanup<T>;
  readonly sessions: SessionPool<T> | undefined;
  readonly #backend: Backend<T>;
  readonly #runtime: Runtime;
  readonly #calls: Calls;
  readonly #stats: Stats;
  readonly #attempts: Attempts<T>;
  readonly #observed: Observed;
  readonly #waiting: Waiting<T>;
  readonly #queueing: Queueing<T> | undefined;
  readonly #patient = new Members<Patience>();
  #trying = 0;
  #allTried: (() => void) | undefined;
  #isStopped = false;

  constructor(backend: Backend<T>, runtime: Runtime, calls: Calls, stats: Stats) {
    this.#backend = backend;
    this.#runtime = runtime;
    this.#calls = calls;
    this.#stats = stats;
    this.#observed = new Observed(runtime.clock);
    this.cleanup = new Cleanup(backend, runtime, calls);
    this.sessions =
      backend.sessions === undefined ? undefined : new SessionPool(backend, runtime, calls);
    const { sessions, cleanup } = this;
    this.leases = new Leases(
      { backend, runtime, calls, stats, sessions, cleanup },
      () => this.#attempts,
    );
    this.#attempts = new Attempts(backend, runtime, sessions, cleanup, this.leases, calls);
    const isHeldHere = (name: string): boolean => this.leases.isHeldHere(name);
    this.#waiting = new Waiting(
      backend,
      runtime,
      this.#attempts,
      this.#observed,
      calls,
      isHeldHere,
    );
    this.leases.onFreed = (name) => this.#waiting.freed(name);
    if (backend.waiting.kind === "queue") {
      this.#queueing = new Queueing(
        backend,
        backend.waiting,
        runtime,
        this.#attempts,
        sessions,
        calls,
      );
    }
  }

  /** One try. `held` is undefined where others of this process were first. */
  once(name: string, terms: LeaseTerms): Promise<Tried<T>> {
    return this.#counted(this.#once(name, terms));
  }

  async #once(name: string, terms: LeaseTerms): Promise<Tried<T>> {
    if (this.cleanup.isPending(name)) await this.#attempts.settle(name);
    const contender = this.#contender(name, terms);
    if (this.#queueing === undefined && this.#waiting.isTaken(name)) {
      this.#refused(contender, undefined, 0);
      return { held: undefined };
    }
    try {
      let answer = await this.#attempts.once(contender);
      if ("held" in answer) {
        const takeOver = this.#ripe(name, answer.held);
        if (takeOver !== undefined) answer = await this.#attempts.once(contender, takeOver);
      }
      if ("lease" in answer) {
        if (this.#isStopped) {
          this.#attempts.late(contender, { status: "fulfilled", value: answer });
          throw this.#closedError(name);
        }
        this.leases.keep(answer.lease, 0);
        return answer;
      }
      this.#refused(contender, answer.held, 0);
      this.#attempts.abandon(contender);
      return answer;
    } catch (error) {
      this.#attempts.abandon(contender);
      throw this.#told(name, "acquire", error);
    }
  }

  /**
   * Waits for a lease.
   *
   * @throws NotAcquiredError once `waitMs` have passed; the signal's own reason once it aborts;
   *   UnavailableError or OutcomeUnknownError when the store does not answer.
   */
  wait(name: string, terms: AcquireTerms): Promise<HeldLease<T>> {
    return this.#counted(this.#wait(name, terms));
  }

  async #wait(name: string, terms: AcquireTerms): Promise<HeldLease<T>> {
    const { signal } = terms;
    signal?.throwIfAborted();
    // The first of several names may have been granted just before closing began.
    if (this.#isStopped) throw this.#closedError(name);
    // Without time to wait there is still one try, however long the store takes to answer it.
    const waitMs = terms.waitMs === 0 ? Infinity : terms.waitMs;
    const { timeoutMs } = this.#calls;
    const patience = new Patience(this.#runtime, waitMs, signal, timeoutMs, (undone) => {
      void this.#counted(undone);
    });
    this.#patient.add(patience);
    const contender = this.#contender(name, terms);
    let seen: Held | undefined;
    const see = (held: Held): void => void (seen = held);
    try {
      if (terms.waitMs === 0) return await this.#atOnce(name, terms, patience);
      await patience.race(this.#attempts.settle(name), () => undefined);
      const lease = await (this.#queueing ?? this.#waiting).wait(contender, patience, see);
      this.leases.keep(lease, patience.waitedMs());
      return lease;
    } catch (error) {
      this.#attempts.abandon(contender);
      if (!(error instanceof PatienceOver)) throw this.#told(name, "acquire", error);
      const waitedMs = patience.waitedMs();
      this.#refused(contender, seen, waitedMs);
      throw this.#overError(error, contender, seen, terms, patience);
    } finally {
      this.#patient.delete(patience);
      patience.dispose();
    }
  }

  /**
   * All of these names, in this order, or none: what was granted goes to `giveBack`. The time to
   * wait counts for all together.
   */
  async waitAll(
    names: readonly string[],
    terms: AcquireTerms,
    giveBack: (lease: HeldLease<T>) => Promise<void>,
  ): Promise<readonly HeldLease<T>[]> {
    const { clock } = this.#runtime;
    const startedMs = clock.monotonicMs();
    const leases: HeldLease<T>[] = [];
    try {
      for (const name of names) {
        const waitMs = Math.max(0, terms.waitMs - (clock.monotonicMs() - startedMs));
        leases.push(await this.wait(name, { ...terms, waitMs }));
      }
      for (const lease of leases) lease.assertHeld();
      return leases;
    } catch (error) {
      await Promise.all(leases.map(giveBack));
      throw error;
    }
  }

  async #atOnce(name: string, terms: LeaseTerms, patience: Patience): Promise<HeldLease<T>> {
    const answer = await patience.race(this.once(name, terms), (late) => {
      if (late.status !== "fulfilled" || !("lease" in late.value)) return;
      const { lease } = late.value;
      lease.release().catch((error: unknown) => this.#told(name, "release", error));
    });
    if ("lease" in answer) return answer.lease;
    throw this.#notAcquired(name, answer.held, 0);
  }

  /** Ends all waiting; tries under way have a moment to come back. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    for (const patience of this.#patient) patience.end("closed");
    if (this.#trying > 0) await this.#lastTries();
    await this.#queueing?.settled();
  }

  #lastTries(): Promise<void> {
    return new Promise((over) => {
      const timer = this.#runtime.timers.after(LAST_TRIES_MS, over);
      this.#allTried = () => {
        timer.cancel();
        over();
      };
    });
  }

  async #counted<R>(work: Promise<R>): Promise<R> {
    this.#trying++;
    try {
      return await work;
    } finally {
      if (--this.#trying === 0) this.#allTried?.();
    }
  }

  #closedError(lock: string): UnavailableError {
    const about = { lock, backend: this.#backend.manifest.backend, retryable: false };
    return new UnavailableError("this tenure was closed", about);
  }

  #contender(name: string, terms: LeaseTerms): Contender {
    return { name, holder: this.#runtime.random.id(), terms, unsure: false };
  }

  #ripe(name: string, held: Held): string | undefined {
    if (this.#backend.manifest.expiryClock !== "observed") return undefined;
    return this.#observed.ripe(name, held);
  }

  #refused({ name, holder }: Contender, held: Held | undefined, waitedMs: number): void {
    this.#stats.of(name).refused++;
    const { events } = this.#runtime;
    if (!events.wants("refused")) return;
    const backend = this.#backend.manifest.backend;
    events.publish({ type: "refused", name, backend, holder, held, waitedMs });
  }

  #told(name: string, during: string, error: unknown): unknown {
    const { events } = this.#runtime;
    const isSilent = error instanceof UnavailableError || error instanceof OutcomeUnknownError;
    if (isSilent && events.wants("unavailable")) {
      const backend = this.#backend.manifest.backend;
      events.publish({ type: "unavailable", name, backend, during, error });
    }
    return error;
  }

  #overError(
    over: PatienceOver,
    { name }: Contender,
    held: Held | undefined,
    terms: AcquireTerms,
    patience: Patience,
  ): unknown {
    if (over.because === "aborted") return terms.signal!.reason;
    if (over.because === "closed") {
      return this.#closedError(name);
    }
    // A store that said nothing at all is not a store that said "held".
    if (held === undefined) {
      const failure = patience.failure ?? (patience.isAsking ? this.#silent(name, patience) : null);
      if (failure !== null) return this.#told(name, "acquire", failure);
    }
    return this.#notAcquired(name, held, patience.waitedMs());
  }

  #silent(lock: string, patience: Patience): OutcomeUnknownError {
    const text = `acquire was not answered within ${Math.round(patience.waitedMs())} ms`;
    return new OutcomeUnknownError(text, { lock, backend: this.#backend.manifest.backend });
  }

  #notAcquired(lock: string, held: Held | undefined, waitedMs: number): NotAcquiredError {
    const text = `${JSON.stringify(lock)} was not acquired within ${Math.round(waitedMs)} ms`;
    return new NotAcquiredError(`${text}: ${describeHeld(held)}`, {
      lock,
      backend: this.#backend.manifest.backend,
      ...(held === undefined ? {} : { held }),
    });
  }
}

/** A held record in words. */
function describeHeld(held: Held | undefined): string {
  if (held === undefined) return "others of this process were first";
  if (held.why === "lock-delay") return "free, and held back by the store's lock delay";
  const parts = [`held by ${held.holder ?? "an unnamed holder"}`];
  const info = Object.entries(held.holderInfo ?? {}).map(([key, value]) => `${key} ${value}`);
  if (info.length > 0) parts.push(`(${info.join(", ")})`);
  if (held.token !== undefined) parts.push(`with token ${held.token}`);
  if (held.leftMs !== undefined) parts.push(`for ${Math.max(0, Math.round(held.leftMs))} ms more`);
  return parts.join(" ");
}
