/**
 * Reading the owned partitions of a topic: one request at a time and broker, for all partitions
 * whose owners wait. Nothing is read ahead, so that a partition that is given up leaves nothing
 * behind that its next owner reads too.
 */
import { whenAborted } from "../../core/aborting.js";
import type { Runtime } from "../../core/runtime.js";
import { has } from "./client.js";
import type { FetchedPartition, KafkaConsumer, KafkaRecord } from "./client.js";
import type { Within } from "./commits.js";
import { explain } from "./explain.js";
import type { Asked } from "./explain.js";

/** Longest that the broker holds an answer back for want of messages: others may have come. */
const LONGEST_WAIT_MS = 250;
const MOST_BYTES = 1_048_576;
const PAUSE_MS = 250;
const EARLIEST = -2n;
/** Bit of a batch that says that it marks the end of a transaction. */
const IS_CONTROL = 0b10_0000;

/** A message of a partition. Keys, values and headers are bytes, as they were written. */
export interface KafkaMessage {
  readonly topic: string;
  readonly partition: number;
  readonly offset: bigint;
  /** Milliseconds since 1970, as its producer or the broker set it. */
  readonly timestamp: bigint;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers: KafkaRecord["headers"];
}

/** What was read at once. */
interface Fetched {
  readonly messages: readonly KafkaMessage[];
  /** Where to go on. */
  readonly next: bigint;
}

interface Wanted {
  readonly offset: bigint;
  readonly resolve: (fetched: Fetched | undefined) => void;
  readonly reject: (error: unknown) => void;
}

/** Reads for all owners of one member. */
export class Reading {
  readonly #consumer: KafkaConsumer;
  readonly #runtime: Runtime;
  readonly #asked: Asked;
  readonly #within: Within;
  readonly #failed: (error: unknown) => void;
  readonly #wanted = new Map<number, Wanted>();
  #isFetching = false;
  #isClosed = false;

  constructor(
    consumer: KafkaConsumer,
    runtime: Runtime,
    asked: Omit<Asked, "during">,
    within: Within,
    failed: (error: unknown) => void,
  ) {
    this.#consumer = consumer;
    this.#runtime = runtime;
    this.#within = within;
    this.#asked = { ...asked, during: "read" };
    this.#failed = failed;
  }

  /**
   * Where to begin: what was committed, else the earliest that the broker has. Asks again until it
   * is answered; undefined once `signal` aborts.
   */
  async start(partition: number, signal: AbortSignal): Promise<bigint | undefined> {
    let unlisten = (): void => undefined;
    const over = new Promise<undefined>((resolve) => {
      unlisten = whenAborted(signal, () => resolve(undefined));
    });
    try {
      while (!signal.aborted) {
        try {
          return await Promise.race([this.#within(this.#start(partition), "read"), over]);
        } catch (error) {
          this.#failed(explain(error, this.#asked));
          await Promise.race([this.#pause(), over]);
        }
      }
      return undefined;
    } finally {
      unlisten();
    }
  }

  async #start(partition: number): Promise<bigint> {
    const { topic } = this.#asked;
    const topics = [{ topic, partitions: [partition] }];
    const committed = await this.#consumer.listCommittedOffsets({ topics });
    const offset = committed.get(topic)?.[partition];
    if (offset !== undefined && offset >= 0n) return offset;
    const partitions = { [topic]: [partition] };
    const asked = { topics: [topic], partitions, timestamp: EARLIEST };
    return (await this.#consumer.listOffsets(asked)).get(topic)?.[partition] ?? 0n;
  }

  /**
   * The next messages from `offset` on; undefined once `signal` aborts.
   *
   * @throws UnavailableError when the broker has deleted what is at that offset.
   */
  async next(partition: number, offset: bigint, signal: AbortSignal): Promise<Fetched | undefined> {
    let unlisten = (): void => undefined;
    let wanted: Wanted | undefined;
    try {
      return await new Promise<Fetched | undefined>((resolve, reject) => {
        wanted = { offset, resolve, reject };
        this.#wanted.set(partition, wanted);
        unlisten = whenAborted(signal, () => resolve(undefined));
        void this.#fetchAll();
      });
    } finally {
      unlisten();
      if (this.#wanted.get(partition) === wanted) this.#wanted.delete(partition);
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const { resolve } of this.#wanted.values()) resolve(undefined);
    await this.#consumer.close(true);
  }

  /** Fetches for as long as somebody waits. Never rejects. */
  async #fetchAll(): Promise<void> {
    if (this.#isFetching) return;
    this.#isFetching = true;
    // All who begin to wait in this turn go along.
    await Promise.resolve();
    while (this.#wanted.size > 0 && !this.#isClosed) {
      try {
        await this.#fetchOnce();
      } catch (error) {
        if (this.#isClosed) break;
        this.#consumer.clearMetadata();
        this.#failed(explain(error, this.#asked));
        await this.#pause();
      }
    }
    this.#isFetching = false;
  }

  #pause(): Promise<void> {
    return new Promise((over) => void this.#runtime.timers.after(PAUSE_MS, over));
  }

  async #fetchOnce(): Promise<void> {
    const { topic } = this.#asked;
    const { topics } = await this.#consumer.metadata({ topics: [topic] });
    const { id, partitions } = topics.get(topic)!;
    const byLeader = new Map<number, [partition: number, wanted: Wanted][]>();
    for (const entry of this.#wanted) {
      const leader = partitions[entry[0]]?.leader ?? -1;
      byLeader.set(leader, [...(byLeader.get(leader) ?? []), entry]);
    }
    const fetches = [...byLeader].map(([node, wanted]) => this.#fetch(node, id, wanted));
    const outcomes = await this.#within(Promise.allSettled(fetches), "read");
    for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
  }

  async #fetch(node: number, topicId: string, wanted: [number, Wanted][]): Promise<void> {
    const partitions = wanted.map(([partition, { offset }]) => ({
      partition,
      fetchOffset: offset,
      partitionMaxBytes: MOST_BYTES,
      currentLeaderEpoch: -1,
      lastFetchedEpoch: -1,
    }));
    try {
      const topics = [{ topicId, partitions }];
      const asked = { node, maxWaitTime: LONGEST_WAIT_MS, topics };
      const { responses } = await this.#consumer.fetch(asked);
      const asking = new Map(wanted);
      for (const one of responses.flatMap((response) => response.partitions)) {
        this.#hand(one, asking.get(one.partitionIndex));
      }
    } catch (error) {
      if (!has(error, "apiId", "OFFSET_OUT_OF_RANGE")) throw error;
      for (const [, { reject }] of wanted) reject(explain(error, this.#asked));
    }
  }

  #hand({ partitionIndex: partition, records = [] }: FetchedPartition, wanted?: Wanted): void {
    const last = records.at(-1);
    // Its owner may have given up meanwhile, and another wait for something else.
    if (wanted !== this.#wanted.get(partition) || wanted === undefined) return;
    if (last === undefined) return;
    const messages = records
      .filter(({ attributes }) => (attributes & IS_CONTROL) === 0)
      .flatMap((batch) =>
        batch.records.map((record): KafkaMessage => {
          const { key, value, headers } = record;
          const offset = batch.firstOffset + BigInt(record.offsetDelta);
          const timestamp = batch.firstTimestamp + record.timestampDelta;
          return { topic: this.#asked.topic, partition, offset, timestamp, key, value, headers };
        }),
      )
      // A batch is sent whole, whatever offset was asked for.
      .filter(({ offset }) => offset >= wanted.offset);
    this.#wanted.delete(partition);
    wanted.resolve({ messages, next: last.firstOffset + BigInt(last.lastOffsetDelta) + 1n });
  }
}
