/**
 * Waiting in the store's own queue: every waiter has its place, and the store offers the lease to
 * the first that lives.
 *
 * An offer is not a lease. The waiter confirms it with one renewal, and its deadline counts from
 * the sending of that renewal. Waiters say together, now and then, that they live; the answer
 * repeats an offer whose notice was lost, and tells who has to queue anew.
 */
import { mayHaveHappened } from "./attempt.js";
import type { Attempts, Contender } from "./attempt.js";
import type { AcquireRequest, Backend, Grant, Held, QueueWaiting, Ticket } from "./backend.js";
import type { Calls } from "./call.js";
import type { Timer } from "./clock.js";
import { elapsedMs, now } from "./deadline.js";
import type { HeldLease } from "./lease.js";
import { PatienceOver } from "./patience.js";
import type { Patience } from "./patience.js";
import type { Runtime } from "./runtime.js";
import type { Session, SessionPool } from "./sessions.js";
import type { FencingToken } from "./token.js";
import { Pause } from "./waiting.js";

/** Told to tickets whose turn is no longer awaited; made once, since a stack trace is dear. */
const TURN_OVER = new PatienceOver("aborted");

type Turn<T extends FencingToken | undefined> = Grant<T> | "gone";

interface Place<T extends FencingToken | undefined> {
  readonly ticket: Ticket<T>;
  readonly session: Session | undefined;
  readonly tell: (turn: Turn<T>) => void;
  readonly fail: (error: unknown) => void;
  readonly patience: Patience;
}

/** Waits on queue backends. */
export class Queueing<T extends FencingToken | undefined> {
  readonly #backend: Backend<T>;
  readonly #queue: QueueWaiting<T>;
  readonly #runtime: Runtime;
  readonly #attempts: Attempts<T>;
  readonly #sessions: SessionPool<T> | undefined;
  readonly #calls: Calls;
  readonly #places = new Set<Place<T>>();
  readonly #leaving = new Set<Promise<void>>();
  #timer: Timer | undefined;

  constructor(
    backend: Backend<T>,
    queue: QueueWaiting<T>,
    runtime: Runtime,
    attempts: Attempts<T>,
    sessions: SessionPool<T> | undefined,
    calls: Calls,
  ) {
    this.#backend = backend;
    this.#queue = queue;
    this.#runtime = runtime;
    this.#attempts = attempts;
    this.#sessions = sessions;
    this.#calls = calls;
  }

  /**
   * Waits for a lease: one try, then a place in the queue, a new one each time the store no longer
   * knows the old one.
   *
   * @throws PatienceOver, or what the store threw.
   */
  async wait(
    contender: Contender,
    patience: Patience,
    seen: (held: Held) => void,
  ): Promise<HeldLease<T>> {
    const pause = new Pause(this.#runtime);
    for (;;) {
      try {
        const trying = this.#attempts.once(contender);
        const answer = await patience.race(trying, (late) => this.#attempts.late(contender, late));
        patience.answered();
        if ("lease" in answer) return answer.lease;
        seen(answer.held);
        const lease = await this.#inQueue(contender, patience);
        if (lease !== "gone") return lease;
        this.#attempts.renew(contender);
      } catch (error) {
        patience.tolerate(error);
        await patience.sleep(pause.nextMs());
      }
    }
  }

  /** Waits until everybody who gave up has left the queue. */
  async settled(): Promise<void> {
    await Promise.all(this.#leaving);
  }

  async #inQueue(contender: Contender, patience: Patience): Promise<HeldLease<T> | "gone"> {
    const session = await this.#attempts.join(contender.terms);
    let lease: HeldLease<T> | "gone" = "gone";
    try {
      const request = this.#attempts.request(contender, session);
      const ticket = await this.#enqueue(request, contender, patience);
      let isOffered = false;
      try {
        const grant = await this.#turn(ticket, session, patience);
        if (grant === "gone") return lease;
        isOffered = true;
        lease = await this.#confirm(grant, contender, session, patience);
        return lease;
      } catch (error) {
        // Whoever ends its wait without a lease leaves the queue, or the offer, to the next.
        this.#leave(ticket, contender, isOffered);
        throw error;
      }
    } catch (error) {
      // As after any attempt that failed: the session may have ended unseen.
      if (session !== undefined) session.doubted = true;
      throw error;
    } finally {
      if (lease === "gone") await this.#attempts.leave(session);
    }
  }

  async #enqueue(
    request: AcquireRequest,
    contender: Contender,
    patience: Patience,
  ): Promise<Ticket<T>> {
    try {
      const enqueueing = this.#calls.run("enqueue", contender.name, (call) =>
        this.#queue.enqueue(request, call),
      );
      return await patience.race(enqueueing, (late) => {
        if (late.status === "fulfilled") this.#leave(late.value, contender, false);
        else this.#attempts.giveUp(contender);
      });
    } catch (error) {
      if (!(error instanceof PatienceOver) && mayHaveHappened(error)) contender.unsure = true;
      throw error;
    }
  }

  async #turn(
    ticket: Ticket<T>,
    session: Session | undefined,
    patience: Patience,
  ): Promise<Turn<T>> {
    const stop = new AbortController();
    let place: Place<T> | undefined;
    let isHere = false;
    const told = new Promise<Turn<T>>((tell, fail) => {
      place = { ticket, session, tell, fail, patience };
      ticket.turn(stop.signal).then((turn) => {
        isHere = true;
        tell(turn);
      }, fail);
    });
    this.#places.add(place!);
    this.#arm();
    try {
      return await patience.race(told);
    } finally {
      this.#places.delete(place!);
      // A turn that is here listens no more, and telling a signal is dear.
      if (!isHere) stop.abort(TURN_OVER);
      if (this.#places.size === 0) this.#disarm();
    }
  }

  /** Renews until the store has said whether the offer stands, for one TTL at most. */
  async #confirm(
    grant: Grant<T>,
    contender: Contender,
    session: Session | undefined,
    patience: Patience,
  ): Promise<HeldLease<T> | "gone"> {
    const pause = new Pause(this.#runtime);
    const since = now(this.#runtime.clock);
    for (;;) {
      try {
        const confirming = this.#attempts.confirm(grant, contender, session);
        const answer = await patience.race(confirming);
        return answer === "gone" ? "gone" : answer.lease;
      } catch (error) {
        // Given up since it came too late: confirmed once more, it would be released all the same.
        if (error instanceof PatienceOver || contender.holder !== grant.holder) throw error;
        if (elapsedMs(since, now(this.#runtime.clock)) > grant.ttlMs) throw error;
        patience.tolerate(error);
        await patience.sleep(pause.nextMs());
      }
    }
  }

  /** Leaving gives up an offer, not a lease: a confirmation may have made the one the other. */
  #leave(ticket: Ticket<T>, contender: Contender, mayBeConfirmed: boolean): void {
    const left = { ...contender };
    this.#attempts.renew(contender);
    const leave = async (): Promise<void> =>
      this.#calls.run("leave", left.name, (call) => ticket.leave(call));
    const leaving = leave()
      .then(() => {
        if (mayBeConfirmed) this.#attempts.giveUp(left);
      })
      .catch(() => this.#attempts.giveUp(left))
      .finally(() => this.#leaving.delete(leaving));
    this.#leaving.add(leaving);
  }

  #arm(): void {
    if (this.#timer !== undefined) return;
    const thirds = [...this.#places].map(({ session }) => (session?.ttlMs ?? Infinity) / 3);
    const everyMs = Math.min(this.#queue.touchEveryMs, ...thirds.slice(0, 1));
    this.#timer = this.#runtime.timers.after(everyMs, () => void this.#touch());
  }

  #disarm(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  async #touch(): Promise<void> {
    const places = [...this.#places];
    const size = this.#backend.manifest.renewBatch;
    for (let from = 0; from < places.length; from += size) {
      await this.#touchSome(places.slice(from, from + size));
    }
    this.#timer = undefined;
    if (this.#places.size > 0) this.#arm();
  }

  async #touchSome(places: readonly Place<T>[]): Promise<void> {
    try {
      const living = await this.#withLiveSession(places);
      const tickets = living.map(({ ticket }) => ticket);
      const answers = await this.#calls.run("touch", places[0]!.ticket.name, (call) =>
        this.#queue.touch(tickets, call),
      );
      for (const [i, place] of living.entries()) {
        place.patience.answered();
        const answer = answers[i] ?? "waiting";
        if (answer !== "waiting") place.tell(answer);
      }
    } catch (error) {
      for (const { patience, fail } of places) {
        try {
          patience.tolerate(error);
        } catch {
          fail(error);
        }
      }
    }
  }

  /** Keeps the sessions of waiters alive; a waiter whose session ended has lost its place. */
  async #withLiveSession(places: readonly Place<T>[]): Promise<readonly Place<T>[]> {
    if (this.#sessions === undefined) return places;
    for (const session of new Set(places.map((place) => place.session))) {
      if (session !== undefined && !session.gone) await this.#sessions.keepAlive(session);
    }
    return places.filter(({ session, tell }) => {
      if (session?.gone === true) tell("gone");
      return session?.gone !== true;
    });
  }
}
