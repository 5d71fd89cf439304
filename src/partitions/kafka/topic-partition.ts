/** One partition of a topic: an ownership that reads and commits. */
import type { Lease } from "../../core/lease.js";
import { ArgumentRangeError, ArgumentTypeError } from "../../core/errors.js";
import type { OwnedPartition } from "../contract.js";
import { checkGiven } from "../options.js";
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
   * While no broker answers it is sent again, as long as the partition is owned; `onError` is told.
   *
   * @throws LeaseLostError when the partition is not owned any more, PartitionRevokedError when it
   *   was not committed within `drain`. UnavailableError when the broker refuses it. TypeError or
   *   RangeError for what is no message of this partition.
   */
  commit(message: Pick<KafkaMessage, "offset"> & Partial<KafkaMessage>): Promise<void>;
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

  protected override facts(): object {
    return { topic: this.topic, ...super.facts() };
  }

  async *messages(): AsyncGenerator<KafkaMessage, void, undefined> {
    const { reading } = this.#parts;
    let next = await this.#begin();
    while (next !== undefined && !this.revoked.aborted) {
      const fetched = await reading.next(this.partition, next, this.revoked);
      for (const message of fetched?.messages ?? []) {
        if (this.revoked.aborted) return;
        yield message;
      }
      next = fetched?.next ?? next;
    }
  }

  /** What was committed, else the earliest there is; undefined once it is revoked. */
  async #begin(): Promise<bigint | undefined> {
    const { commits, reading } = this.#parts;
    try {
      const committed = await commits.begin(this, this.revoked);
      return committed ?? (await reading.earliest(this.partition, this.revoked));
    } catch (error) {
      if (this.revoked.aborted) return undefined;
      throw error;
    }
  }

  async commit(message: Pick<KafkaMessage, "offset"> & Partial<KafkaMessage>): Promise<void> {
    checkGiven(message, "a message, or an object with its offset", "message");
    const { offset, partition = this.partition } = message;
    if (typeof offset !== "bigint") {
      throw new ArgumentTypeError("message.offset", offset, "a bigint");
    }
    if (offset < 0n) throw new ArgumentRangeError("message.offset", offset, "0n or more");
    if (partition !== this.partition) {
      const must = `${this.partition}, that of the partition which commits it`;
      throw new ArgumentRangeError("message.partition", partition, must);
    }
    await this.#parts.commits.commit(this, offset + 1n);
  }
}
