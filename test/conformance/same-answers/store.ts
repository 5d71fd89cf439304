/** A store as a comparison meets it, real or a model. */
import type { AnyBackend } from "../../../src/testing/subject.js";

/** What is compared of the answers of two stores, beside who was granted what. */
export interface Terms {
  /** TTL of a lease, or a session, that is to end by itself, milliseconds. */
  readonly shortTtlMs: number;
  /** Whether a renewal may cut a lease short; else one that is to lapse is taken for it. */
  readonly cutsShort?: boolean;
  /** Whether both show the TTL of a record. */
  readonly ttl?: boolean;
  /** Whether both show how much of it is left. */
  readonly left?: boolean;
  /** Whether both have versions, which move with each renewal. */
  readonly version?: boolean;
  /** Whether grants tell the incarnation of the store. */
  readonly epoch?: boolean;
  /** Whether a fault leaves the store with an incarnation that it never had before. */
  readonly newEpochs?: boolean;
  /** Whether a lost lease may be told as taken or absent, whichever answer comes first. */
  readonly isVague?: boolean;
  /** Whether an answer that certainly changed nothing is told from one that may have. */
  readonly certainty?: boolean;
}

/** One store and its clients. */
export interface Store {
  readonly what: string;
  /** Clients in processes of their own. Others after a fault, perhaps. */
  readonly clients: readonly AnyBackend[];
  /** Carries out one call. The world of a model goes on for it. */
  carry<R>(call: () => R | Promise<R>): Promise<R>;
  /** Lets time pass until it is so. @throws Error when it does not come to be so. */
  until(what: string, isSo: () => boolean | Promise<boolean>): Promise<void>;
  /** Milliseconds of the store's time since it was made. */
  nowMs(): number;
  /** Lets time pass, where it does not do so by itself. */
  pass(ms: number): Promise<void>;
  /** Whether nothing is left of a lease that is over, also where nobody looks. */
  isOver?(name: string): Promise<boolean>;
  /** What can be done to it, by name; answers what both have to say of it. */
  readonly faults?: Readonly<Record<string, (member: number) => Promise<string>>>;
  /** A client dies, and another takes its place; resolves once it counts as dead. */
  replace?(client: number, meanwhile: () => Promise<unknown>): Promise<void>;
  close(): Promise<void>;
}

/** The client that a holder belongs to. */
export function clientOf(holder: string, clients: number): number {
  return Number.parseInt(holder.slice(1), 10) % clients;
}
