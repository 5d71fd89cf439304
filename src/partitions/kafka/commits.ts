/**
 * Commits of offsets that only the owner of a partition gets through.
 *
 * The library's own commit is of no use here: when the broker refuses a member of an old
 * generation, it joins the group again and sends the same offset under the new one. So each
 * generation gets a client of its own, pinned to the member and the generation that were current
 * when it was made, which can never send another.
 *
 * 1. The owner takes the pinned client, and then looks at the clock of its lease.
 * 2. It is frozen here, and wakes when another owns the partition. The lease lasts longer than the
 *    broker waits for a member that is silent: the generation that it is pinned to has ended.
 * 3. It sends, and the broker refuses.
 */
import { whenAborted } from "../../core/aborting.js";
import { isStaleMember } from "./client.js";
import type { KafkaConsumer } from "./client.js";
import { explain } from "./explain.js";
import type { Asked } from "./explain.js";

/** An owner, as far as a commit needs to know. */
export interface Committer {
  readonly partition: number;
  readonly signal: AbortSignal;
  assertOwned(): void;
}

/** A client of one generation. */
interface Pinned {
  readonly client: KafkaConsumer;
  /** Commits under way: what is closed under them never answers. */
  commits: number;
  isOver: boolean;
}

/** What a promise answers, unless it takes too long: an error then. */
export type Within = <R>(answer: Promise<R>, during: string) => Promise<R>;

/** Commits of one member. */
export class Commits {
  readonly #create: () => KafkaConsumer;
  readonly #asked: Asked;
  readonly #within: Within;
  readonly #failed: (error: unknown) => void;
  #pinned: Pinned | undefined;
  readonly #waiting = new Set<() => void>();

  constructor(
    create: () => KafkaConsumer,
    asked: Omit<Asked, "during">,
    within: Within,
    failed: (error: unknown) => void,
  ) {
    this.#create = create;
    this.#asked = { ...asked, during: "commit an offset" };
    this.#within = within;
    this.#failed = failed;
  }

  /** A new generation has begun. */
  pin(memberId: string | null, generationId: number): void {
    this.close();
    const client = this.#create();
    client.memberId = memberId;
    client.generationId = generationId;
    this.#pinned = { client, commits: 0, isOver: false };
    for (const wake of [...this.#waiting]) wake();
  }

  /**
   * Commits that all before `offset` is dealt with.
   *
   * @throws LeaseLostError when the partition is not owned any more. UnavailableError,
   *   OutcomeUnknownError.
   */
  async commit(owner: Committer, offset: bigint): Promise<void> {
    for (;;) {
      const pinned = this.#pinned;
      owner.assertOwned();
      if (pinned !== undefined && (await this.#try(pinned, owner.partition, offset))) return;
      // In the middle of a rebalance, or after one that it has not heard of yet.
      await this.#next(pinned, owner.signal);
    }
  }

  /** Ends the present client, once it has done what is under way. */
  close(): void {
    const pinned = this.#pinned;
    this.#pinned = undefined;
    if (pinned === undefined) return;
    pinned.isOver = true;
    this.#closeIdle(pinned);
  }

  /** Whether it was committed; false when the broker knows a newer generation. */
  async #try(pinned: Pinned, partition: number, offset: bigint): Promise<boolean> {
    const { topic } = this.#asked;
    pinned.commits++;
    try {
      const offsets = [{ topic, partition, offset, leaderEpoch: -1 }];
      // A client whose connection broke may never answer.
      await this.#within(pinned.client.commit({ offsets }), this.#asked.during);
      return true;
    } catch (error) {
      if (isStaleMember(error)) return false;
      throw explain(error, this.#asked);
    } finally {
      pinned.commits--;
      this.#closeIdle(pinned);
    }
  }

  #closeIdle({ client, commits, isOver }: Pinned): void {
    if (isOver && commits === 0) client.close(true).catch(this.#failed);
  }

  /** Resolves once another client is pinned. @throws the signal's reason. */
  async #next(pinned: Pinned | undefined, signal: AbortSignal): Promise<void> {
    while (this.#pinned === pinned || this.#pinned === undefined) {
      signal.throwIfAborted();
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          this.#waiting.delete(wake);
          unlisten();
          resolve();
        };
        this.#waiting.add(wake);
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
