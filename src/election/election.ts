/**
 * Leader election over the leases of a tenure: the leader is who holds the lease of the name, and
 * its term is the token.
 *
 * A candidacy is a wait for that lease, in the store's own order where it has one. After a term the
 * former leader goes to the back: on a store without an order it rests for longer than any other
 * candidate pauses between two tries, so that each of them has its turn first.
 */
import { whenAborted } from "../core/aborting.js";
import { isNoAnswer } from "../core/call.js";
import { elapsedMs, now } from "../core/deadline.js";
import type { Moment } from "../core/deadline.js";
import {
  ArgumentTypeError,
  GuaranteeError,
  LeaseLostError,
  StepDownTimeoutError,
  UnavailableError,
} from "../core/errors.js";
import type { Lease } from "../core/lease.js";
import { checkName } from "../core/names.js";
import { checkKnown } from "../core/options.js";
import type { AcquireOptions } from "../core/options.js";
import { Patience, PatienceOver } from "../core/patience.js";
import type { Tenure } from "../core/tenure.js";
import type { FencingToken } from "../core/token.js";
import { LONGEST_PAUSE_MS, Pause } from "../core/waiting.js";
import { changes, leaderOf } from "./observation.js";
import type { Leader } from "./observation.js";
import { campaignTerms, electionTerms, leadTerms } from "./options.js";
import type { CampaignOptions, ElectionOptions, ElectionTerms, LeadOptions } from "./options.js";
import { Term } from "./term.js";
import type { Leadership } from "./term.js";

/** What a leader does, for one term. It has to stop when the term's `signal` aborts. */
export type LeaderWork<V> = (term: Leadership) => V | PromiseLike<V>;

/** How one term of a `lead` ended; undefined: revoked, so that another candidacy follows. */
type Served<V> = PromiseSettledResult<V> | undefined;

/**
 * An election by name: all who give the same name in the same store are candidates of it.
 *
 * @throws TypeError or RangeError for bad arguments. GuaranteeError on a store without tokens,
 *   where nothing could tell two leaders apart.
 */
export function election(
  tenure: Tenure<FencingToken>,
  name: string,
  options: ElectionOptions = {},
): Election {
  return new Election(tenure, name, options);
}

/** Candidacies and views of one election, for one process. Made by {@link election}. */
export class Election {
  readonly name: string;
  readonly #tenure: Tenure<FencingToken>;
  readonly #terms: ElectionTerms;
  /** Until when a former leader leaves the others in front. */
  #rest: { readonly from: Moment; readonly forMs: number } | undefined;

  constructor(tenure: Tenure<FencingToken>, name: string, options: ElectionOptions) {
    if (typeof (tenure as Partial<typeof tenure> | undefined)?.watch !== "function") {
      throw new ArgumentTypeError("tenure", tenure, "a tenure, as connect makes it");
    }
    const { tokens, backend } = tenure.manifest as { readonly tokens: string; backend: string };
    if (tokens === "none") {
      const text = `${backend} hands out no tokens, so no term could be told from another`;
      throw new GuaranteeError(text, { backend });
    }
    this.name = checkName(name);
    this.#terms = electionTerms(options, tenure.manifest);
    this.#tenure = tenure;
  }

  /**
   * Stands as a candidate until elected. The caller works while it leads, and has to stop when the
   * `signal` of the leadership aborts; after its last act it calls `resign`.
   *
   * @throws NotAcquiredError once `wait` has passed; the reason of `signal` once it aborts.
   *   TypeError or RangeError for bad arguments, UnavailableError, OutcomeUnknownError.
   */
  async campaign(options: CampaignOptions = {}): Promise<Leadership> {
    const { waitMs, signal, info } = campaignTerms(options, this.#terms.info);
    const from = this.#now();
    await this.#toTheBack(waitMs, signal);
    const wait = Math.max(0, waitMs - elapsedMs(from, this.#now()));
    const lease = await this.#tenure.acquire(this.name, { ...this.#asked(signal, info), wait });
    return this.#elected(lease, from, () => undefined);
  }

  /**
   * Stands as a candidate, works while leading, and stands again after each term that was lost, or
   * that the work resigned. Answers what the work answers once it ends in a term that was not lost,
   * and resigns then; so a work that is to go on until it is told must wait for its signal.
   *
   * When a term is revoked its signal aborts, the grace before the deadline, and the end of the
   * work is awaited. A work that takes longer than `stepDown` may be running still: its lease is
   * not given back and no new candidacy follows. What a work throws after its term was lost is told
   * as an event (`warning`) and does not end the candidacies.
   *
   * `signal` ends the candidacy. While leading it aborts the work, with its lease held and renewed
   * until the work has ended; so does closing the tenure. A store that does not answer is asked
   * again until it does.
   *
   * Not promised: that the work has stopped when the next leader begins, if its process was frozen
   * or the work ignores its signal. A fence armed with the term refuses its writes.
   *
   * @throws What the work throws; StepDownTimeoutError; the reason of `signal` when it aborts a
   *   candidacy; TypeError or RangeError for bad arguments; UnavailableError when the tenure is
   *   closed or asking again cannot help.
   */
  async lead<V>(work: LeaderWork<V>, options: LeadOptions = {}): Promise<V> {
    if (typeof work !== "function") throw new ArgumentTypeError("work", work, "a function");
    const { stepDownMs, signal, info } = leadTerms(options, this.#terms);
    const asked = this.#asked(signal, info);
    let pause = new Pause(this.#tenure.runtime);
    for (;;) {
      let served: Served<V>;
      try {
        await this.#toTheBack(Infinity, signal);
        served = await this.#serve(work, asked, stepDownMs);
        pause = new Pause(this.#tenure.runtime);
      } catch (error) {
        const isFinal = error instanceof UnavailableError && !error.retryable;
        if (isFinal || !isNoAnswer(error)) throw error;
      }
      if (served?.status === "fulfilled") return served.value;
      if (served !== undefined) throw served.reason;
      await this.#sleep(pause.nextMs(), signal);
    }
  }

  /**
   * The leader, or null, and then each change, within about half a second after the store: never
   * the same twice in a row, never an older term than one before. Terms that ended quickly may be
   * missed. Ends when `signal` aborts.
   *
   * On a store with a queue a term shows from its offer on, before its leader has begun; on others
   * from the grant on. Not promised: that the leader shown still works, or knows that it leads.
   *
   * @throws UnavailableError once the tenure is closed, or when asking again cannot help.
   */
  observe(
    options: { readonly signal?: AbortSignal } = {},
  ): AsyncGenerator<Leader | null, void, undefined> {
    checkKnown(options, ["signal"]);
    return changes(this.#tenure.watch(this.name, options));
  }

  /** Who leads now, or null. @throws UnavailableError, OutcomeUnknownError. */
  async leader(): Promise<Leader | null> {
    return leaderOf(await this.#tenure.inspect(this.name));
  }

  /** One term of a `lead`, from its candidacy to the end of its work. */
  async #serve<V>(
    work: LeaderWork<V>,
    asked: AcquireOptions,
    stepDownMs: number,
  ): Promise<Served<V>> {
    const { timers } = this.#tenure.runtime;
    const from = this.#now();
    let term: Term | undefined;
    let served: Served<V>;
    let outlast!: (error: StepDownTimeoutError) => void;
    const overdue = new Promise<never>((_, reject) => (outlast = reject));
    const holding = this.#tenure.hold(this.name, asked, async (lease) => {
      let cancel = (): void => undefined;
      let isWorking = true;
      term = this.#elected(lease, from, () => {
        if (!isWorking || stepDownMs === Infinity) return;
        const timer = timers.after(stepDownMs, () => outlast(this.#outlasted(term!, stepDownMs)));
        cancel = () => timer.cancel();
      });
      const mine = term;
      const { signal } = asked;
      const unlisten = whenAborted(signal, () => mine.revoke("aborted", signal!.reason));
      // Revoked before it began: there is nothing to stop.
      const outcome = mine.revokedBecause === undefined ? await settled(work, mine) : undefined;
      isWorking = false;
      cancel();
      unlisten();
      const because = mine.revokedBecause;
      if (because === undefined || because === "aborted" || because === "closed") served = outcome;
      else if (outcome?.status === "rejected") this.#tellFailed(mine, outcome.reason);
      if (because === undefined) mine.over();
    });
    try {
      await Promise.race([holding, overdue]);
    } catch (error) {
      // Lost while the work ran: that ends the term, and not the candidacies.
      if (term === undefined || !(error instanceof LeaseLostError)) throw error;
    }
    return served;
  }

  #elected(lease: Lease, from: Moment, revoked: () => void): Term {
    const { runtime, manifest, closing } = this.#tenure;
    return new Term(lease, {
      events: runtime.events,
      backend: manifest.backend,
      closing,
      waitedMs: elapsedMs(from, this.#now()),
      onRevoked: () => {
        this.#leaveTheFront();
        revoked();
      },
    });
  }

  #leaveTheFront(): void {
    if (this.#tenure.manifest.fair) return;
    const { random } = this.#tenure.runtime;
    const forMs = LONGEST_PAUSE_MS * (1.1 + random.uniform() / 2);
    this.#rest = { from: this.#now(), forMs };
  }

  /** Lets the other candidates try first, for as long as the rest lasts and `mostMs` allow. */
  async #toTheBack(mostMs: number, signal: AbortSignal | undefined): Promise<void> {
    if (this.#rest === undefined) return;
    const leftMs = this.#rest.forMs - elapsedMs(this.#rest.from, this.#now());
    if (Math.min(leftMs, mostMs) > 0) await this.#sleep(Math.min(leftMs, mostMs), signal);
  }

  /** @throws the reason of `signal` once it aborts. Ends at once when the tenure is closed. */
  async #sleep(delayMs: number, signal: AbortSignal | undefined): Promise<void> {
    const { runtime, closing } = this.#tenure;
    const patience = new Patience(runtime, Infinity, signal, 0);
    const unlisten = whenAborted(closing, () => patience.end("closed"));
    try {
      await patience.sleep(delayMs);
    } catch (error) {
      if (!(error instanceof PatienceOver)) throw error;
      signal?.throwIfAborted();
    } finally {
      unlisten();
      patience.dispose();
    }
  }

  #asked(signal: AbortSignal | undefined, info: AcquireOptions["holderInfo"]): AcquireOptions {
    const asked = signal === undefined ? {} : { signal };
    return { ...this.#terms.lease, ...asked, ...(info === undefined ? {} : { holderInfo: info }) };
  }

  #now(): Moment {
    return now(this.#tenure.runtime.clock);
  }

  #outlasted({ term, signal }: Term, stepDownMs: number): StepDownTimeoutError {
    const text =
      `the work of term ${term} of ${JSON.stringify(this.name)} has not stopped within ` +
      `${stepDownMs} ms after the term was revoked; it may be running still`;
    const { backend } = this.#tenure.manifest;
    return new StepDownTimeoutError(text, { term, lock: this.name, backend, cause: signal.reason });
  }

  #tellFailed({ term, signal }: Term, error: unknown): void {
    if (error === signal.reason) return;
    const { runtime, manifest } = this.#tenure;
    const why = error instanceof Error ? error.message : String(error);
    const message = `the work of term ${term} failed after the term was revoked: ${why}`;
    const about = { name: this.name, backend: manifest.backend };
    runtime.events.publish({ type: "warning", ...about, message });
  }
}

async function settled<V>(work: LeaderWork<V>, term: Term): Promise<PromiseSettledResult<V>> {
  const [outcome] = await Promise.allSettled([(async () => work(term))()]);
  return outcome;
}
