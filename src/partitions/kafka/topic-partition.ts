/** One partition of a topic: an ownership that reads and commits. */
import type { Lease } from "../../core/lease.js";
import type { OwnedPartition } from "../contract.js";
import { Ownership, type OwnershipParts } from "../ownership.js";
import type { Commits } from "./commits.js";
import type { KafkaMessage, Reading } from "./reading.js";

/** A partition of a topic in the hands of its owner. */
export interface KafkaPartition extends OwnedPartition {
  readonly topic: string;
  /**
   * The messages from the last committed offset on, as they come, until the partition is revoked or
   * lost. To be read by one reader at a time.
   *
   * @throws UnavailableError, OutcomeUnknownError when the broker has deleted what is next.
   */
  messages(): AsyncGenerator<KafkaMessage, void, undefined>;
  /**
   * Commits that this message and all before it are dealt with: what the next owner begins after.
   * Waits for the end of a rebalance.
   *
   * @throws LeaseLostError when the partition is not owned any more: nothing was committed.
   *   UnavailableError, OutcomeUnknownError when the broker did not answer.
   */
  commit(message: Pick<KafkaMessage, "offset">): Promise<void>;
}

/** The one implementation of {@link KafkaPartition}. */
export class OwnedTopicPartition extends Ownership implements KafkaPartition {
  readonly topic: string;
  readonly #parts: { readonly commits: Commits; readonly reading: Reading };

  constructor(
    partition: number,
    lease: Lease,
    parts: OwnershipParts,
    kafka: { readonly topic: string; readonly commits: Commits; readonly reading: Reading },
  ) {
    super(partition, lease, parts);
    this.topic = kafka.topic;
    this.#parts = kafka;
  }

  async *messages(): AsyncGenerator<KafkaMessage, void, undefined> {
    const { reading } = this.#parts;
    let next = await reading.start(this.partition, this.revoked);
    while (next !== undefined && !this.revoked.aborted) {
      const fetched = await reading.next(this.partition, next, this.revoked);
      for (const message of fetched?.messages ?? []) {
        if (this.revoked.aborted) return;
        yield message;
      }
      next = fetched?.next ?? next;
    }
  }

  commit({ offset }: Pick<KafkaMessage, "offset">): Promise<void> {
    return this.#parts.commits.commit(this, offset + 1n);
  }
}
