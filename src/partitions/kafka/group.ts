/**
 * The partitions of a topic, assigned by a Kafka consumer group and owned by leases.
 *
 * The broker says who is to have a partition; a lease of that partition says who has it. A member
 * that is assigned one waits for its lease, and so until the former owner has finished and given it
 * up, or is past its deadline. The lease brings the token: the broker's generation begins anew when
 * the metadata of an empty group is lost, and a token that goes back is none.
 */
import { whenAborted } from "../../core/aborting.js";
import type { Timer } from "../../core/clock.js";
import { OutcomeUnknownError } from "../../core/errors.js";
import type { Tenure } from "../../core/tenure.js";
import type { FencingToken } from "../../core/token.js";
import type { PartitionGroup, PartitionsView, PartitionWork } from "../contract.js";
import { Holdings } from "../holdings.js";
import { partitionOf } from "../key-hash.js";
import { partitionName } from "../lease-names.js";
import { Membership } from "../membership.js";
import { checkGroupName, checkTenure } from "../options.js";
import { readView } from "../roster.js";
import type { PartitionInfo } from "../roster.js";
import { closedError, runWork } from "../run-work.js";
import { assigner } from "./assigner.js";
import type { Assignment, Joined, KafkaConsumer, KafkaLibrary } from "./client.js";
import { Commits, type Within } from "./commits.js";
import { explain } from "./explain.js";
import { kafkaTerms } from "./options.js";
import type { KafkaPartitionsOptions, KafkaTerms } from "./options.js";
import { Reading } from "./reading.js";
import { OwnedTopicPartition, type KafkaPartition } from "./topic-partition.js";

const AGAIN_MS = 500;

/** The group, with the library that is used. */
export async function kafkaGroup(
  tenure: Tenure<FencingToken>,
  library: KafkaLibrary,
  options: KafkaPartitionsOptions,
): Promise<PartitionGroup<KafkaPartition>> {
  checkTenure(tenure);
  const group = new KafkaGroup(tenure, library, kafkaTerms(options, tenure.manifest));
  await group.join();
  return group;
}

class KafkaGroup implements PartitionGroup<KafkaPartition> {
  readonly name: string;
  readonly member: string;
  readonly #tenure: Tenure<FencingToken>;
  readonly #terms: KafkaTerms;
  readonly #library: KafkaLibrary;
  readonly #consumer: KafkaConsumer;
  readonly #reading: Reading;
  readonly #commits: Commits;
  readonly #holdings: Holdings<OwnedTopicPartition>;
  readonly #over = new AbortController();
  readonly #coming = new Map<number, AbortController>();
  #membership: Membership | undefined;
  #assigned: ReadonlySet<number> = new Set();
  #count = 0;
  #isJoining = false;
  #closing: Promise<void> | undefined;

  constructor(tenure: Tenure<FencingToken>, library: KafkaLibrary, terms: KafkaTerms) {
    const { topic, groupId } = terms;
    this.name = checkGroupName(`kafka/${groupId}/${topic}`);
    this.member = tenure.runtime.random.id();
    this.#tenure = tenure;
    this.#terms = terms;
    this.#library = library;
    this.#consumer = this.#client();
    const failed = (error: unknown): void => this.#holdings.tell(error);
    const within: Within = (answer, during) => this.#within(answer, during);
    this.#reading = new Reading(this.#client(), tenure.runtime, terms, within, failed);
    // Without retries: a commit that is refused is not to be sent again under another generation.
    this.#commits = new Commits(() => this.#client({ retries: 0 }), terms, within, failed);
    const kafka = { topic, commits: this.#commits, reading: this.#reading };
    this.#holdings = new Holdings({
      runtime: tenure.runtime,
      backend: tenure.manifest.backend,
      terms,
      create: (partition, lease, parts) => new OwnedTopicPartition(partition, lease, parts, kafka),
      onGone: () => this.#comeAll(),
      onFailed: (error) => void this.#end(error),
    });
  }

  get count(): number {
    return this.#count;
  }

  get owned(): readonly KafkaPartition[] {
    return this.#holdings.owned;
  }

  get signal(): AbortSignal {
    return this.#over.signal;
  }

  partitionFor(key: string | Uint8Array): number {
    return partitionOf(key, this.count);
  }

  run(
    work: PartitionWork<KafkaPartition>,
    options: { readonly signal?: AbortSignal } = {},
  ): Promise<void> {
    return runWork(this, this.#holdings, work, options);
  }

  view(): Promise<PartitionsView> {
    return readView(this.#tenure, this.name);
  }

  /** @throws UnavailableError without a broker, or without the topic. */
  async join(): Promise<void> {
    const { topic, sessionMs, lease, info } = this.#terms;
    try {
      const { topics } = await this.#consumer.metadata({ topics: [topic] });
      this.#count = topics.get(topic)!.partitionsCount;
      this.#consumer.topics.track(topic);
      this.#listen();
      await this.#consumer.joinGroup(this.#asked(sessionMs));
    } catch (error) {
      await this.close();
      throw explain(error, { ...this.#terms, during: "join the group" });
    }
    this.#membership = new Membership({
      tenure: this.#tenure,
      group: this.name,
      member: this.member,
      terms: { lease, info, count: this.#count },
      onLost: () => void this.#show(),
    });
    whenAborted(this.#tenure.closing, () => void this.close());
    await this.#show();
  }

  close(): Promise<void> {
    return this.#end(closedError(this.name, "kafka"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #end(reason: unknown): Promise<void> {
    if (this.#closing === undefined) {
      this.#closing = this.#leave();
      this.#over.abort(reason);
    }
    return this.#closing;
  }

  async #leave(): Promise<void> {
    await Promise.resolve();
    for (const giveUp of this.#coming.values()) giveUp.abort();
    // Its owners commit what they finish: so they are members until the end.
    await this.#holdings.drained("is given up: its member leaves the group");
    await this.#membership?.leave().catch((error: unknown) => this.#holdings.tell(error));
    this.#commits.close();
    const closed = await Promise.allSettled([this.#consumer.close(true), this.#reading.close()]);
    for (const one of closed) if (one.status === "rejected") this.#holdings.tell(one.reason);
    this.#membership?.end();
  }

  #client(more: { readonly retries?: number } = {}): KafkaConsumer {
    const { client, groupId, sessionMs } = this.#terms;
    // What is under way when a connection breaks without a word is not waited for much longer than
    // the broker waits for a member. Joining may take one session by itself.
    const requestTimeout = 2 * sessionMs;
    const own = { groupId, autocommit: false, requestTimeout };
    const consumer = new this.#library.Consumer({ ...client, ...more, ...own });
    consumer.on("error", (error) => this.#holdings.tell(error));
    return consumer;
  }

  /** A little longer than what the library itself bounds, which is not everything. */
  async #within<R>(answer: Promise<R>, during: string): Promise<R> {
    const limitMs = 3 * this.#terms.sessionMs;
    let timer: Timer | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = this.#tenure.runtime.timers.after(limitMs, () => {
        const text = `Kafka did not answer within ${limitMs} ms (${during})`;
        reject(new OutcomeUnknownError(text, { backend: "kafka" }));
      });
    });
    try {
      return await Promise.race([answer, late]);
    } finally {
      timer?.cancel();
    }
  }

  #asked(sessionMs: number): object {
    return {
      sessionTimeout: sessionMs,
      // Nobody has to finish before it joins again: that is what the leases wait for.
      rebalanceTimeout: sessionMs,
      heartbeatInterval: Math.ceil(sessionMs / 4),
      protocols: [{ name: "roundrobin", version: 1 }],
      partitionAssigner: assigner,
    };
  }

  #listen(): void {
    this.#consumer.on("consumer:group:join", (joined) => {
      if (this.#closing !== undefined) return;
      const { memberId, generationId, assignments } = joined as Joined;
      this.#commits.pin(memberId, generationId);
      this.#assign(assignments);
    });
    // The library beats no more after an answer that did not come.
    this.#consumer.on("consumer:heartbeat:error", (failed) => {
      void this.#joinAgain((failed as { readonly error: unknown }).error);
    });
    this.#consumer.on("error", (error) => void this.#joinAgain(error));
  }

  async #joinAgain(error: unknown): Promise<void> {
    this.#holdings.tell(explain(error, { ...this.#terms, during: "stay in the group" }));
    if (this.#isJoining) return;
    this.#isJoining = true;
    const { timers } = this.#tenure.runtime;
    while (this.#closing === undefined) {
      try {
        await this.#consumer.joinGroup(this.#asked(this.#terms.sessionMs));
        break;
      } catch (failure) {
        this.#holdings.tell(explain(failure, { ...this.#terms, during: "join the group again" }));
        await new Promise<void>((over) => void timers.after(AGAIN_MS, over));
      }
    }
    this.#isJoining = false;
  }

  #assign(assignments: readonly Assignment[]): void {
    const mine = assignments.find(({ topic }) => topic === this.#terms.topic);
    this.#assigned = new Set(mine?.partitions ?? []);
    for (const [partition, giveUp] of this.#coming) {
      if (!this.#assigned.has(partition)) giveUp.abort();
    }
    for (const owned of this.#holdings.held) {
      if (!this.#assigned.has(owned.partition)) owned.revoke("is to be another member's");
    }
    this.#comeAll();
  }

  /** Waits for the lease of everything that is assigned and not held. */
  #comeAll(): void {
    if (this.#closing !== undefined) return;
    for (const partition of this.#assigned) {
      const isHeld = this.#holdings.get(partition) !== undefined;
      if (!isHeld && !this.#coming.has(partition)) void this.#come(partition);
    }
  }

  async #come(partition: number): Promise<void> {
    const { lease: asked, info } = this.#terms;
    const giveUp = new AbortController();
    const { signal } = giveUp;
    this.#coming.set(partition, giveUp);
    const facts: PartitionInfo = { ...info, member: this.member, of: this.#count };
    try {
      const name = partitionName(this.name, partition);
      const lease = await this.#tenure.acquire(name, { ...asked, holderInfo: facts, signal });
      if (signal.aborted) await lease.release();
      else this.#holdings.add(partition, lease);
    } catch (error) {
      if (!signal.aborted && this.#closing === undefined) {
        this.#holdings.tell(error);
        await new Promise<void>((over) => void this.#tenure.runtime.timers.after(AGAIN_MS, over));
      }
    }
    this.#coming.delete(partition);
    this.#comeAll();
  }

  /** Shows this member to those who look, until the end. Never rejects. */
  async #show(): Promise<void> {
    if (this.#closing !== undefined) return;
    try {
      await this.#membership?.live(this.#terms.lease);
    } catch (error) {
      if (this.#closing === undefined) this.#holdings.tell(error);
    }
  }
}
