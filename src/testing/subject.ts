import type { Backend } from "../core/backend.js";
import type { Lease } from "../core/lease.js";
import type { AcquireOptions, LeaseOptions } from "../core/options.js";
import type { FencingToken } from "../core/token.js";

/** A backend with or without tokens. */
export type AnyBackend = Backend<FencingToken | undefined>;

type AnyLease = Lease<FencingToken | undefined>;

/** What the cases use of a tenure, with or without tokens. */
export interface AnyTenure {
  tryAcquire(name: string, options?: LeaseOptions): Promise<AnyLease | null>;
  acquire(name: string, options?: AcquireOptions): Promise<AnyLease>;
  hold<V>(name: string, options: AcquireOptions, work: (lease: AnyLease) => V): Promise<V>;
  inspect(name: string): Promise<{ readonly token: bigint | undefined } | null>;
  close(): Promise<void>;
}

/** How time passes for a subject: really, or on a simulated clock. */
export interface SubjectTime {
  /** Resolves once at least `ms` milliseconds have passed for store and clients. */
  advance(ms: number): Promise<void>;
  /** The outcome of `promise`; rejects when it has not settled within `limitMs`. */
  until<T>(promise: Promise<T>, limitMs: number): Promise<T>;
}

/**
 * One store as a case meets it. The powers (optional methods) do to it what the world may do; a
 * case that needs a missing one is skipped, with that as the reason.
 */
export interface SubjectStore {
  /** Another client of this store, not yet opened; the suite opens and closes it. */
  connect(): Promise<AnyBackend>;
  /** Stops the store in good order and starts it again. Clients made before may be dead. */
  restart?(): Promise<void>;
  /** Removes the record of a lock behind the backend's back, as a person with a shell would. */
  deleteRecord?(name: string): Promise<void>;
  /** Makes the store drop what it keeps of leases that have ended. */
  sweep?(): Promise<void>;
  /** Makes the next token of the name at least `token`. Called before any client is made. */
  presetToken?(name: string, token: bigint): Promise<void>;
  /** Tests a proof the way a transaction in the same store would. */
  testProof?(proof: unknown): Promise<boolean>;
  /** How many things of this process now keep it alive: timers, sockets, files being watched. */
  openHandles?(): number;
  /** Throws the store away. Called once, after all clients were closed. */
  dispose?(): Promise<void>;
}

/** A backend under test. */
export interface Subject {
  readonly time: SubjectTime;
  /**
   * A store for one case. It may be shared with other cases: they use names of their own. Powers
   * that disturb others (`restart`) need a store that is not shared while a case runs.
   */
  open(): Promise<SubjectStore>;
  /**
   * The `connect` of the package, for the cases about a backend together with the core:
   * `connect: (backend: Backend) => connect(backend)`.
   */
  connect?(backend: AnyBackend): Promise<AnyTenure>;
  /** Names this run, for a store that outlives it: else names of an earlier run come back. */
  readonly runId?: string;
  /** TTL of leases that a case lets expire, milliseconds. Default 1,000, at least `minTtlMs`. */
  readonly shortTtlMs?: number;
  /** How long after its TTL the store may still show a lease, milliseconds. Default 100. */
  readonly expirySlackMs?: number;
  /** How long after a release or an expiry a waiter may hear of it, milliseconds. Default 2,000. */
  readonly wakeWithinMs?: number;
}

const LOOK_EVERY_MS = 5;

/** Real time, from any sleep: `realTime((ms) => new Promise((wake) => setTimeout(wake, ms)))`. */
export function realTime(sleep: (ms: number) => Promise<unknown>): SubjectTime {
  return {
    async advance(ms) {
      await sleep(ms);
    },
    async until(promise, limitMs) {
      let settled = false;
      const note = (): void => void (settled = true);
      promise.then(note, note);
      // Looking again and again leaves no timer behind, whichever comes first.
      for (let passedMs = 0; !settled && passedMs < limitMs; passedMs += LOOK_EVERY_MS) {
        await sleep(LOOK_EVERY_MS);
      }
      if (settled) return await promise;
      throw new Error(`no outcome within ${limitMs} ms`);
    },
  };
}
