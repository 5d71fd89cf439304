/// <reference lib="esnext.disposable" preserve="true" />
/** What a group of partitions offers, whoever assigns them: the members themselves, or Kafka. */
import type { HolderInfo } from "../core/backend.js";
import type { FencingToken, TokenBearer } from "../core/token.js";

/**
 * State of an owned partition.
 *
 * - `owned`: this member's to work on
 * - `revoked`: this member's still, to finish what is begun and give it up
 * - `lost`: already somebody else's, or about to be: nothing may be done any more
 * - `released`: given up
 */
export type OwnershipState = "owned" | "revoked" | "lost" | "released";

/**
 * A partition in the hands of its owner. A fence takes it like a lease.
 *
 * Not promised: that nobody else works on it while this member believes to own it. A process that
 * was frozen believes it until its next statement. What protects the data is a fence armed with the
 * token.
 */
export interface OwnedPartition extends TokenBearer, AsyncDisposable {
  /** Its number, from 0. */
  readonly partition: number;
  /** Name of its lease. */
  readonly name: string;
  /** The fencing token of this ownership, higher than that of every owner before. */
  readonly token: FencingToken;
  /** Random id of the grant. */
  readonly holder: string;
  /** Id of the store that granted it. */
  readonly storeId: string;
  /** TTL as the store granted it, milliseconds. */
  readonly ttlMs: number;
  /** Looks at the clock. */
  readonly state: OwnershipState;
  /**
   * Aborts when the partition is lost, the lease's grace before its deadline, when the work did not
   * end within the group's `drain`, or when it is given up: stop at once.
   */
  readonly signal: AbortSignal;
  /**
   * Aborts when the group wants the partition back: begin nothing new, finish, and give it up. Its
   * reason is a `PartitionRevokedError` then. Aborts also when the partition is lost or given up,
   * with the reason of `signal`.
   */
  readonly revoked: AbortSignal;
  /** Milliseconds to the deadline by this process's own clocks; 0 once past. */
  remaining(): number;
  /**
   * Nothing, while at least `minMs` remain (default: any).
   *
   * @throws LeaseLostError otherwise. UnverifiedError while the clock is in doubt.
   */
  assertOwned(minMs?: number): void;
  /**
   * Gives it up: the last thing that its owner does after `revoked`. Before that it lets the group
   * assign it anew, perhaps to this member, with a higher token. Never rejects: what could not be
   * given back is left to its TTL.
   */
  release(): Promise<void>;
}

/** A change in what this member owns. */
export interface PartitionChange {
  /** `overdue`: its work did not end within `drain`; it is given up all the same. */
  readonly type: "assigned" | "revoked" | "overdue" | "lost" | "released";
  readonly partition: OwnedPartition;
}

/** What an owner does with one partition, until it is `revoked` or lost. */
export type PartitionWork<P extends OwnedPartition = OwnedPartition> = (partition: P) => unknown;

/** A member of a group, and the partitions that it owns. */
export interface PartitionGroup<
  P extends OwnedPartition = OwnedPartition,
> extends AsyncDisposable {
  readonly name: string;
  /** Number of partitions of the whole group. */
  readonly count: number;
  /** Id of this member: new for each. */
  readonly member: string;
  /** What is this member's to work on now, in order; without what is revoked. */
  readonly owned: readonly P[];
  /** Aborts when the group has ended here: closed, or failed for the reason that it carries. */
  readonly signal: AbortSignal;
  /**
   * Number of the partition that a key falls to, from 0; text counts as its bytes of UTF-8.
   *
   * @throws TypeError for a key that is neither text nor bytes.
   */
  partitionFor(key: string | Uint8Array): number;
  /**
   * Runs `work` for each partition while this member owns it, and gives a revoked one up when its
   * work has ended. A work that returns early leaves its partition idle, and owned. Ends when
   * `signal` aborts, or the group is closed: after all works have ended. The group is closed then.
   *
   * @throws What a work throws that was neither revoked nor lost, once the others have ended: they
   *   are revoked. What ended the group. TypeError for bad arguments, and for a second work.
   */
  run(work: PartitionWork<P>, options?: { readonly signal?: AbortSignal }): Promise<void>;
  /** Who owns what, by the store. Old the moment it is read. */
  view(): Promise<PartitionsView>;
  /**
   * Leaves: revokes what is owned, waits until it is given up or `drain` has passed, and ends.
   * Others take over at once. Never rejects.
   */
  close(): Promise<void>;
}

/** A living member, as others see it. */
export interface MemberView {
  readonly id: string;
  /** What it told of itself, with its host and pid. */
  readonly info: HolderInfo;
  /** Numbers of its partitions, in order. */
  readonly partitions: readonly number[];
}

/** A held partition, as others see it. */
export interface PartitionView {
  readonly partition: number;
  readonly token: bigint | undefined;
  /** Id of the member that owns it; undefined where the store does not tell. */
  readonly member: string | undefined;
  /** Milliseconds until the store lets go, where it can say. */
  readonly expiresInMs?: number;
}

/** Who owns what. */
export interface PartitionsView {
  readonly name: string;
  /** Undefined when the group has no members. */
  readonly count: number | undefined;
  readonly members: readonly MemberView[];
  /** The held ones, in order. */
  readonly partitions: readonly PartitionView[];
  /** Numbers of those that nobody holds. */
  readonly unowned: readonly number[];
}
