/** The part of `@platformatic/kafka` that is used, by structure. */

/** A record as the broker keeps it. */
export interface KafkaRecord {
  readonly offsetDelta: number;
  readonly timestampDelta: bigint;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers: readonly (readonly [Buffer | null, Buffer | null])[];
}

/** Records that were written together. */
interface RecordsBatch {
  readonly firstOffset: bigint;
  readonly firstTimestamp: bigint;
  readonly lastOffsetDelta: number;
  readonly attributes: number;
  readonly records: readonly KafkaRecord[];
}

/** What a fetch answers for one partition. */
export interface FetchedPartition {
  readonly partitionIndex: number;
  /** As the protocol numbers them; 0 for none. */
  readonly errorCode?: number;
  readonly records?: readonly RecordsBatch[];
}

/** What a fetch answers. */
export interface FetchAnswer {
  readonly responses: readonly {
    readonly topicId: string;
    readonly partitions: readonly FetchedPartition[];
  }[];
}

/** What is known of a topic. */
interface TopicMetadata {
  readonly id: string;
  readonly partitionsCount: number;
  readonly partitions: readonly { readonly leader: number }[];
}

/** The partitions of one topic that a member is to have. */
export interface Assignment {
  topic: string;
  partitions: number[];
}

/** All before `offset` is dealt with. */
export interface CommittedOffset {
  topic: string;
  partition: number;
  offset: bigint;
  leaderEpoch: number;
}

/** What is told when a member has joined a generation. */
export interface Joined {
  readonly memberId: string | null;
  readonly generationId: number;
  readonly assignments: readonly Assignment[];
}

/** A consumer of the library. */
export interface KafkaConsumer {
  memberId: string | null;
  generationId: number;
  readonly assignments: Assignment[] | null;
  readonly topics: { track(topic: string): boolean };
  on(event: string, listener: (payload: unknown) => void): unknown;
  joinGroup(options: object): Promise<string>;
  close(force?: boolean): Promise<void>;
  commit(options: { offsets: CommittedOffset[] }): Promise<void>;
  fetch(options: {
    node: number;
    maxWaitTime: number;
    topics: {
      topicId: string;
      partitions: {
        partition: number;
        fetchOffset: bigint;
        partitionMaxBytes: number;
        currentLeaderEpoch: number;
        lastFetchedEpoch: number;
      }[];
    }[];
  }): Promise<FetchAnswer>;
  metadata(options: {
    topics: string[];
  }): Promise<{ readonly topics: ReadonlyMap<string, TopicMetadata> }>;
  listOffsets(options: {
    topics: string[];
    partitions: Record<string, number[]>;
    timestamp: bigint;
  }): Promise<ReadonlyMap<string, readonly bigint[]>>;
  listCommittedOffsets(options: {
    topics: Assignment[];
  }): Promise<ReadonlyMap<string, readonly bigint[]>>;
}

/** What the library exports. */
export interface KafkaLibrary {
  readonly Consumer: new (options: {
    clientId: string;
    bootstrapBrokers: string[];
    groupId: string;
    autocommit: boolean;
    requestTimeout: number;
    retries?: number;
  }) => KafkaConsumer;
}

/** An error of the library, perhaps of several errors. */
interface KafkaError extends Error {
  findBy?(property: string, value: unknown): KafkaError | null | undefined;
  readonly canRetry?: boolean;
  /** Name of what the broker refused with. */
  readonly apiId?: string;
}

/** Whether the broker refused a member for what it is no more, or not yet again. */
export function isStaleMember(error: unknown): boolean {
  return find(error, "needsRejoin", true) !== undefined;
}

/** Kinds of errors that no broker will answer otherwise the next time. */
const FINAL = ["PLT_KFK_USER", "PLT_KFK_AUTHENTICATION", "PLT_KFK_UNSUPPORTED_API"];

/** Whether another try, or another broker, would answer the same. */
export function isFinal(error: unknown): boolean {
  return refusal(error)?.canRetry === false || FINAL.some((code) => has(error, "code", code));
}

/** What the broker said, where it is one that refused. */
export function refusal(error: unknown): KafkaError | undefined {
  return find(error, "code", "PLT_KFK_PROTOCOL");
}

/** What a broker answered that refused a part of the request. */
export function partialAnswer(error: unknown): FetchAnswer | undefined {
  const found = find(error, "code", "PLT_KFK_RESPONSE") as { readonly response?: FetchAnswer };
  return found?.response;
}

/** Whether an error, or one within it, has this property. */
export function has(error: unknown, property: string, value: unknown): boolean {
  return find(error, property, value) !== undefined;
}

function find(error: unknown, property: string, value: unknown): KafkaError | undefined {
  return (error as KafkaError | undefined)?.findBy?.(property, value) ?? undefined;
}
