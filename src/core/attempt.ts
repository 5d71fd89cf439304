/** One try at the store for one name, with its deadline, its session and its clean-up. */
import type { AcquireRequest, Backend, Grant, Held } from "./backend.js";
import { isNoAnswer } from "./call.js";
import type { Calls } from "./call.js";
import type { Cleanup } from "./cleanup.js";
import { now } from "./deadline.js";
import type { Moment } from "./deadline.js";
import { OutcomeUnknownError, UnavailableError } from "./errors.js";
import { HeldLease } from "./lease.js";
import type { Keeper } from "./lease.js";
import type { LeaseTerms } from "./options.js";
import type { Runtime } from "./runtime.js";
import type { Session, SessionPool } from "./sessions.js";
import type { FencingToken } from "./token.js";

/** Past holders that are remembered. */
const MOST_PAST = 1_000;

/** What a contender asks for, as the core carries it through its tries. */
export interface Contender {
  readonly name: string;
  /**
   * The same for all tries, so that a lost reply never makes it lose to itself; new once it was
   * handed to the clean-up, which must not release what a later try is granted.
   */
  holder: string;
  readonly terms: LeaseTerms;
  /** Whether a try was left without an answer: something of it may stand in the store. */
  unsure: boolean;
}

/** What the store answered. */
export type Answer<T extends FencingToken | undefined> =
  { readonly lease: HeldLease<T> } | { readonly held: Held };

/** Tries for leases, and turns offers into leases. */
export class Attempts<T extends FencingToken | undefined> {
  readonly #backend: Backend<T>;
  readonly #runtime: Runtime;
  readonly #sessions: SessionPool<T> | undefined;
  readonly #cleanup: Cleanup<T>;
  readonly #keeper: Keeper<T>;
  readonly #calls: Calls;
  /** Holders that have no lease under a session any more, or never had, the longest ago first. */
  readonly #past = new Set<string>();

  constructor(
    backend: Backend<T>,
    runtime: Runtime,
    sessions: SessionPool<T> | undefined,
    cleanup: Cleanup<T>,
    keeper: Keeper<T>,
    calls: Calls,
  ) {
    this.#backend = backend;
    this.#runtime = runtime;
    this.#sessions = sessions;
    this.#cleanup = cleanup;
    this.#keeper = keeper;
    this.#calls = calls;
  }

  /** A session to try under, on a store that has them. To be given back with {@link leave}. */
  async join(terms: LeaseTerms): Promise<Session | undefined> {
    return this.#sessions?.join(terms.ttlMs);
  }

  /**
   * Gives a session back that carries no lease of this contender. One that cannot be closed ends by
   * its TTL: that is no reason to lose an answer.
   */
  async leave(session: Session | undefined): Promise<void> {
    if (session !== undefined) await this.#sessions!.leave(session).catch(() => undefined);
  }

  /** The request of a contender as the backend wants it. */
  request({ name, holder, terms }: Contender, session: Session | undefined): AcquireRequest {
    const request = { name, holder, ttlMs: terms.ttlMs, holderInfo: terms.holderInfo };
    return session === undefined ? request : { ...request, session: session.id };
  }

  /**
   * One try.
   *
   * @throws UnavailableError when it certainly failed, or the grant came after its own deadline
   *   and was given back. OutcomeUnknownError when it may have been granted: the contender is
   *   `unsure` then; try again with it, or {@link giveUp}.
   */
  async once(contender: Contender, takeOver?: string): Promise<Answer<T>> {
    const { ttlMs } = contender.terms;
    // Nothing is awaited that need not be: each turn of the queue of promises costs its time.
    const session =
      this.#sessions === undefined
        ? undefined
        : (this.#sessions.joinNow(ttlMs) ?? (await this.#sessions.join(ttlMs)));
    const sentAt = session?.aliveAt ?? now(this.#runtime.clock);
    let lease: HeldLease<T> | undefined;
    try {
      const request = this.request(contender, session);
      const answer = await this.#calls.run("acquire", contender.name, (call) =>
        this.#backend.acquire(takeOver === undefined ? request : { ...request, takeOver }, call),
      );
      if ("held" in answer) {
        this.#takeBack(contender, answer.held);
        return answer;
      }
      lease = this.#lease(answer.grant, contender, sentAt);
      return { lease };
    } catch (error) {
      if (mayHaveHappened(error)) contender.unsure = true;
      if (session !== undefined) session.doubted = true;
      throw error;
    } finally {
      // The lease itself leaves the session when it ends.
      if (lease === undefined) await this.leave(session);
    }
  }

  /** The lease behind an offer: one renewal confirms it. `gone` when the offer no longer stands. */
  async confirm(
    grant: Grant<T>,
    contender: Contender,
    session: Session | undefined,
  ): Promise<{ readonly lease: HeldLease<T> } | "gone"> {
    const sentAt = session?.aliveAt ?? now(this.#runtime.clock);
    const answers = await this.#calls.run("renew", contender.name, (call) =>
      this.#backend.renew([grant], call),
    );
    const answer = answers[0];
    if (answer === "renewed") return { lease: this.#lease(grant, contender, sentAt) };
    if (typeof answer === "object") return "gone";
    const about = { lock: contender.name, backend: this.#backend.manifest.backend };
    const text = `the offer of ${JSON.stringify(contender.name)} was not confirmed`;
    throw answer === "unavailable"
      ? new UnavailableError(text, about)
      : new OutcomeUnknownError(text, about);
  }

  /**
   * Lets the clean-up see to it that nothing of this contender stays in the store; the contender
   * goes on under a new holder id. Where that cannot be made certain within a TTL, the session that
   * carries the rest takes nothing new and closes with its last lease.
   */
  giveUp(contender: Contender): void {
    const { name, holder, terms } = contender;
    this.#renamed(contender);
    const session = this.#sessions?.current(terms.ttlMs);
    const ended = (certain: boolean): void => {
      if (session !== undefined) this.#remember(holder);
      // One that cannot be closed ends by its TTL.
      if (!certain && session !== undefined) this.#sessions!.retire(session).catch(() => undefined);
    };
    this.#cleanup.take({ name, holder, ttlMs: terms.ttlMs, ended });
  }

  /** A new holder id for what the contender does next; the store answered for the old one. */
  renew(contender: Contender): void {
    if (this.#sessions !== undefined) this.#remember(contender.holder);
    this.#renamed(contender);
  }

  /** The contender ends without a lease. */
  abandon(contender: Contender): void {
    if (contender.unsure) this.giveUp(contender);
    else if (this.#sessions !== undefined) this.#remember(contender.holder);
  }

  /** What came of a try after its contender had given up. */
  late(contender: Contender, outcome: PromiseSettledResult<Answer<T>>): void {
    if (outcome.status === "rejected") {
      if (mayHaveHappened(outcome.reason)) this.giveUp(contender);
    } else if ("lease" in outcome.value) {
      // The contender may have another id by now.
      this.giveUp({ ...contender, holder: outcome.value.lease.holder });
      void this.leave(this.#sessionOf(outcome.value.lease));
    }
  }

  #renamed(contender: Contender): void {
    contender.holder = this.#runtime.random.id();
    contender.unsure = false;
  }

  /** A lease was given back for certain. */
  givenBack({ holder, grant: { session } }: HeldLease<T>): void {
    if (session !== undefined) this.#remember(holder);
  }

  #remember(holder: string): void {
    this.#past.add(holder);
    if (this.#past.size > MOST_PAST) this.#past.delete(this.#past.values().next().value!);
  }

  /**
   * What blocks this contender may be an old request of this process: (1) a lease is given back, an
   * attempt given up, and the store says that it holds nothing, or it was refused; (2) its acquire,
   * or a copy of it, arrives and is granted; (3) nobody knows of it, and the session that carries
   * it is kept alive by others. The record names its holder.
   */
  #takeBack({ name, terms }: Contender, { holder }: Held): void {
    if (holder === undefined || !this.#past.delete(holder)) return;
    this.#cleanup.take({ name, holder, ttlMs: terms.ttlMs, ended: () => this.#remember(holder) });
  }

  /** The end of a lease for the session that carried it. */
  async leaveOf(lease: HeldLease<T>): Promise<void> {
    const session = this.#sessionOf(lease);
    if (session !== undefined) await this.#sessions!.leave(session);
  }

  #sessionOf({ grant: { session } }: HeldLease<T>): Session | undefined {
    return session === undefined ? undefined : this.#sessions?.find(session);
  }

  /** Asks again about what earlier attempts on this name may have left. */
  settle(name: string): Promise<void> {
    return this.#cleanup.settle(name);
  }

  #lease(grant: Grant<T>, contender: Contender, sentAt: Moment): HeldLease<T> {
    const lease = new HeldLease(grant, contender.terms, sentAt, this.#keeper);
    if (lease.leftMs(now(this.#runtime.clock)) > contender.terms.graceMs) return lease;
    this.giveUp(contender);
    throw new UnavailableError(
      `the grant of ${JSON.stringify(contender.name)} came too late to be used: ` +
        `its ${grant.ttlMs} ms were over, or nearly, when it arrived`,
      { lock: contender.name, backend: this.#backend.manifest.backend },
    );
  }
}

/** Whether an error of a try leaves open that something was granted. */
export function mayHaveHappened(error: unknown): boolean {
  return isNoAnswer(error) ? error instanceof OutcomeUnknownError : true;
}
