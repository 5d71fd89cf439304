/**
 * Reading the owned partitions of a topic: one request at a time and broker, for all partitions
 * whose owners wait. Nothing is read ahead, so that a partition that is given up leaves nothing
 * behind that its next owner reads too. A broker that does not answer keeps nobody waiting for the
 * others.
 */
import { whenAborted } from "../../core/aborting.js";
import { partialAnswer } from "./client.js";
import type { FetchAnswer, FetchedPartition, KafkaConsumer, KafkaRecord } from "./client.js";
import { explain } from "./explain.js";
import type { Asked } from "./explain.js";
import { Lent, type RequestParts } from "./lent.js";

/** Longest that the broker holds an answer back for want of messages: others may have come. */
const LONGEST_WAIT_MS = 250;
const MOST_BYTES = 1_048_576;
const PAUSE_MS = 250;
const EARLIEST = -2n;
/** Bit of a batch that says that it marks the end of a transaction. */
const IS_CONTROL = 0b10_0000;
const OFFSET_OUT_OF_RANGE = 1;

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

/** Partitions that are wanted of one broker. */
type Wants = [partition: number, wanted: Wanted][];

/** Reads for all owners of one member. */
export class Reading {
  readonly #parts: RequestParts;
  readonly #asked: Asked;
  readonly #wanted = new Map<number, Wanted>();
  /** Brokers that are being asked. */
  readonly #asking = new Set<number>();
  #lent: Lent;
  #isDealing = false;
  #isClosed = false;

  constructor(parts: RequestParts) {
    this.#parts = parts;
    this.#asked = { ...parts.asked, during: "read" };
    this.#lent = new Lent(parts.create(), parts.failed);
  }

  /** The earliest offset that the broker has. Asks again until answered; undefined once aborted. */
  async earliest(partition: number, signal: AbortSignal): Promise<bigint | undefined> {
    let unlisten = (): void => undefined;
    const over = new Promise<undefined>((resolve) => {
      unlisten = whenAborted(signal, () => resolve(undefined));
    });
    try {
      while (!signal.aborted) {
        const lent = this.#lent;
        try {
          const starting = lent.use((client) =>
            this.#parts.within(this.#earliest(client, partition), "read"),
          );
          return await Promise.race([starting, over]);
        } catch (error) {
          this.#replace(lent, error);
          await Promise.race([this.#pause(), over]);
        }
      }
      return undefined;
    } finally {
      unlisten();
    }
  }

  async #earliest(client: KafkaConsumer, partition: number): Promise<bigint> {
    const { topic } = this.#asked;
    const partitions = { [topic]: [partition] };
    const asked = { topics: [topic], partitions, timestamp: EARLIEST };
    return (await client.listOffsets(asked)).get(topic)?.[partition] ?? 0n;
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
        void this.#deal();
      });
    } finally {
      unlisten();
      if (this.#wanted.get(partition) === wanted) this.#wanted.delete(partition);
    }
  }

  close(): void {
    this.#isClosed = true;
    for (const { resolve } of this.#wanted.values()) resolve(undefined);
    this.#lent.end();
  }

  /** Asks each broker that is not being asked for what is wanted of it. Never rejects. */
  async #deal(): Promise<void> {
    if (this.#isDealing) return;
    this.#isDealing = true;
    // All who begin to wait in this turn go along.
    await Promise.resolve();
    while (this.#wanted.size > 0 && !this.#isClosed) {
      const lent = this.#lent;
      try {
        await this.#dealOnce(lent);
        break;
      } catch (error) {
        this.#replace(lent, error);
        await this.#pause();
      }
    }
    this.#isDealing = false;
  }

  async #dealOnce(lent: Lent): Promise<void> {
    const { topic } = this.#asked;
    const { topics } = await lent.use((client) =>
      this.#parts.within(client.metadata({ topics: [topic] }), "read"),
    );
    const { id, partitions } = topics.get(topic)!;
    const byLeader = new Map<number, Wants>();
    for (const entry of this.#wanted) {
      const leader = partitions[entry[0]]?.leader ?? -1;
      byLeader.set(leader, [...(byLeader.get(leader) ?? []), entry]);
    }
    for (const [node, wants] of byLeader) {
      if (!this.#asking.has(node)) void this.#ask(lent, node, id, wants);
    }
  }

  /** Asks one broker once, and deals again. Never rejects. */
  async #ask(lent: Lent, node: number, topicId: string, wants: Wants): Promise<void> {
    this.#asking.add(node);
    try {
      this.#handAll(await this.#fetch(lent, node, topicId, wants), new Map(wants));
    } catch (error) {
      if (!this.#refuse(error, wants) && !this.#isClosed) {
        this.#replace(lent, error);
        await this.#pause();
      }
    }
    this.#asking.delete(node);
    void this.#deal();
  }

  #fetch(lent: Lent, node: number, topicId: string, wants: Wants): Promise<FetchAnswer> {
    const partitions = wants.map(([partition, { offset }]) => ({
      partition,
      fetchOffset: offset,
      partitionMaxBytes: MOST_BYTES,
      currentLeaderEpoch: -1,
      lastFetchedEpoch: -1,
    }));
    const asked = { node, maxWaitTime: LONGEST_WAIT_MS, topics: [{ topicId, partitions }] };
    return lent.use((client) => this.#parts.within(client.fetch(asked), "read"));
  }

  /** Tells those whose offset is gone; whether there were any. Another try serves the others. */
  #refuse(error: unknown, wants: Wants): boolean {
    const { responses = [] } = partialAnswer(error) ?? {};
    const gone = responses
      .flatMap(({ partitions }) => partitions)
      .filter(({ errorCode }) => errorCode === OFFSET_OUT_OF_RANGE)
      .map(({ partitionIndex }) => partitionIndex);
    for (const [partition, { reject }] of wants) {
      if (gone.includes(partition)) reject(explain(error, this.#asked));
    }
    return gone.length > 0;
  }

  /** A fresh client asks other brokers, and knows no more what has changed. */
  #replace(failed: Lent, error: unknown): void {
    if (this.#isClosed) return;
    this.#parts.failed(explain(error, this.#asked));
    failed.end();
    if (this.#lent === failed) this.#lent = new Lent(this.#parts.create(), this.#parts.failed);
  }

  #pause(): Promise<void> {
    return new Promise((over) => void this.#parts.timers.after(PAUSE_MS, over));
  }

  #handAll({ responses }: FetchAnswer, wanted: ReadonlyMap<number, Wanted>): void {
    for (const one of responses.flatMap(({ partitions }) => partitions)) {
      this.#hand(one, wanted.get(one.partitionIndex));
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
