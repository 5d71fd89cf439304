/**
 * Offsets of partitions: commits that only the owner gets through, and where an owner begins.
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
 * A request without an answer is sent again, by a fresh client of the same pin, for as long as its
 * owner owns the partition. So is one that was refused for its generation: a coordinator that was
 * frozen and deposed knows nothing of newer ones until it is told.
 */
import { whenAborted } from "../../core/aborting.js";
import { isFinal, isStaleMember } from "./client.js";
import type { CommittedOffset, KafkaConsumer } from "./client.js";
import { explain } from "./explain.js";
import { AGAIN_MS, Lent, type RequestParts } from "./lent.js";

/** An owner, as far as a commit needs to know. */
export interface Committer {
  readonly partition: number;
  readonly signal: AbortSignal;
  assertOwned(): void;
}

type Work<R> = (client: KafkaConsumer) => Promise<R>;

/** A member of one generation, and the client that speaks for it. */
interface Pin {
  readonly memberId: string | null;
  readonly generationId: number;
  lent: Lent;
}

/** Commits of one member. */
export class Commits {
  readonly #parts: RequestParts;
  #pin: Pin | undefined;
  readonly #waiting = new Set<() => void>();

  constructor(parts: RequestParts) {
    this.#parts = parts;
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
    const offsets = this.#offsets(owner, offset);
    await this.#ask(owner, owner.signal, "commit an offset", (client) =>
      client.commit({ offsets }),
    );
  }

  /**
   * What was committed last; undefined for nothing. Asks until it is answered, as long as the
   * partition is owned and `signal` has not aborted.
   *
   * What a coordinator answers may be old: one that was frozen and deposed answers from memory. It
   * can commit nothing, though. So the same offset is committed to whom it was read from, and
   * counts once that succeeds; nobody else can commit to the partition meanwhile. That there was
   * none is taken as told: there is nothing to commit.
   *
   * @throws as {@link commit}; the reason of `signal` once that aborts.
   */
  begin(owner: Committer, signal: AbortSignal): Promise<bigint | undefined> {
    const { partition } = owner;
    const { topic } = this.#parts.asked;
    return this.#ask(owner, signal, "read", async (client) => {
      const topics = [{ topic, partitions: [partition] }];
      const offset = (await client.listCommittedOffsets({ topics })).get(topic)?.[partition];
      if (offset === undefined || offset < 0n) return undefined;
      await client.commit({ offsets: this.#offsets(owner, offset) });
      return offset;
    });
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

  #offsets({ partition }: Committer, offset: bigint): CommittedOffset[] {
    return [{ topic: this.#parts.asked.topic, partition, offset, leaderEpoch: -1 }];
  }

  /** Asks until it is answered. @throws what another try would not better. */
  async #ask<R>(owner: Committer, signal: AbortSignal, during: string, work: Work<R>): Promise<R> {
    for (;;) {
      const pin = this.#pin;
      owner.assertOwned();
      const answer = pin === undefined ? undefined : await this.#try(pin, during, work);
      if (answer !== undefined) return answer.value;
      // In the middle of a rebalance, or after one that it has not heard of yet.
      await this.#next(pin, signal);
    }
  }

  /** Undefined without an answer that counts. @throws what another try would not better. */
  async #try<R>(pin: Pin, during: string, work: Work<R>): Promise<{ value: R } | undefined> {
    const { lent } = pin;
    try {
      // A client whose connection broke may never answer.
      return { value: await lent.use((client) => this.#parts.within(work(client), during)) };
    } catch (error) {
      if (!isStaleMember(error)) {
        const told = explain(error, { ...this.#parts.asked, during });
        if (isFinal(error)) throw told;
        this.#parts.failed(told);
      }
      lent.end();
      if (this.#pin === pin && pin.lent === lent) pin.lent = this.#lend(pin);
      return undefined;
    }
  }

  /** Resolves once another generation is pinned, or after a while. @throws the signal's reason. */
  async #next(pin: Pin | undefined, signal: AbortSignal): Promise<void> {
    let isLate = false;
    while (this.#pin === undefined || (this.#pin === pin && !isLate)) {
      signal.throwIfAborted();
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          this.#waiting.delete(wake);
          timer.cancel();
          unlisten();
          resolve();
        };
        this.#waiting.add(wake);
        const timer = this.#parts.timers.after(AGAIN_MS, () => {
          isLate = true;
          wake();
        });
        const unlisten = whenAborted(signal, () => void this.#soon(wake));
      });
    }
    signal.throwIfAborted();
  }

  /** An aborted signal calls at once, before there is anything to end. */
  async #soon(wake: () => void): Promise<void> {
    await Promise.resolve();
    wake();
  }
}
