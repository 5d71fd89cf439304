/**
 * The keeper of all leases of a process: one timer, and requests that do not grow with the number
 * of leases.
 *
 * Each lease stands on an agenda under the moment at which something has to happen to it: a
 * renewal, the end of its grace, its deadline. When the timer fires, everything due is handled, and
 * renewals that would fall due soon go along in the same request.
 *
 * A request that is not answered is not repeated at once and does not end the lease: a further one
 * follows after a sixth of the TTL, at most three are under way, and an answer that comes late
 * still counts, from the moment **its** request was sent.
 */
import { Agenda } from "./agenda.js";
import type { Answer, Backend, Call, Grant, Renewed } from "./backend.js";
import { isNoAnswer } from "./call.js";
import type { Calls } from "./call.js";
import type { Timer } from "./clock.js";
import { elapsedMs, now, suspendedMs, wallAheadMs } from "./deadline.js";
import type { Moment } from "./deadline.js";
import { OutcomeUnknownError, UnavailableError } from "./errors.js";
import type { HeldLease } from "./lease.js";
import { Members } from "./members.js";
import type { Runtime } from "./runtime.js";
import type { SessionPool } from "./sessions.js";
import type { FencingToken } from "./token.js";

/**
 * While leases are held the keeper wakes after a tenth of the time to its next appointment, within
 * these bounds, milliseconds: what tells it that the machine was suspended meanwhile.
 */
const SHORTEST_WATCH_MS = 1_000;
const LONGEST_WATCH_MS = 60_000;
/** Difference of clocks between two looks that means that the machine stood still, milliseconds. */
const STOOD_STILL_MS = 50;
const MOST_UNANSWERED = 3;
/** Renewals that one turn of the event loop sends: with more it would be blocked for too long. */
const MOST_AT_ONCE = 1_000;
const SHORTEST_RETRY_MS = 20;

/** What the keeper tells of each renewal. */
export interface RenewalNotes<T extends FencingToken | undefined> {
  renewed(lease: HeldLease<T>, roundTripMs: number): void;
  late(lease: HeldLease<T>, latenessMs: number, suspendMs: number): void;
  failed(lease: HeldLease<T>, why: "unavailable" | "unknown", error: unknown): void;
  unrenewed(lease: HeldLease<T>, sinceMs: number): void;
}

/** Renews leases and ends them in time. */
export class Renewals<T extends FencingToken | undefined> {
  readonly #backend: Backend<T>;
  readonly #runtime: Runtime;
  readonly #sessions: SessionPool<T> | undefined;
  readonly #notes: RenewalNotes<T>;
  readonly #calls: Calls;
  readonly #agenda = new Agenda<HeldLease<T>>();
  readonly #leases = new Members<HeldLease<T>>();
  #timer: Timer | undefined;
  #timerAtMs = Infinity;
  #arming: Timer | undefined;
  #lookedAt: Moment;
  #measuring = false;
  /**
   * Lets the processes of a store drift apart. One for all leases until the next request: what was
   * acquired or renewed together falls due together, and a store that keeps its records in order
   * finds them on the same few pages, which halves the time of a large renewal on SQLite.
   */
  #jitter: number;

  constructor(
    backend: Backend<T>,
    runtime: Runtime,
    sessions: SessionPool<T> | undefined,
    notes: RenewalNotes<T>,
    calls: Calls,
  ) {
    this.#backend = backend;
    this.#runtime = runtime;
    this.#sessions = sessions;
    this.#notes = notes;
    this.#calls = calls;
    this.#lookedAt = now(runtime.clock);
    this.#jitter = this.#drawJitter();
  }

  /** Leases that are neither lost nor released. */
  get leases(): Members<HeldLease<T>> {
    return this.#leases;
  }

  keep(lease: HeldLease<T>): void {
    if (this.#leases.size === 0) this.#lookedAt = lease.base;
    this.#leases.add(lease);
    lease.renewAtMs = lease.terms.renew ? renewalMs(lease, this.#jitter) : Infinity;
    this.#enter(lease);
  }

  drop(lease: HeldLease<T>): void {
    this.#agenda.delete(lease);
    if (!this.#leases.delete(lease) || this.#leases.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#timerAtMs = Infinity;
    if (this.#measuring) this.#runtime.pauses.stop();
    this.#measuring = false;
  }

  /** Renews as soon as the event loop comes round. */
  hurry(lease: HeldLease<T>): void {
    if (!lease.terms.renew || !this.#leases.has(lease)) return;
    lease.renewAtMs = this.#runtime.clock.monotonicMs();
    this.#enter(lease);
  }

  /** Renews now, for a caller that waits for the outcome. */
  async renew(lease: HeldLease<T>): Promise<Renewed> {
    const answers: { readonly outcome: Renewed; readonly failure: unknown }[] = [];
    await this.#send([lease], (_, outcome, failure) => answers.push({ outcome, failure }));
    const { outcome, failure } = answers[0]!;
    if (failure !== undefined && isNoAnswer(failure)) throw failure;
    const about = { lock: lease.name, backend: this.#backend.manifest.backend, cause: failure };
    const text = `the renewal of ${JSON.stringify(lease.name)}`;
    if (outcome === "unavailable") throw new UnavailableError(`${text} was not possible`, about);
    if (outcome === "unknown") throw new OutcomeUnknownError(`${text} may have happened`, about);
    return outcome;
  }

  #enter(lease: HeldLease<T>): void {
    if (!lease.isOpen) return;
    this.#agenda.set(lease, lease.nextLookMs());
    this.#armSoon();
  }

  /** Once per turn of the event loop: a lease that is gone by then has cost no timer. */
  #armSoon(): void {
    this.#arming ??= this.#runtime.timers.soon(() => {
      this.#arming = undefined;
      this.#arm();
    });
  }

  #arm(): void {
    const first = this.#agenda.first();
    if (first === undefined) return;
    const nowMs = this.#runtime.clock.monotonicMs();
    const tenthMs = (first.dueMs - nowMs) / 10;
    const watchMs = Math.max(SHORTEST_WATCH_MS, Math.min(LONGEST_WATCH_MS, tenthMs));
    const atMs = Math.min(first.dueMs, nowMs + watchMs);
    if (this.#timer !== undefined && this.#timerAtMs <= atMs) return;
    this.#timer?.cancel();
    this.#timerAtMs = atMs;
    this.#timer = this.#runtime.timers.after(Math.max(0, atMs - nowMs), () => this.#tick());
  }

  #tick(): void {
    this.#timer = undefined;
    this.#timerAtMs = Infinity;
    if (!this.#measuring) {
      this.#measuring = true;
      this.#runtime.pauses.start();
    }
    const at = now(this.#runtime.clock);
    this.#watch(at);
    const due = this.#takeDue(at);
    if (due.length > 0) void this.#sendAll(due, at);
    this.#arm();
  }

  /** After a machine stood still every lease is looked at: timers know nothing of it. */
  #watch(at: Moment): void {
    const stood = suspendedMs(this.#lookedAt, at);
    const ahead = wallAheadMs(this.#lookedAt, at);
    this.#lookedAt = at;
    if (stood < STOOD_STILL_MS && ahead < STOOD_STILL_MS) return;
    for (const lease of this.#leases) lease.look(at);
  }

  #takeDue(at: Moment): HeldLease<T>[] {
    const due: HeldLease<T>[] = [];
    const again: HeldLease<T>[] = [];
    for (let lease = this.#agenda.first(); lease !== undefined; lease = this.#agenda.first()) {
      // Renewals due soon join a request that goes out anyway, so that leases gather in few.
      const soonMs = due.length > 0 ? lease.terms.renewEveryMs / 4 : 0;
      if (lease.dueMs > at.monotonicMs + soonMs || due.length === MOST_AT_ONCE) break;
      this.#agenda.delete(lease);
      if (lease.dueMs <= at.monotonicMs) this.#lookAt(lease, at);
      if (!lease.isOpen) continue;
      if (!lease.isEnding && lease.renewAtMs <= at.monotonicMs + soonMs) due.push(lease);
      else again.push(lease);
    }
    for (const lease of again) this.#agenda.set(lease, lease.nextLookMs());
    return due;
  }

  #lookAt(lease: HeldLease<T>, at: Moment): void {
    lease.look(at);
    if (lease.isOpen && !lease.toldUnrenewed && lease.halfMs() <= at.monotonicMs) {
      lease.toldUnrenewed = true;
      this.#notes.unrenewed(lease, elapsedMs(lease.base, at));
    }
  }

  async #sendAll(due: readonly HeldLease<T>[], at: Moment): Promise<void> {
    const ready: HeldLease<T>[] = [];
    for (const lease of due) {
      const lateMs = at.monotonicMs - lease.renewAtMs;
      if (lateMs >= 0) this.#notes.late(lease, lateMs, suspendedMs(lease.base, at));
      lease.renewAtMs = at.monotonicMs + retryMs(lease);
      if (lease.unanswered > 0) this.#fail(lease, "unknown", undefined);
      if (lease.unanswered < MOST_UNANSWERED && lease.isOpen) ready.push(lease);
      this.#enter(lease);
    }
    const size = this.#backend.manifest.renewBatch;
    for (const group of this.#bySession(ready)) {
      for (let from = 0; from < group.length; from += size) {
        // A chunk may keep a synchronous store busy: others get their turn between two.
        if (from > 0) await new Promise<void>((resolve) => this.#runtime.timers.soon(resolve));
        const open = group.slice(from, from + size).filter((lease) => lease.isOpen);
        if (open.length > 0) void this.#send(open, () => undefined);
      }
    }
  }

  #bySession(leases: readonly HeldLease<T>[]): Iterable<HeldLease<T>[]> {
    if (this.#sessions === undefined) return [[...leases]];
    const groups = new Map<string, HeldLease<T>[]>();
    for (const lease of leases) {
      const id = lease.grant.session ?? "";
      const group = groups.get(id);
      if (group === undefined) groups.set(id, [lease]);
      else group.push(lease);
    }
    return groups.values();
  }

  /** One request for leases of one session at most. Never rejects. */
  async #send(
    leases: readonly HeldLease<T>[],
    tell: (lease: HeldLease<T>, outcome: Renewed, error: unknown) => unknown,
  ): Promise<void> {
    const sentAt = now(this.#runtime.clock);
    for (const lease of leases) lease.unanswered++;
    let outcomes: readonly Renewed[] | undefined;
    let error: unknown;
    try {
      const session = await this.#keepAlive(leases[0]!);
      if (session === "gone") outcomes = leases.map(() => ({ lost: "absent" }));
      outcomes ??= await this.#request(leases, sentAt);
    } catch (caught) {
      error = caught;
    }
    const at = now(this.#runtime.clock);
    this.#jitter = this.#drawJitter();
    for (const [i, lease] of leases.entries()) {
      lease.unanswered--;
      const outcome =
        outcomes?.[i] ?? (error instanceof UnavailableError ? "unavailable" : "unknown");
      this.#apply(lease, outcome, sentAt, at, error);
      tell(lease, outcome, error);
    }
  }

  /** Keeps the lease's session alive, where it has one; `gone` when that has ended. */
  async #keepAlive(lease: HeldLease<T>): Promise<"alive" | "gone"> {
    if (this.#sessions === undefined || lease.grant.session === undefined) return "alive";
    const session = this.#sessions.find(lease.grant.session);
    if (session === undefined || (await this.#sessions.keepAlive(session)) === "gone") {
      for (const other of this.#leases) {
        if (other.grant.session === lease.grant.session) {
          other.lose("session", "was lost with its session");
        }
      }
      return "gone";
    }
    return "alive";
  }

  #request(leases: readonly HeldLease<T>[], sentAt: Moment): Answer<readonly Renewed[]> {
    const grants: readonly Grant<T>[] = leases.map((lease) => lease.grant);
    const left = Math.min(...leases.map((lease) => lease.leftMs(sentAt)));
    const timeoutMs = Math.max(SHORTEST_RETRY_MS, Math.min(this.#calls.timeoutMs, left));
    const ask = (call: Call): Answer<readonly Renewed[]> => this.#backend.renew(grants, call);
    return this.#calls.run("renew", leases[0]!.name, ask, timeoutMs);
  }

  #apply(lease: HeldLease<T>, outcome: Renewed, sentAt: Moment, at: Moment, error: unknown): void {
    if (outcome === "renewed") {
      lease.renewed(sentAt);
      lease.look(at);
      if (!lease.isOpen || lease.isEnding) return;
      if (lease.terms.renew) lease.renewAtMs = renewalMs(lease, this.#jitter);
      this.#notes.renewed(lease, elapsedMs(sentAt, at));
    } else if (typeof outcome === "object") {
      const by = outcome.lost === "absent" ? undefined : outcome.lost;
      if (by === undefined) lease.lose("absent", "is gone from the store");
      else lease.lose("taken", `is held by ${by.holder ?? "another holder"} now`, by);
      return;
    } else {
      this.#fail(lease, outcome, error);
      lease.look(at);
    }
    this.#enter(lease);
  }

  #fail(lease: HeldLease<T>, why: "unavailable" | "unknown", error: unknown): void {
    if (!lease.isOpen) return;
    if (lease.failures++ === 0) this.#notes.failed(lease, why, error);
    if (lease.terms.renew) {
      const nowMs = this.#runtime.clock.monotonicMs();
      const againMs = nowMs + retryMs(lease) * (0.75 + this.#runtime.random.uniform() / 4);
      // The next one has its time from the sending of the last: a time-out does not put it off.
      lease.renewAtMs = Math.min(lease.renewAtMs, againMs);
    }
  }

  #drawJitter(): number {
    return 0.9 + this.#runtime.random.uniform() / 10;
  }
}

function renewalMs(lease: HeldLease<FencingToken | undefined>, jitter: number): number {
  return lease.base.monotonicMs + lease.terms.renewEveryMs * jitter;
}

function retryMs(lease: { readonly ttlMs: number }): number {
  return Math.max(SHORTEST_RETRY_MS, lease.ttlMs / 6);
}
