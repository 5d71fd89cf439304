/**
 * Sessions of a store, one per distinct TTL of a process, shared by its leases.
 *
 * A session store ends every record of a session at once, TTL after the last keepalive it took. So
 * the deadline of a lease counts from the **sending of the last answered keepalive**, not from the
 * moment its record was written: a record written late in the life of a session dies with it.
 */
import type { Backend } from "./backend.js";
import type { Calls } from "./call.js";
import type { Runtime } from "./runtime.js";
import { elapsedMs, now } from "./deadline.js";
import type { Moment } from "./deadline.js";
import { OutcomeUnknownError, UnavailableError } from "./errors.js";
import type { FencingToken } from "./token.js";

/** One session of the store. */
export interface Session {
  readonly id: string;
  /** As the store granted it, milliseconds. */
  readonly ttlMs: number;
  /** As it was asked for, milliseconds. */
  readonly askedMs: number;
  /** Sending of the last answered keepalive, or of the opening. */
  aliveAt: Moment;
  /** Leases and attempts that rest on it. */
  users: number;
  /** An attempt under it failed: it may have ended unseen, so it is asked for before the next. */
  doubted: boolean;
  /** Not used for new attempts: it ended, or an attempt under it has an unknown outcome. */
  retired: boolean;
  gone: boolean;
}

/** The sessions that a process keeps. Present only on a backend with sessions. */
export class SessionPool<T extends FencingToken | undefined> {
  readonly #backend: Backend<T>;
  readonly #runtime: Runtime;
  readonly #calls: Calls;
  readonly #byTtl = new Map<number, Session>();
  readonly #opening = new Map<number, Promise<Session>>();
  readonly #byId = new Map<string, Session>();

  constructor(backend: Backend<T>, runtime: Runtime, calls: Calls) {
    this.#backend = backend;
    this.#runtime = runtime;
    this.#calls = calls;
  }

  /**
   * A session for leases of this TTL that was alive a third of its TTL ago or later. The caller
   * gives it back with `leave`.
   *
   * @throws UnavailableError also where the store's answer is lost: a session that may be there
   *   carries nothing, and ends by itself, so that no lease was asked for.
   */
  async join(ttlMs: number): Promise<Session> {
    try {
      return this.joinNow(ttlMs) ?? (await this.#joinLater(ttlMs));
    } catch (error) {
      if (!(error instanceof OutcomeUnknownError)) throw error;
      const { message, backend } = error;
      const about = { cause: error, ...(backend === undefined ? {} : { backend }) };
      throw new UnavailableError(`no lease was asked for: ${message}`, about);
    }
  }

  async #joinLater(ttlMs: number): Promise<Session> {
    const known = this.#byTtl.get(ttlMs);
    if (known !== undefined && (await this.#isAlive(known))) {
      known.users++;
      return known;
    }
    let opening = this.#opening.get(ttlMs);
    if (opening === undefined) {
      opening = this.#open(ttlMs).finally(() => this.#opening.delete(ttlMs));
      this.#opening.set(ttlMs, opening);
    }
    const session = await opening;
    session.users++;
    return session;
  }

  /** As {@link join}, where the store need not be asked; undefined where it has to be. */
  joinNow(ttlMs: number): Session | undefined {
    const known = this.#byTtl.get(ttlMs);
    if (known === undefined || !this.#isFresh(known)) return undefined;
    known.users++;
    return known;
  }

  find(id: string): Session | undefined {
    return this.#byId.get(id);
  }

  /** The session that attempts with this TTL use now. */
  current(ttlMs: number): Session | undefined {
    return this.#byTtl.get(ttlMs);
  }

  /** Asks the store whether the session lives, and prolongs it. */
  async keepAlive(session: Session): Promise<"alive" | "gone"> {
    const sentAt = now(this.#runtime.clock);
    const answer = await this.#calls.run("keepAlive", undefined, (call) =>
      this.#backend.sessions!.keepAlive(session.id, call),
    );
    if (answer === "gone") this.#forget(session);
    else if (sentAt.monotonicMs > session.aliveAt.monotonicMs) session.aliveAt = sentAt;
    session.doubted = false;
    return answer;
  }

  /**
   * Keeps a session for what it carries now and takes nothing new under it: one attempt under it
   * may have left a record behind that nobody can delete for certain.
   */
  async retire(session: Session): Promise<void> {
    session.retired = true;
    if (this.#byTtl.get(session.askedMs) === session) this.#byTtl.delete(session.askedMs);
    if (session.users === 0) await this.#close(session);
  }

  /** One user less. A retired session without users is closed, which ends whatever it left. */
  async leave(session: Session): Promise<void> {
    session.users--;
    if (session.retired && session.users === 0) await this.#close(session);
  }

  /** Closes all sessions; the store ends what they carry. */
  async closeAll(): Promise<void> {
    await Promise.all([...this.#byId.values()].map((session) => this.#close(session)));
  }

  #ageMs(session: Session): number {
    return elapsedMs(session.aliveAt, now(this.#runtime.clock));
  }

  #isFresh(session: Session): boolean {
    if (session.retired || session.doubted) return false;
    return this.#ageMs(session) < session.ttlMs / 3;
  }

  async #isAlive(session: Session): Promise<boolean> {
    if (session.retired) return false;
    if (this.#ageMs(session) >= session.ttlMs) {
      this.#dismiss(session);
      return false;
    }
    return (await this.keepAlive(session)) === "alive" && !session.retired;
  }

  /**
   * Its time is over by our own account. A store that lets sessions live longer may still call it
   * alive while it is about to end it: (1) the store decides that the session is over; (2) it
   * answers our keepalive; (3) we are granted a lease under it; (4) it ends the session, lease and
   * all.
   */
  #dismiss(session: Session): void {
    session.retired = true;
    if (this.#byTtl.get(session.askedMs) === session) this.#byTtl.delete(session.askedMs);
    // Nobody renews it any more: it ends by itself.
    if (session.users === 0) this.#byId.delete(session.id);
  }

  async #open(askedMs: number): Promise<Session> {
    const sentAt = now(this.#runtime.clock);
    const { id, ttlMs } = await this.#calls.run("session open", undefined, (call) =>
      this.#backend.sessions!.open(askedMs, call),
    );
    const session: Session = {
      id,
      ttlMs,
      askedMs,
      aliveAt: sentAt,
      users: 0,
      doubted: false,
      retired: false,
      gone: false,
    };
    this.#byTtl.set(askedMs, session);
    this.#byId.set(id, session);
    return session;
  }

  #forget(session: Session): void {
    session.gone = true;
    session.retired = true;
    if (this.#byTtl.get(session.askedMs) === session) this.#byTtl.delete(session.askedMs);
    this.#byId.delete(session.id);
  }

  async #close(session: Session): Promise<void> {
    if (session.gone) return;
    this.#forget(session);
    await this.#calls.run("session close", undefined, (call) =>
      this.#backend.sessions!.close(session.id, call),
    );
  }
}
