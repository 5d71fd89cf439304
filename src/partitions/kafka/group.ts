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
import type { Joined, KafkaConsumer, KafkaLibrary } from "./client.js";
import { Commits } from "./commits.js";
import { AGAIN_MS } from "./lent.js";
import { kafkaTerms } from "./options.js";
import type { KafkaPartitionsOptions, KafkaTerms } from "./options.js";
import { Reading } from "./reading.js";
import { Seat } from "./seat.js";
import { OwnedTopicPartition, type KafkaPartition } from "./topic-partition.js";

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
  readonly #seat: Seat;
  readonly #reading: Reading;
  readonly #commits: Commits;
  readonly #holdings: Holdings<OwnedTopicPartition>;
  readonly #over = new AbortController();
  readonly #coming = new Map<number, AbortController>();
  #membership: Membership | undefined;
  #assigned: ReadonlySet<number> = new Set();
  /** Clients made so far. */
  #clients = 0;
  #closing: Promise<void> | undefined;
  #unlisten: () => void = () => undefined;

  constructor(tenure: Tenure<FencingToken>, library: KafkaLibrary, terms: KafkaTerms) {
    const { topic, groupId } = terms;
    this.name = checkGroupName(`kafka/${groupId}/${topic}`);
    this.member = tenure.runtime.random.id();
    this.#tenure = tenure;
    this.#terms = terms;
    this.#library = library;
    const { timers } = tenure.runtime;
    const parts = {
      create: () => this.#client(),
      asked: terms,
      timers,
      within: <R>(answer: Promise<R>, during: string) => this.#within(answer, during),
      failed: (error: unknown) => this.#holdings.tell(error),
    };
    this.#reading = new Reading(parts);
    this.#commits = new Commits(parts);
    this.#seat = new Seat({
      ...parts,
      sessionMs: terms.sessionMs,
      joined: (joined) => this.#joined(joined),
      silent: () => this.#assign([], "is given up: Kafka did not answer for a session"),
    });
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
    return this.#seat.count;
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
    const { lease, info } = this.#terms;
    try {
      await this.#seat.join();
    } catch (error) {
      await this.close();
      throw error;
    }
    this.#membership = new Membership({
      tenure: this.#tenure,
      group: this.name,
      member: this.member,
      terms: { lease, info, count: this.count },
      onLost: () => void this.#show(),
    });
    this.#unlisten = whenAborted(this.#tenure.closing, () => void this.close());
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
    this.#reading.close();
    await this.#seat.leave();
    this.#membership?.end();
    this.#unlisten();
  }

  /** A client that begins at another broker than the one before, and tries nothing again. */
  #client(): KafkaConsumer {
    const { client, brokers, groupId, sessionMs } = this.#terms;
    const first = this.#clients++ % brokers.length;
    const consumer = new this.#library.Consumer({
      ...client,
      bootstrapBrokers: [...brokers.slice(first), ...brokers.slice(0, first)],
      groupId,
      autocommit: false,
      // What is under way when a connection breaks without a word is not waited for much longer
      // than the broker waits for a member. Joining may take one session by itself.
      requestTimeout: 2 * sessionMs,
      // Who asked tries again: by a fresh client, as long as it is of use.
      retries: 0,
    });
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

  #joined({ memberId, generationId, assignments }: Joined): void {
    // Also while it leaves: its owners commit what they finish.
    this.#commits.pin(memberId, generationId);
    if (this.#closing !== undefined) return;
    const mine = assignments.find(({ topic }) => topic === this.#terms.topic);
    this.#assign(mine?.partitions ?? [], "is to be another member's");
  }

  #assign(partitions: readonly number[], why: string): void {
    this.#assigned = new Set(partitions);
    for (const [partition, giveUp] of this.#coming) {
      if (!this.#assigned.has(partition)) giveUp.abort();
    }
    for (const owned of this.#holdings.held) {
      if (!this.#assigned.has(owned.partition)) owned.revoke(why);
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
    const facts: PartitionInfo = { ...info, member: this.member, of: this.count };
    try {
      const name = partitionName(this.name, partition);
      const lease = await this.#tenure.acquire(name, { ...asked, holderInfo: facts, signal });
      if (signal.aborted) await lease.release();
      else this.#holdings.add(partition, lease);
    } catch (error) {
      if (!signal.aborted && this.#closing === undefined) {
        this.#holdings.tell(error);
        await this.#pause();
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
      if (this.#closing !== undefined) return;
      this.#holdings.tell(error);
      // Nobody waits for that: it works all the same.
      void this.#pause().then(() => this.#show());
    }
  }

  #pause(): Promise<void> {
    return new Promise((over) => void this.#tenure.runtime.timers.after(AGAIN_MS, over));
  }
}
