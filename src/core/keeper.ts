/** The leases of one tenure: kept, renewed, given back, counted and told of. */
import type { Attempts } from "./attempt.js";
import type { Answer, Backend, Call, Released } from "./backend.js";
import type { Calls } from "./call.js";
import type { Cleanup } from "./cleanup.js";
import type { Clock } from "./clock.js";
import { elapsedMs, now } from "./deadline.js";
import { OutcomeUnknownError } from "./errors.js";
import type { LeaseLostError } from "./errors.js";
import type { EventSink } from "./events.js";
import type { HeldLease, Keeper } from "./lease.js";
import { Members } from "./members.js";
import { Renewals } from "./renewal.js";
import type { RenewalNotes } from "./renewal.js";
import type { Runtime } from "./runtime.js";
import type { SessionPool } from "./sessions.js";
import type { Stats } from "./stats.js";
import type { FencingToken } from "./token.js";

/** What {@link Leases} works with. */
export interface LeasesParts<T extends FencingToken | undefined> {
  readonly backend: Backend<T>;
  readonly runtime: Runtime;
  readonly calls: Calls;
  readonly stats: Stats;
  readonly sessions: SessionPool<T> | undefined;
  readonly cleanup: Cleanup<T>;
}

/** Keeps the leases of one tenure. */
export class Leases<T extends FencingToken | undefined> implements Keeper<T>, RenewalNotes<T> {
  readonly backend: string;
  readonly clock: Clock;
  /** Told when a lease of this process has ended. */
  onFreed: (name: string) => void = () => undefined;
  readonly #parts: LeasesParts<T>;
  readonly #events: EventSink;
  readonly #renewals: Renewals<T>;
  /** Ended by their holder or by their deadline, and not yet given back for certain. */
  readonly #owed = new Members<HeldLease<T>>();
  readonly #heldHere = new Map<string, number>();
  /** Handed to the clean-up, once. */
  readonly #takenBack = new WeakSet<HeldLease<T>>();
  readonly #attempts: () => Attempts<T>;

  constructor(parts: LeasesParts<T>, attempts: () => Attempts<T>) {
    this.#parts = parts;
    this.#attempts = attempts;
    this.#events = parts.runtime.events;
    this.backend = parts.backend.manifest.backend;
    this.clock = parts.runtime.clock;
    this.#renewals = new Renewals(parts.backend, parts.runtime, parts.sessions, this, parts.calls);
  }

  get storeId(): string {
    return this.#parts.backend.storeId;
  }

  /** Leases that this process believes to hold. */
  get open(): Iterable<HeldLease<T>> {
    return this.#renewals.leases;
  }

  /** Leases whose release failed. */
  get owed(): Iterable<HeldLease<T>> {
    return this.#owed;
  }

  /** Whether this process believes to hold a lease of this name. */
  isHeldHere(name: string): boolean {
    return this.#heldHere.has(name);
  }

  /** Takes a fresh lease in charge. */
  keep(lease: HeldLease<T>, waitedMs: number): void {
    const counters = this.#parts.stats.of(lease.name);
    counters.granted++;
    counters.waits.add(waitedMs);
    this.#heldHere.set(lease.name, (this.#heldHere.get(lease.name) ?? 0) + 1);
    this.#renewals.keep(lease);
    if (this.#events.wants("granted")) {
      const { storeEpoch } = lease.grant;
      const epoch = storeEpoch === undefined ? {} : { storeEpoch };
      this.#events.publish({ type: "granted", ...this.#about(lease), waitedMs, ...epoch });
    }
  }

  /** Stops keeping a lease without giving it back. */
  forget(lease: HeldLease<T>): void {
    this.#drop(lease);
    this.#owed.delete(lease);
  }

  hurry(lease: HeldLease<T>): void {
    this.#renewals.hurry(lease);
  }

  async renew(lease: HeldLease<T>): Promise<void> {
    await this.#renewals.renew(lease);
    lease.assertHeld();
  }

  async release(lease: HeldLease<T>): Promise<"released" | "not-held"> {
    const wasHeld = this.#drop(lease) || lease.wasGivenBack;
    lease.wasGivenBack = wasHeld;
    this.#owed.add(lease);
    const { name, holder, token } = lease.grant;
    const request = token === undefined ? { name, holder } : { name, holder, token };
    const ask = (call: Call): Answer<readonly Released[]> =>
      this.#parts.backend.release([request], call);
    let answer: Released;
    try {
      answer = (await this.#parts.calls.run("release", name, ask))[0] ?? "unknown";
      if (answer === "unknown") {
        const text = `the release of ${JSON.stringify(name)} may have failed`;
        throw new OutcomeUnknownError(text, { lock: name, backend: this.backend });
      }
    } catch (error) {
      this.#takeBack(lease);
      throw error;
    }
    this.#owed.delete(lease);
    this.#attempts().givenBack(lease);
    if (wasHeld) this.#told(lease, answer);
    this.onFreed(name);
    return answer;
  }

  ending(lease: HeldLease<T>): void {
    if (!this.#events.wants("ending")) return;
    const remainingMs = Math.max(0, lease.leftMs(now(this.clock)));
    this.#events.publish({ type: "ending", ...this.#about(lease), remainingMs });
  }

  doubted(lease: HeldLease<T>): void {
    if (!this.#events.wants("unknown")) return;
    this.#events.publish({ type: "unknown", ...this.#about(lease), why: "clock" });
  }

  lost(lease: HeldLease<T>, error: LeaseLostError): void {
    this.#drop(lease);
    this.#parts.stats.of(lease.name).lost++;
    if (this.#events.wants("lost")) {
      const by = error.by === undefined ? {} : { by: error.by };
      this.#events.publish({ type: "lost", ...this.#about(lease), reason: error.reason, ...by });
    }
    if (error.reason === "deadline") this.#takeBack(lease);
    // One that was held too long may have been renewed a moment ago.
    if (error.reason === "max-hold") this.#takeBack(lease, true);
    this.onFreed(lease.name);
  }

  renewed(lease: HeldLease<T>, roundTripMs: number): void {
    const counters = this.#parts.stats.known(lease.name);
    if (counters !== undefined) counters.renewed++;
    counters?.roundTrip.add(roundTripMs);
    if (!this.#events.wants("renewed")) return;
    this.#events.publish({
      type: "renewed",
      ...this.#about(lease),
      roundTripMs,
      pause: {
        latenessMs: lease.latenessMs,
        suspendMs: lease.suspendMs,
        ...this.#parts.runtime.pauses.read(),
      },
    });
  }

  late(lease: HeldLease<T>, latenessMs: number, suspendMs: number): void {
    lease.latenessMs = latenessMs;
    lease.suspendMs = suspendMs;
    const counters = this.#parts.stats.known(lease.name);
    if (counters === undefined) return;
    counters.lateness.add(latenessMs);
    counters.suspendMaxMs = Math.max(counters.suspendMaxMs, suspendMs);
  }

  failed(lease: HeldLease<T>, why: "unavailable" | "unknown", error: unknown): void {
    this.#parts.stats.of(lease.name).failed++;
    if (!this.#events.wants("unknown")) return;
    this.#events.publish({ type: "unknown", ...this.#about(lease), why, error });
  }

  unrenewed(lease: HeldLease<T>, sinceMs: number): void {
    if (!this.#events.wants("unrenewed")) return;
    const { ttlMs } = lease;
    this.#events.publish({ type: "unrenewed", ...this.#about(lease), sinceMs, ttlMs });
  }

  /**
   * A record under a session outlives its lease as long as others renew the session, or this very
   * process does while it waits for the name: it is not left to its TTL.
   */
  #takeBack(lease: HeldLease<T>, always = false): void {
    if ((!always && lease.grant.session === undefined) || this.#takenBack.has(lease)) return;
    this.#takenBack.add(lease);
    this.#parts.cleanup.take({ name: lease.name, holder: lease.holder, ttlMs: lease.ttlMs });
  }

  /** Whether it was held here until now. */
  #drop(lease: HeldLease<T>): boolean {
    const wasKept = this.#renewals.leases.has(lease);
    this.#renewals.drop(lease);
    if (!wasKept) return false;
    const count = this.#heldHere.get(lease.name)! - 1;
    if (count === 0) this.#heldHere.delete(lease.name);
    else this.#heldHere.set(lease.name, count);
    this.#noteHold(lease);
    if (lease.grant.session !== undefined) {
      this.#attempts()
        .leaveOf(lease)
        .catch((error: unknown) => this.#unavailable(lease.name, "session close", error));
    }
    return true;
  }

  #noteHold(lease: HeldLease<T>): void {
    const heldMs = elapsedMs(lease.startedAt, now(this.clock));
    const medianMs = this.#parts.stats.of(lease.name).held(heldMs, lease.ttlMs);
    if (medianMs === undefined || !this.#events.wants("long-holds")) return;
    const { name, ttlMs } = lease;
    this.#events.publish({ type: "long-holds", name, backend: this.backend, medianMs, ttlMs });
  }

  #told(lease: HeldLease<T>, answer: "released" | "not-held"): void {
    if (this.#events.wants("released")) {
      const heldMs = elapsedMs(lease.startedAt, now(this.clock));
      this.#events.publish({ type: "released", ...this.#about(lease), heldMs, answer });
    }
    if (answer === "not-held" && this.#events.wants("removed")) {
      this.#events.publish({ type: "removed", ...this.#about(lease) });
    }
  }

  #unavailable(name: string, during: string, error: unknown): void {
    this.#events.publish({ type: "unavailable", name, backend: this.backend, during, error });
  }

  #about(lease: HeldLease<T>): {
    name: string;
    backend: string;
    token: bigint | undefined;
    holder: string;
  } {
    const { name, token, holder } = lease.grant;
    return { name, backend: this.backend, token, holder };
  }
}
