/**
 * Commits of offsets that only the owner of a partition gets through.
 *
 * The library's own commit is of no use here: when the broker refuses a member of an old
 * generation, it joins the group again and sends the same offset under the new one. So each
 * generation gets clients of its own, pinned to the member and the generation that were current
 * when it began, which can never send another.
 *
 * 1. The owner takes a pinned client, and then looks at the clock of its lease.
 * 2. It is frozen here, and wakes when another owns the partition. The lease lasts longer than the
 *    broker waits for a member that is silent: the generation that it is pinned to has ended.
 * 3. It sends, and the broker refuses.
 *
 * A commit that got no answer is sent again, by a fresh client of the same pin, for as long as its
 * owner owns the partition.
 */
import { whenAborted } from "../../core/aborting.js";
import type { Timer } from "../../core/clock.js";
import { isFinal, isStaleMember } from "./client.js";
import { explain } from "./explain.js";
import type { Asked } from "./explain.js";
import { AGAIN_MS, Lent, type RequestParts } from "./lent.js";

/** An owner, as far as a commit needs to know. */
export interface Committer {
  readonly partition: number;
  readonly signal: AbortSignal;
  assertOwned(): void;
}

/** A member of one generation, and the client that speaks for it. */
interface Pin {
  readonly memberId: string | null;
  readonly generationId: number;
  lent: Lent;
}

/** Commits of one member. */
export class Commits {
  readonly #parts: RequestParts;
  readonly #asked: Asked;
  #pin: Pin | undefined;
  readonly #waiting = new Set<() => void>();

  constructor(parts: RequestParts) {
    this.#parts = parts;
    this.#asked = { ...parts.asked, during: "commit an offset" };
  }

  /** A new generation has begun. */
  pin(memberId: string | null, generationId: number): void {
    this.close();
    this.#pin = { memberId, generationId, lent: this.#lend({ memberId, generationId }) };
    for (const wake of [...this.#waiting]) wake();
  }

  /**
   * Commits that all before `offset` is dealt with. Sends it until it is answered, as long as the
   * partition is owned.
   *
   * @throws LeaseLostError when the partition is not owned any more; the reason of the owner's
   *   signal once that aborts. UnavailableError, OutcomeUnknownError for what another try would not
   *   better.
   */
  async commit(owner: Committer, offset: bigint): Promise<void> {
    for (;;) {
      const pin = this.#pin;
      owner.assertOwned();
      const outcome = pin === undefined ? "stale" : await this.#try(pin, owner.partition, offset);
      if (outcome === "done") return;
      // In the middle of a rebalance, or after one that it has not heard of yet.
      await this.#next(pin, owner.signal, outcome === "unanswered" ? AGAIN_MS : Infinity);
    }
  }

  /** Ends the present client, once it has done what is under way. */
  close(): void {
    this.#pin?.lent.end();
    this.#pin = undefined;
  }

  #lend({ memberId, generationId }: Pick<Pin, "memberId" | "generationId">): Lent {
    const client = this.#parts.create();
    client.memberId = memberId;
    client.generationId = generationId;
    return new Lent(client, this.#parts.failed);
  }

  /** `stale`: the broker knows a newer generation. @throws what another try would not better. */
  async #try(
    pin: Pin,
    partition: number,
    offset: bigint,
  ): Promise<"done" | "stale" | "unanswered"> {
    const { lent } = pin;
    const offsets = [{ topic: this.#asked.topic, partition, offset, leaderEpoch: -1 }];
    try {
      // A client whose connection broke may never answer.
      await lent.use((client) =>
        this.#parts.within(client.commit({ offsets }), this.#asked.during),
      );
      return "done";
    } catch (error) {
      if (isStaleMember(error)) return "stale";
      const told = explain(error, this.#asked);
      if (isFinal(error)) throw told;
      this.#parts.failed(told);
      lent.end();
      if (this.#pin === pin && pin.lent === lent) pin.lent = this.#lend(pin);
      return "unanswered";
    }
  }

  /** Resolves once another generation is pinned, or after a while. @throws the signal's reason. */
  async #next(pin: Pin | undefined, signal: AbortSignal, withinMs: number): Promise<void> {
    let timer: Timer | undefined;
    let isLate = false;
    while (!isLate && (this.#pin === pin || this.#pin === undefined)) {
      signal.throwIfAborted();
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          this.#waiting.delete(wake);
          timer?.cancel();
          unlisten();
          resolve();
        };
        this.#waiting.add(wake);
        if (withinMs !== Infinity) {
          timer = this.#parts.timers.after(withinMs, () => {
            isLate = true;
            wake();
          });
        }
        const unlisten = whenAborted(signal, () => void this.#soon(wake));
      });
    }
  }

  /** An aborted signal calls at once, before there is anything to end. */
  async #soon(wake: () => void): Promise<void> {
    await Promise.resolve();
    wake();
  }
}
