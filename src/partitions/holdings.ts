/** What one member owns, and the works that run on it. */
import type { Timer } from "../core/clock.js";
import type { Lease } from "../core/lease.js";
import type { Runtime } from "../core/runtime.js";
import type { PartitionChange, PartitionWork } from "./contract.js";
import type { OwnershipTerms } from "./options.js";
import type { Ownership, OwnershipParts } from "./ownership.js";

/** What holdings work with. */
export interface HoldingsParts<O extends Ownership> {
  readonly runtime: Runtime;
  readonly backend: string;
  readonly terms: OwnershipTerms;
  /** Makes an ownership of a fresh lease. */
  readonly create: (partition: number, lease: Lease, parts: OwnershipParts) => O;
  /** Told when a partition is no longer held: there may be something to do. */
  readonly onGone: () => void;
  /** Told of what a work or the caller's `onError` threw. */
  readonly onFailed: (error: unknown) => void;
}

/** The partitions of one member. */
export class Holdings<O extends Ownership = Ownership> {
  readonly #parts: HoldingsParts<O>;
  readonly #held = new Map<number, O>();
  /** Works that have not ended; a partition that comes back waits for its former one. */
  readonly #working = new Map<number, Promise<void>>();
  #work: PartitionWork<O> | undefined;
  #empty: (() => void) | undefined;
  #draining: Timer | undefined;

  constructor(parts: HoldingsParts<O>) {
    this.#parts = parts;
  }

  /** What is to be worked on, in order. */
  get owned(): readonly O[] {
    return [...this.#held.values()]
      .filter(({ state }) => state === "owned")
      .sort((a, b) => a.partition - b.partition);
  }

  /** All that is held: owned, or revoked and not given up yet. */
  get held(): readonly O[] {
    return [...this.#held.values()].filter(({ state }) => state === "owned" || state === "revoked");
  }

  get(partition: number): O | undefined {
    return this.#held.get(partition);
  }

  /** Takes a fresh lease of a partition in charge. */
  add(partition: number, lease: Lease): void {
    const { runtime, backend, terms, create } = this.#parts;
    const ownership = create(partition, lease, {
      runtime,
      backend,
      drainMs: terms.drainMs,
      graceMs: terms.graceMs,
      changed: (change) => this.#changed(change, ownership),
      failed: (error) => this.tell(error),
    });
    this.#held.set(partition, ownership);
    ownership.begin();
  }

  /** Whether there is a work already. */
  get hasWork(): boolean {
    return this.#work !== undefined;
  }

  /** Begins `work` on all that is owned, and on what comes. */
  begin(work: PartitionWork<O>): void {
    this.#work = work;
    for (const ownership of this.#held.values()) this.#start(ownership);
  }

  /**
   * Revokes all, and gives up at once what no work runs on: its owner is who ends the group.
   * Resolves when nothing is held any more and all works have ended, or are overdue.
   */
  async drained(why: string): Promise<void> {
    const { runtime, terms } = this.#parts;
    const enough = new Promise<void>((over) => {
      if (terms.drainMs === Infinity) return;
      this.#draining = runtime.timers.after(terms.drainMs + terms.graceMs, over);
    });
    for (const ownership of this.held) {
      ownership.revoke(why);
      if (!this.#working.has(ownership.partition)) void ownership.release();
    }
    while (this.#held.size > 0) await new Promise<void>((empty) => (this.#empty = empty));
    await Promise.race([Promise.all(this.#working.values()), enough]);
    this.#draining?.cancel();
  }

  /** Hands an error to the caller's `onError`; what that throws ends the group. */
  tell(error: unknown): void {
    try {
      this.#parts.terms.onError(error);
    } catch (thrown) {
      this.#parts.onFailed(thrown);
    }
  }

  #changed(change: PartitionChange, ownership: O): void {
    const { type } = change;
    const isGone = type === "lost" || type === "released";
    if (isGone && this.#held.get(ownership.partition) === ownership) {
      this.#held.delete(ownership.partition);
    }
    try {
      this.#parts.terms.onChange(change);
    } catch (error) {
      this.tell(error);
    }
    if (type === "assigned") this.#start(ownership);
    if (!isGone) return;
    if (this.#held.size === 0) this.#empty?.();
    this.#parts.onGone();
  }

  #start(ownership: O): void {
    const work = this.#work;
    if (work === undefined) return;
    const { partition } = ownership;
    const former = this.#working.get(partition) ?? Promise.resolve();
    const mine = former.then(() => this.#workOn(ownership, work));
    this.#working.set(partition, mine);
    void mine.then(() => {
      if (this.#working.get(partition) === mine) this.#working.delete(partition);
    });
  }

  /** Never rejects. */
  async #workOn(ownership: O, work: PartitionWork<O>): Promise<void> {
    if (ownership.state === "owned") {
      try {
        await work(ownership);
      } catch (error) {
        if (ownership.state === "owned") this.#parts.onFailed(error);
        else if (error !== ownership.revoked.reason && error !== ownership.signal.reason) {
          this.tell(error);
        }
      }
    }
    // A work that has nothing more to do leaves its partition idle.
    if (ownership.state === "owned") await aborted(ownership.revoked);
    await ownership.release();
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
