import type { Timers } from "../core/clock.js";
import type { Manifest } from "../core/manifest.js";
import type { FencingToken } from "../core/token.js";
import { must } from "./broken-promise.js";
import { Client } from "./client.js";
import { withFaults, type FaultyBackend } from "./faults.js";
import type { AnyBackend, AnyTenure, Subject, SubjectStore } from "./subject.js";

/** The package's front in a trial. */
export interface Front {
  readonly tenure: AnyTenure;
  /** What the core calls; its plan can be changed. */
  readonly faulty: FaultyBackend<FencingToken | undefined>;
}

const ROOMY_TTL_MS = 1_500;
const OPEN_MS = 10_000;
const CLOSE_MS = 15_000;

const noTimers: Timers = {
  after: () => {
    throw new Error("the cases use no faults that take time");
  },
  soon: () => {
    throw new Error("the cases use no faults that take time");
  },
};

/** One run of one case: a store, its clients, names that nobody else uses, and time. */
export class Trial {
  readonly manifest: Manifest;
  readonly store: SubjectStore;
  /** TTL of leases that are to expire, milliseconds. */
  readonly shortTtlMs: number;
  /**
   * TTL of leases that must still be held when part of it has passed, milliseconds: long enough
   * that a busy machine does not use up the rest meanwhile.
   */
  readonly roomyTtlMs: number;
  /** How long a waiter may take to hear, milliseconds. */
  readonly wakeWithinMs: number;
  readonly #subject: Subject;
  readonly #prefix: string;
  readonly #open: { close(): Promise<void> }[] = [];
  #count = 0;

  /** `unique` tells this trial from all others on the same store. */
  constructor(subject: Subject, store: SubjectStore, manifest: Manifest, unique: string) {
    this.#subject = subject;
    this.store = store;
    this.manifest = manifest;
    this.#prefix = `${unique}:`;
    this.shortTtlMs = Math.max(manifest.minTtlMs, subject.shortTtlMs ?? 1_000);
    this.roomyTtlMs = Math.max(ROOMY_TTL_MS, this.shortTtlMs);
    this.wakeWithinMs = subject.wakeWithinMs ?? 2_000;
  }

  /** A backend on the store; closed at the end of the trial. */
  async connect(): Promise<AnyBackend> {
    const backend = await openBackend(this.store);
    this.#open.push(backend);
    return backend;
  }

  /** The package's own front on the store, over a backend whose calls can go wrong. */
  async tenure(): Promise<Front> {
    const faulty = withFaults(await this.store.connect(), noTimers);
    const tenure = await this.#subject.connect?.(faulty);
    must(tenure !== undefined, "connect", "the subject brings none");
    this.#open.push(tenure);
    return { tenure, faulty };
  }

  async client(): Promise<Client> {
    return new Client(await this.connect(), this.#subject.time, () => this.holder());
  }

  /** Two clients: leases that one lets expire are taken over by the other. */
  async clients(): Promise<readonly [Client, Client]> {
    return [await this.client(), await this.client()];
  }

  /** The name `text`, out of reach of other trials. */
  name(text = "lock"): string {
    return this.#prefix + text;
  }

  /** A fresh holder. */
  holder(): string {
    return `${this.#prefix.replaceAll(/[^A-Za-z0-9]/g, "-")}h${++this.#count}`;
  }

  async advance(ms: number): Promise<void> {
    await this.#subject.time.advance(ms);
  }

  /** Lets a lease of this TTL expire for certain. */
  async expire(ttlMs: number): Promise<void> {
    await this.advance(ttlMs + (this.#subject.expirySlackMs ?? 100));
  }

  /** The outcome of `promise`, which must come within `limitMs`. */
  async within<T>(limitMs: number, promise: Promise<T>, what: string): Promise<T> {
    const seen = await this.#outcome(limitMs, promise);
    must(seen !== undefined, what, `nothing happened within ${limitMs} ms`);
    return seen.value;
  }

  /** The outcome of `promise`, or undefined when there is none within `limitMs`. */
  async settled<T>(limitMs: number, promise: Promise<T>): Promise<T | undefined> {
    return (await this.#outcome(limitMs, promise))?.value;
  }

  async #outcome<T>(limitMs: number, promise: Promise<T>): Promise<{ value: T } | undefined> {
    const outcome = promise.then(
      (value) => ({ value }),
      (error: unknown) => ({ error }),
    );
    const seen = await this.#subject.time.until(outcome, limitMs).catch(() => undefined);
    if (seen !== undefined && "error" in seen) throw seen.error;
    return seen;
  }

  /** Checks that the later grant's token is the higher one, where there are tokens. */
  rises(earlier: FencingToken | undefined, later: FencingToken | undefined, after: string): void {
    const promise = `tokens "${this.manifest.tokens}"`;
    if (this.manifest.tokens === "none") return;
    must(earlier !== undefined && later !== undefined, promise, "a grant carries no token");
    must(later > earlier, promise, `after ${after} the token ${later} is not above ${earlier}`);
  }

  async close(): Promise<void> {
    const all = Promise.allSettled(this.#open.map((client) => client.close()));
    const closed = await this.within(CLOSE_MS, all, "close").finally(() => this.store.dispose?.());
    for (const outcome of closed) if (outcome.status === "rejected") throw outcome.reason;
  }
}

/** A client of the store, opened as `connect` opens it. */
export async function openBackend(store: SubjectStore): Promise<AnyBackend> {
  const backend = await store.connect();
  await backend.open?.({ signal: new AbortController().signal, timeoutMs: OPEN_MS });
  return backend;
}
