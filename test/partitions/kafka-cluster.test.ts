/** Partitions of a topic on three brokers, of which one fails; and a member without any. */
import { Producer } from "@platformatic/kafka";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { memory } from "../../src/backends/memory/open.js";
import { connect } from "../../src/connect.js";
import type { PartitionChange, PartitionGroup } from "../../src/partitions/contract.js";
import { kafkaPartitions } from "../../src/partitions/kafka/open.js";
import type { KafkaPartition } from "../../src/partitions/kafka/open.js";
import { until } from "../patterns/until.js";
import { describeOptional } from "../servers/find.js";
import { kafkaProgram, startKafkaCluster, type KafkaCluster } from "../servers/kafka.js";

const PATIENCE_MS = 60_000;
const SESSION_MS = 3_000;
const COUNT = 6;
/** A dead owner's partition is another's after two sessions and a moment, on a busy machine too. */
const UNOWNED_MS = 2 * SESSION_MS + 15_000;

interface Dealt {
  readonly partition: number;
  readonly offset: bigint;
  readonly token: bigint;
}

/** A group under watch: what its members are told is checked as it comes. */
class Watched {
  readonly topic: string;
  readonly groups: PartitionGroup<KafkaPartition>[] = [];
  /** Commits that were acknowledged, in order. */
  readonly committed: Dealt[] = [];
  readonly texts = new Set<string>();
  readonly wrong: string[] = [];
  /** When each partition was assigned the last time. */
  readonly assignedMs = new Map<number, number>();
  readonly #cluster: KafkaCluster;
  readonly #store = memory();
  readonly #owners = new Map<number, PartitionChange["partition"]>();
  #produced = 0;

  constructor(cluster: KafkaCluster, topic: string) {
    this.#cluster = cluster;
    this.topic = topic;
  }

  get groupId(): string {
    return `${this.topic}-group`;
  }

  async join(brokers: readonly string[]): Promise<PartitionGroup<KafkaPartition>> {
    const tenure = await connect(this.#store);
    const group = await kafkaPartitions(tenure, {
      brokers,
      groupId: this.groupId,
      topic: this.topic,
      sessionTimeout: SESSION_MS,
      onChange: (change) => this.#note(change),
    });
    onTestFinished(() => tenure.close());
    this.groups.push(group);
    const run = group.run((partition) => this.#work(partition));
    run.catch((error: unknown) => void this.wrong.push(`a member ended: ${String(error)}`));
    return group;
  }

  async #work(partition: KafkaPartition): Promise<void> {
    for await (const message of partition.messages()) {
      const { offset } = message;
      try {
        await partition.commit(message);
      } catch (error) {
        // What was taken away before it was committed is the next owner's to do.
        if (partition.state === "owned") throw error;
        return;
      }
      this.texts.add(message.value!.toString());
      this.committed.push({ partition: partition.partition, offset, token: partition.token });
    }
  }

  #note({ type, partition }: PartitionChange): void {
    if (type !== "assigned") return;
    this.assignedMs.set(partition.partition, performance.now());
    const former = this.#owners.get(partition.partition);
    this.#owners.set(partition.partition, partition);
    if (former === undefined) return;
    const number = `partition ${partition.partition}`;
    if (partition.token <= former.token) this.wrong.push(`${number} has an older token`);
    if (/owned|revoked/.test(former.state)) this.wrong.push(`${number} has two owners`);
  }

  /** Writes one message to each partition; resolves once the cluster has them all. */
  async produce(): Promise<void> {
    const round = ++this.#produced;
    for (let partition = 0; partition < COUNT; partition++) {
      const value = Buffer.from(`${partition}/${round}`);
      await until(async () => {
        const bootstrapBrokers = this.#cluster.brokers
          .filter(({ pid, isFrozen }) => pid !== undefined && !isFrozen)
          .map(({ url }) => url);
        const producer = new Producer({
          clientId: "test",
          bootstrapBrokers,
          retries: 0,
          requestTimeout: 2_000,
        });
        // One that is lost on the way is sent again; one that is there twice does no harm.
        const sent = await producer
          .send({ messages: [{ topic: this.topic, partition, value }], acks: -1 })
          .then(() => true, () => false);
        await producer.close();
        return sent;
      }, PATIENCE_MS);
    }
  }

  /** Resolves once everything that was produced is dealt with, and committed. */
  dealtWith(): Promise<true> {
    return until(() => this.texts.size === this.#produced * COUNT, PATIENCE_MS);
  }

  shared(groups = this.groups): Promise<true> {
    return until(() => {
      const shares = groups.map(({ owned }) => owned.length);
      const all = shares.reduce((sum, share) => sum + share, 0);
      return all === COUNT && Math.max(...shares) - Math.min(...shares) <= 1;
    }, PATIENCE_MS);
  }

  tokens(): Map<number, bigint> {
    return new Map([...this.#owners].map(([partition, { token }]) => [partition, token]));
  }

  /** Ends all members; nobody was wrong, and nobody but the present owner has committed. */
  async ended(): Promise<void> {
    await Promise.all(this.groups.map((group) => group.close()));
    expect(this.wrong).toEqual([]);
    const last = new Map<number, Dealt>();
    for (const one of this.committed) {
      const before = last.get(one.partition);
      last.set(one.partition, one);
      if (before === undefined) continue;
      expect(one.token >= before.token, `token of a commit of ${one.partition}`).toBe(true);
      const order = `${before.offset} by ${before.token}, then ${one.offset} by ${one.token}`;
      expect(one.offset > before.offset, `commits of ${one.partition}: ${order}`).toBe(true);
    }
    const [broker] = this.#cluster.brokers;
    const [told] = await broker!.admin((admin) =>
      admin.listConsumerGroupOffsets({ groups: [this.groupId] }),
    );
    const offsets = told!.topics.find(({ name }) => name === this.topic)!.partitions;
    for (const { partitionIndex, committedOffset } of offsets) {
      expect(committedOffset).toBe(last.get(partitionIndex)!.offset + 1n);
    }
    expect(offsets).toHaveLength(COUNT);
  }
}

describeOptional(kafkaProgram, "partitions of a topic on three brokers", () => {
  let cluster: KafkaCluster;
  let topics = 0;
  beforeAll(async () => {
    cluster = await startKafkaCluster();
  });
  afterAll(() => cluster.dispose());

  async function watched(members: number): Promise<Watched> {
    const topic = `orders-${++topics}`;
    await cluster.topic(topic, COUNT);
    const made = new Watched(cluster, topic);
    for (let i = 0; i < members; i++) await made.join(cluster.urls);
    await made.shared();
    await made.produce();
    await made.dealtWith();
    return made;
  }

  it("go on when the coordinator of their group is killed", async () => {
    const made = await watched(3);
    const coordinator = await cluster.coordinator(made.groupId);
    await coordinator.kill();
    await made.produce();
    await made.dealtWith();
    await made.shared();
    await coordinator.start();
    await cluster.whole();
    await cluster.inSync(made.topic);
    await made.produce();
    await made.dealtWith();
    await made.ended();
  });

  it("go on when it is frozen, and when it wakes", async () => {
    const made = await watched(3);
    const coordinator = await cluster.coordinator(made.groupId);
    await coordinator.freeze();
    await made.produce();
    await made.dealtWith();
    await coordinator.thaw();
    await cluster.whole();
    await cluster.inSync(made.topic);
    await made.produce();
    await made.dealtWith();
    await made.shared();
    await made.ended();
  });

  it("are others' when their owner is cut off from all brokers, and shared when it is back", async () => {
    const made = await watched(2);
    const others = [...made.groups];
    const lonely = await made.join(cluster.wayUrls);
    await made.shared();
    const mine = lonely.owned.map(({ partition }) => partition);
    const before = made.tokens();
    const cutMs = performance.now();
    for (const way of cluster.ways) way.silence();
    await made.produce();
    await made.dealtWith();
    await made.shared(others);
    expect(lonely.owned).toEqual([]);
    const after = made.tokens();
    expect(mine).toHaveLength(2);
    const ownerless = mine.map((partition) => made.assignedMs.get(partition)! - cutMs);
    console.log(`without an owner for ${Math.round(Math.max(...ownerless))} ms at most`);
    for (const ms of ownerless) expect(ms).toBeLessThan(UNOWNED_MS);
    for (const partition of mine) expect(after.get(partition)! > before.get(partition)!).toBe(true);
    await Promise.all(cluster.ways.map((way) => way.heal()));
    await made.shared();
    await made.produce();
    await made.dealtWith();
    await made.ended();
  });
});
