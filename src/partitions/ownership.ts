/// <reference lib="esnext.disposable" preserve="true" />
/**
 * One partition in the hands of its owner.
 *
 * It begins **owned**. The group makes it **revoked**: it is held and renewed until its owner gives
 * it up, and when that takes longer than `drain` its signal aborts and it is given up one grace
 * later all the same. It is **lost** when its lease is; **released** when it was given up: a
 * work that still goes on is told by both signals. Lost and released are final; each change is told
 * once.
 */
import { whenAborted } from "../core/aborting.js";
import type { Timer } from "../core/clock.js";
import { LeaseLostError } from "../core/errors.js";
import type { Lease } from "../core/lease.js";
import type { Runtime } from "../core/runtime.js";
import { Told } from "../core/told.js";
import type { FencingToken } from "../core/token.js";
import type { OwnedPartition, OwnershipState, PartitionChange } from "./contract.js";
import { PartitionRevokedError } from "./errors.js";

/** What an ownership works with. Durations in milliseconds. */
export interface OwnershipParts {
  readonly runtime: Runtime;
  readonly backend: string;
  readonly drainMs: number;
  readonly graceMs: number;
  readonly changed: (change: PartitionChange) => void;
  readonly failed: (error: unknown) => void;
}

/** The one implementation of {@link OwnedPartition}. */
export class Ownership extends Told implements OwnedPartition {
  readonly partition: number;
  readonly #lease: Lease;
  readonly #parts: OwnershipParts;
  readonly #signal = new AbortController();
  readonly #revoked = new AbortController();
  #state: OwnershipState = "owned";
  #timer: Timer | undefined;
  #releasing: Promise<void> | undefined;
  #unlisten: () => void = () => undefined;

  constructor(partition: number, lease: Lease, parts: OwnershipParts) {
    super();
    this.partition = partition;
    this.#lease = lease;
    this.#parts = parts;
  }

  /** Tells that it is owned, and begins to listen to its lease. */
  begin(): void {
    this.#tell("assigned");
    this.#unlisten = whenAborted(this.#lease.signal, () => this.#lost());
  }

  get name(): string {
    return this.#lease.name;
  }

  get token(): FencingToken {
    return this.#lease.token;
  }

  get holder(): string {
    return this.#lease.holder;
  }

  get storeId(): string {
    return this.#lease.storeId;
  }

  get ttlMs(): number {
    return this.#lease.ttlMs;
  }

  get state(): OwnershipState {
    this.#look();
    return this.#state;
  }

  get signal(): AbortSignal {
    this.#look();
    return this.#signal.signal;
  }

  get revoked(): AbortSignal {
    this.#look();
    return this.#revoked.signal;
  }

  remaining(): number {
    return this.#lease.remaining();
  }

  assertOwned(minMs?: number): void {
    this.#lease.assertHeld(minMs);
  }

  /** The group wants it back. Does nothing when it is not owned any more. */
  revoke(why: string): void {
    if (this.state !== "owned") return;
    this.#state = "revoked";
    const { runtime, drainMs } = this.#parts;
    if (drainMs !== Infinity) {
      this.#timer = runtime.timers.after(drainMs, () => this.#overdue());
    }
    this.#tell("revoked");
    this.#revoked.abort(this.#error(why));
  }

  protected get kind(): string {
    return "OwnedPartition";
  }

  protected facts(): object {
    const { partition, name, token, holder, storeId, ttlMs, state } = this;
    const remainingMs = Math.floor(this.remaining());
    return { partition, name, token, holder, storeId, ttlMs, state, remainingMs };
  }

  release(): Promise<void> {
    this.#releasing ??= this.#release();
    return this.#releasing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  async #release(): Promise<void> {
    this.#look();
    this.#end();
    const wasLost = this.#state === "lost";
    if (!wasLost) {
      this.#state = "released";
      // Before the store hears of it: whoever still works here is to stop before another begins.
      this.#abort(this.#givenUp());
    }
    try {
      await this.#lease.release();
    } catch (error) {
      this.#parts.failed(error);
    }
    if (!wasLost) this.#tell("released");
  }

  #overdue(): void {
    const { drainMs, graceMs, runtime } = this.#parts;
    this.#tell("overdue");
    this.#signal.abort(this.#error(`was not given up within ${drainMs} ms after it was revoked`));
    this.#timer = runtime.timers.after(graceMs, () => void this.release());
  }

  #lost(): void {
    if (this.#state === "lost" || this.#state === "released") return;
    this.#state = "lost";
    this.#end();
    const reason: unknown = this.#lease.signal.reason;
    this.#tell("lost");
    this.#abort(reason);
  }

  #abort(reason: unknown): void {
    this.#revoked.abort(reason);
    this.#signal.abort(reason);
  }

  #end(): void {
    this.#timer?.cancel();
    this.#unlisten();
  }

  /** A lease notices by its clock, and aborts, when it is asked. */
  #look(): void {
    void this.#lease.state;
  }

  #tell(type: PartitionChange["type"]): void {
    this.#parts.changed({ type, partition: this });
  }

  #givenUp(): LeaseLostError {
    const { name: lock } = this;
    const text = `partition ${this.partition} (${JSON.stringify(lock)}) was given up`;
    return new LeaseLostError(text, { lock, backend: this.#parts.backend, reason: "released" });
  }

  #error(how: string): PartitionRevokedError {
    const { name: lock, partition } = this;
    const text = `partition ${partition} (${JSON.stringify(lock)}) ${how}`;
    return new PartitionRevokedError(text, { lock, partition, backend: this.#parts.backend });
  }
}
