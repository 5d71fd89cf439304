/** Partitions of a topic on a real broker. */
import { compatibilityPartitioner, Consumer, Producer } from "@platformatic/kafka";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { connect } from "../../src/connect.js";
import type { PartitionGroup } from "../../src/partitions/contract.js";
import { has } from "../../src/partitions/kafka/client.js";
import { Commits } from "../../src/partitions/kafka/commits.js";
import type { Within } from "../../src/partitions/kafka/lent.js";
import { kafkaPartitions } from "../../src/partitions/kafka/open.js";
import type { KafkaPartition, KafkaPartitionsOptions } from "../../src/partitions/kafka/open.js";
import { platform } from "../../src/platform/index.js";
import { memory } from "../../src/backends/memory/open.js";
import { describeOptional } from "../servers/find.js";
import { kafkaProgram, startKafka, type KafkaServer } from "../servers/kafka.js";
import { until } from "../patterns/until.js";

const PATIENCE_MS = 60_000;
const SESSION_MS = 2_000;

const pauseMs = (ms: number): Promise<string> =>
  new Promise((resolve) => setTimeout(() => resolve("waits"), ms));

describeOptional(kafkaProgram, "partitions of a topic", () => {
  let broker: KafkaServer;
  let topics = 0;
  beforeAll(async () => {
    broker = await startKafka();
  });
  afterAll(async () => broker.dispose());

  const freshTopic = async (partitions: number): Promise<string> => {
    const topic = `orders-${++topics}`;
    await broker.topic(topic, partitions);
    return topic;
  };

  /** One process: a tenure of its own on the store that all share. */
  const join = async (
    store: ReturnType<typeof memory>,
    topic: string,
    options: Partial<KafkaPartitionsOptions> = {},
  ): Promise<PartitionGroup<KafkaPartition>> => {
    const tenure = await connect(store);
    const group = await kafkaPartitions(tenure, {
      brokers: [broker.url],
      groupId: `${topic}-group`,
      topic,
      sessionTimeout: SESSION_MS,
      ...options,
    });
    onTestFinished(() => group.close());
    return group;
  };

  const produce = async (topic: string, keys: readonly string[]): Promise<void> => {
    const producer = new Producer({
      clientId: "test",
      bootstrapBrokers: [broker.url],
      partitioner: compatibilityPartitioner,
    });
    const messages = keys.map((key) => ({ topic, key: Buffer.from(key), value: Buffer.from(key) }));
    await producer.send({ messages, acks: -1 });
    await producer.close();
  };

  const owned = (groups: readonly PartitionGroup<KafkaPartition>[], count: number) =>
    until(() => {
      const shares = groups.map((group) => group.owned.length);
      const all = shares.reduce((sum, share) => sum + share, 0);
      return all === count && Math.max(...shares) - Math.min(...shares) <= 1;
    }, PATIENCE_MS);

  it("are shared, read by their owners, and handed over where they were committed", async () => {
    const topic = await freshTopic(6);
    const store = memory();
    const keys = Array.from({ length: 60 }, (_, i) => `k${i}`);
    await produce(topic, keys);
    const a = await join(store, topic);
    expect(a.count).toBe(6);
    type Read = { by: string; key: string; partition: number; offset: bigint; token: bigint };
    const read: Read[] = [];
    const work = (by: string) => async (partition: KafkaPartition) => {
      for await (const message of partition.messages()) {
        const key = message.key!.toString();
        // What Kafka's own producers compute, too.
        expect(a.partitionFor(key)).toBe(message.partition);
        const { offset } = message;
        read.push({ by, key, partition: message.partition, offset, token: partition.token });
        await partition.commit(message);
      }
    };
    const runs = [a.run(work("a"))];
    await until(() => new Set(read.map(({ key }) => key)).size === 60, PATIENCE_MS);
    const b = await join(store, topic);
    runs.push(b.run(work("b")));
    await owned([a, b], 6);
    await produce(topic, keys.map((key) => `${key}!`));
    await until(() => new Set(read.map(({ key }) => key)).size === 120, PATIENCE_MS);
    // A producer may write a message twice; nobody has read one twice.
    const places = read.map(({ partition, offset }) => `${partition}:${offset}`);
    expect(new Set(places).size).toBe(places.length);
    expect(new Set(read.map(({ by }) => by)).size).toBe(2);
    const view = await b.view();
    expect(view.members.map(({ partitions }) => partitions.length)).toEqual([3, 3]);
    expect(view.unowned).toEqual([]);
    for (const partition of [0, 1, 2, 3, 4, 5]) {
      const tokens = read.filter((one) => one.partition === partition).map(({ token }) => token);
      expect(tokens).toEqual([...tokens].sort((x, y) => (x < y ? -1 : x > y ? 1 : 0)));
    }
    await a.close();
    await owned([b], 6);
    await b.close();
    await Promise.all(runs);
  });

  it("have tokens that grow when the broker has forgotten the group", async () => {
    const topic = await freshTopic(2);
    const store = memory();
    const first = await join(store, topic);
    await owned([first], 2);
    const before = first.owned.map(({ token }) => token);
    await first.close();
    await broker.admin((admin) => admin.deleteGroups({ groups: [`${topic}-group`] }));
    const again = await join(store, topic);
    await owned([again], 2);
    again.owned.forEach(({ token }, i) => expect(token > before[i]!).toBe(true));
  });

  it("commit what is a message of theirs, and nothing else", async () => {
    const topic = await freshTopic(2);
    const group = await join(memory(), topic);
    await owned([group], 2);
    const [partition] = group.owned;
    for (const [wrong, message] of [
      [undefined, "message must be a message, or an object with its offset, got undefined"],
      [{ offset: 5 }, "message.offset must be a bigint, got 5"],
      [{ offset: -1n }, "message.offset must be 0n or more, got -1n"],
      [{ offset: 1n, partition: 1 }, "message.partition must be 0, that of the partition which"],
    ] as const) {
      await expect(partition!.commit(wrong as never)).rejects.toThrow(message);
    }
    await partition!.commit({ offset: 1n, partition: 0 });
    await partition!.release();
    await expect(partition!.commit({ offset: 2n })).rejects.toMatchObject({
      name: "LeaseLostError",
      reason: "released",
    });
  });

  it("survive a restart of the broker", async () => {
    const topic = await freshTopic(4);
    const store = memory();
    const a = await join(store, topic);
    const b = await join(store, topic);
    const read: string[] = [];
    const work = async (partition: KafkaPartition): Promise<void> => {
      for await (const message of partition.messages()) {
        read.push(message.key!.toString());
        await until(() => partition.commit(message).then(() => true, () => false), PATIENCE_MS);
      }
    };
    const runs = [a.run(work), b.run(work)];
    await owned([a, b], 4);
    await produce(topic, ["one", "two", "three", "four", "five"]);
    await until(() => new Set(read).size === 5, PATIENCE_MS);
    await broker.restart();
    await produce(topic, ["six", "seven", "eight"]);
    await until(() => new Set(read).size === 8, PATIENCE_MS);
    await owned([a, b], 4);
    await Promise.all([a.close(), b.close(), ...runs]);
  });

  it("are not committed under a generation that has ended, whatever its owner believes", async () => {
    const topic = await freshTopic(1);
    const group = { groupId: `${topic}-group`, topic, brokers: [broker.url] };
    const client = { clientId: "t", groupId: group.groupId, bootstrapBrokers: group.brokers };
    const former = new Consumer(client);
    const later = new Consumer(client);
    const errors: unknown[] = [];
    const create = (): Consumer => new Consumer({ ...client, retries: 0 });
    const failed = (error: unknown): void => void errors.push(error);
    const { timers } = platform();
    const within: Within = (answer) => answer;
    const commits = new Commits({ create, asked: group, timers, within, failed });
    onTestFinished(async () => {
      commits.close();
      await Promise.all([former.close(), later.close()]);
      expect(errors).toEqual([]);
    });
    former.topics.track(topic);
    await former.joinGroup({ sessionTimeout: SESSION_MS, heartbeatInterval: 500 });
    const believing = new AbortController();
    const owner = { partition: 0, signal: believing.signal, assertOwned: () => undefined };
    const offset = async (): Promise<bigint> => {
      const topics = [{ topic, partitions: [0] }];
      return (await later.listCommittedOffsets({ topics })).get(topic)![0]!;
    };
    commits.pin(former.memberId, former.generationId);
    await commits.commit(owner, 7n);
    expect(await offset()).toBe(7n);
    // The one leaves, another joins: the first generation is over.
    await former.close();
    later.topics.track(topic);
    await later.joinGroup({ sessionTimeout: SESSION_MS, heartbeatInterval: 500 });
    const late = commits.commit(owner, 3n);
    const sooner = await Promise.race([late.then(() => "committed"), pauseMs(1_000)]);
    expect(sooner).toBe("waits");
    const lost = new Error("lost");
    believing.abort(lost);
    await expect(late).rejects.toBe(lost);
    expect(await offset()).toBe(7n);
  });

  it("are taken over from members of the newer group protocol, when those leave", async () => {
    const topic = await freshTopic(2);
    const newer = new Consumer({
      clientId: "newer",
      groupId: `${topic}-group`,
      bootstrapBrokers: [broker.url],
      groupProtocol: "consumer",
    });
    onTestFinished(() => newer.close(true));
    const stream = await newer.consume({ topics: [topic], mode: "earliest" });
    await until(() => newer.assignments?.[0]?.partitions.length === 2, PATIENCE_MS);
    const group = await join(memory(), topic);
    expect(group.owned).toEqual([]);
    stream.destroy();
    await newer.close();
    await owned([group], 2);
    await group.owned[0]!.commit({ offset: 3n });
  });

  it("with a transactional id each: the next owner's producer fences the former's", async () => {
    const topic = await freshTopic(1);
    const produced = (): Producer =>
      new Producer({
        clientId: "t",
        bootstrapBrokers: [broker.url],
        transactionalId: `${topic}-0`,
        idempotent: true,
        retries: 0,
      });
    const [former, next] = [produced(), produced()];
    const send = (text: string) => ({ messages: [{ topic, value: Buffer.from(text) }] });
    const stale = await former.beginTransaction();
    await stale.send(send("former"));
    const fresh = await next.beginTransaction();
    await fresh.send(send("next"));
    await fresh.commit();
    const refused = await stale.commit().catch((error: unknown) => error);
    expect(has(refused, "apiId", "PRODUCER_FENCED")).toBe(true);
    const group = await join(memory(), topic);
    const read: string[] = [];
    const run = group.run(async (partition) => {
      for await (const message of partition.messages()) read.push(message.value!.toString());
    });
    await until(() => read.length > 0, PATIENCE_MS);
    await group.close();
    await run;
    expect(read).toEqual(["next"]);
    await Promise.all([former.close(), next.close()]);
  });

  it("an unknown topic, and no broker, are told", async () => {
    const store = memory();
    await expect(join(store, "nowhere")).rejects.toMatchObject({
      name: "UnavailableError",
      retryable: false,
      message: `Kafka at ${broker.url} has no topic "nowhere"`,
    });
    // Shorter than the broker allows.
    await broker.topic("allowed", 1);
    await expect(join(store, "allowed", { sessionTimeout: 100 })).rejects.toMatchObject({
      name: "UnavailableError",
      retryable: false,
      message: expect.stringContaining("refuses to join the group: INVALID_SESSION_TIMEOUT"),
    });
    await expect(join(store, "orders", { brokers: ["127.0.0.1:1"] })).rejects.toMatchObject({
      name: "UnavailableError",
      retryable: true,
      message: expect.stringContaining("no Kafka broker answers at 127.0.0.1:1 (join the group)"),
    });
  });
});

describe("wrong arguments of a group over Kafka", () => {
  it.each([
    [{ brokers: [] }, 'brokers must be a list of addresses, each "host:port", at least one'],
    [{ brokers: "x:1" }, 'brokers must be a list of addresses, each "host:port", got "x:1"'],
    [{ brokers: ["x:1", "y"] }, 'brokers[1] must be "host:port", got "y"'],
    [{ brokers: ["kafka://x:1"] }, "brokers[0]"],
    [{ brokers: ["x:0"] }, "brokers[0]"],
    [{ brokers: ["x:65536"] }, "brokers[0]"],
    [{ brokers: [9092] }, 'brokers[0] must be "host:port", got 9092'],
    [{ topic: "" }, "topic must be the name of a topic"],
    [{ topic: undefined }, "topic must be the name of a topic"],
    [{ topic: "my orders" }, "topic must be the name of a topic"],
    [{ topic: "x".repeat(250) }, "topic must be the name of a topic"],
    [{ groupId: 1 }, "groupId must be a text without spaces, of at most 140 bytes, got 1"],
    [{ groupId: "my group" }, "groupId must be a text without spaces"],
    [{ groupId: "é".repeat(71) }, "groupId must be a text without spaces"],
    [{ clientId: "" }, "clientId must be a text without spaces"],
    [{ sessionTimeout: -1 }, "sessionTimeout"],
    [{ sessionTimeout: "10" }, "sessionTimeout"],
    [{ sessionTimeout: 1 }, "sessionTimeout must be at least"],
    [{ sessionTimeout: Infinity }, "sessionTimeout must be at least"],
    [{ ttl: 5 }, "ttl must be left out"],
    [{ count: 5 }, "count must be left out"],
    [{ connection: "tls" }, 'connection must be an object, such as { tls: {} }, got "tls"'],
    [{ connection: { groupProtocol: "consumer" } }, "connection.groupProtocol must be left out"],
    [{ connection: { retries: 3 } }, "connection.retries must be left out"],
    [{ drain: -1 }, "drain"],
    [{ onChange: {} }, "onChange must be a function"],
    [{ info: { a: {} } }, "info.a must be"],
  ])("%j are told by name", async (wrong, message) => {
    const tenure = await connect("memory:");
    const right = { brokers: ["x:1"], topic: "orders", groupId: "g" };
    await expect(kafkaPartitions(tenure, { ...right, ...wrong } as never)).rejects.toThrow(message);
    await tenure.close();
  });

  it.each([undefined, null, "orders", []])("%j instead of options is told", async (options) => {
    const tenure = await connect("memory:");
    await expect(kafkaPartitions(tenure, options as never)).rejects.toThrow(
      "options must be an object with at least brokers, groupId and topic, got",
    );
    await expect(kafkaPartitions(options as never, options as never)).rejects.toThrow("tenure must");
    await tenure.close();
  });
});
