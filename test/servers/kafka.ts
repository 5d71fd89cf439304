import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Admin, FindCoordinatorKeyTypes } from "@platformatic/kafka";
import { faultProxy, type FaultProxy } from "../../src/testing/fault-proxy.js";
import { mustFind, type Program } from "./find.js";
import { freePort } from "./free-port.js";
import { ServerProcess } from "./server.js";

/** What tests on Kafka need; `node scripts/servers.mjs` fetches it, with Maven. */
export const kafkaProgram: Program = {
  name: "Kafka",
  binary: "kafka-4.3.1",
  package: "maven; then: node scripts/servers.mjs",
  folders: [path.join(homedir(), ".cache/tenure-servers")],
};

const JVM = [
  // Small and quick to start: it shares a machine with the tests.
  ...["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"],
];

/** Settings of server.properties, by name. */
type KafkaConfig = Readonly<Record<string, string | number>>;

const QUIET: KafkaConfig = {
  "process.roles": "broker,controller",
  "node.id": 1,
  "controller.listener.names": "CONTROLLER",
  "num.partitions": 1,
  "auto.create.topics.enable": "false",
  "offsets.topic.num.partitions": 1,
  "offsets.topic.replication.factor": 1,
  "transaction.state.log.num.partitions": 1,
  "transaction.state.log.replication.factor": 1,
  "transaction.state.log.min.isr": 1,
  "group.initial.rebalance.delay.ms": 0,
  "group.min.session.timeout.ms": 500,
  "log.cleaner.enable": "false",
  "num.network.threads": 1,
  "num.io.threads": 2,
  "background.threads": 1,
};

/** Each as long as other servers may take to be ready. */
const READY_TRIES = 4;

/** Who decides in a cluster: the id of each broker, and the port of its controller. */
type Voters = ReadonlyMap<number, number>;

/** A broker's place in a cluster. */
interface Place {
  readonly id?: number;
  readonly voters?: Voters;
  /** Another port that it serves, and the one by which clients of that are to come. */
  readonly way?: { readonly port: number; readonly by: number };
}

/** A Kafka broker that is a controller, too: its own, or one of a cluster. */
export class KafkaServer extends ServerProcess {
  readonly nodeId: number;
  isFrozen = false;

  constructor(config: KafkaConfig = {}, { id = 1, voters = new Map(), way }: Place = {}) {
    let known: Voters = voters;
    super({
      ...kafkaProgram,
      args: (_port, folder) => [...JVM, "kafka.Kafka", propertiesOf(folder)],
      url: (port) => `127.0.0.1:${port}`,
      configure: async (port, folder) => {
        if (known.size === 0) known = new Map([[id, await freePort()]]);
        const quorum = [...known].map(([one, at]) => `${one}@127.0.0.1:${at}`).join(",");
        const plain = `PLAINTEXT://127.0.0.1:${port}`;
        const other = (at: number): string => `WAY://127.0.0.1:${at}`;
        const settings = {
          ...QUIET,
          "node.id": id,
          "controller.quorum.voters": quorum,
          listeners: [
            ...[plain, `CONTROLLER://127.0.0.1:${known.get(id)!}`],
            ...(way === undefined ? [] : [other(way.port)]),
          ].join(),
          ...(way === undefined
            ? {}
            : {
                "advertised.listeners": [plain, other(way.by)].join(),
                "inter.broker.listener.name": "PLAINTEXT",
                "listener.security.protocol.map": ["PLAINTEXT", "WAY", "CONTROLLER"]
                  .map((listener) => `${listener}:PLAINTEXT`)
                  .join(),
              }),
          "log.dirs": path.join(folder, "data"),
          ...config,
        };
        const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}\n`);
        await writeFile(propertiesOf(folder), lines.join(""));
        if (!existsSync(path.join(folder, "data"))) await format(folder);
      },
      isReady: async (port) => {
        await withAdmin(`127.0.0.1:${port}`, (admin) => admin.metadata({ topics: [] }));
        return true;
      },
    });
    this.nodeId = id;
  }

  override async freeze(): Promise<void> {
    await super.freeze();
    this.isFrozen = true;
  }

  override async thaw(): Promise<void> {
    await super.thaw();
    this.isFrozen = false;
  }

  /** Longer than other servers may take: a machine with other work starts three of them at once. */
  override async ready(): Promise<void> {
    for (let tries = 1; ; tries++) {
      try {
        return await super.ready();
      } catch (error) {
        if (this.pid === undefined || tries === READY_TRIES) throw error;
      }
    }
  }

  /** Makes a topic. */
  async topic(name: string, partitions: number): Promise<void> {
    await this.admin((admin) => admin.createTopics({ topics: [name], partitions, replicas: 1 }));
  }

  /** Asks as an operator would. */
  admin<R>(work: (admin: Admin) => Promise<R>): Promise<R> {
    return withAdmin(this.url, work);
  }
}

/** A started broker: some seconds. */
export async function startKafka(config: KafkaConfig = {}): Promise<KafkaServer> {
  const server = new KafkaServer(config);
  try {
    await server.start();
    return server;
  } catch (error) {
    await server.dispose();
    throw error;
  }
}

/** How long a cluster may take for what it has to agree on, on a machine that is busy. */
const AGREED_WITHIN_MS = 60_000;

/** Every acknowledged write is on two brokers: any one may be lost. */
const REPLICATED: KafkaConfig = {
  "default.replication.factor": 3,
  "min.insync.replicas": 2,
  "offsets.topic.replication.factor": 3,
  "transaction.state.log.replication.factor": 3,
  "transaction.state.log.min.isr": 2,
  // How soon a broker that is silent is told from one that is slow.
  "broker.session.timeout.ms": 3_000,
  "broker.heartbeat.interval.ms": 500,
  "replica.lag.time.max.ms": 3_000,
  "controller.quorum.election.timeout.ms": 1_000,
  "controller.quorum.fetch.timeout.ms": 2_000,
};

/** Three brokers, any of which may be lost, and two ways to each. */
export class KafkaCluster implements AsyncDisposable {
  readonly brokers: readonly KafkaServer[];
  /** Ways that can be cut; who begins on one is told no other. */
  readonly ways: readonly FaultProxy[];

  constructor(brokers: readonly KafkaServer[], ways: readonly FaultProxy[]) {
    this.brokers = brokers;
    this.ways = ways;
  }

  /** Addresses of all. */
  get urls(): string[] {
    return this.brokers.map(({ url }) => url);
  }

  /** Addresses of all, by the ways that can be cut. */
  get wayUrls(): string[] {
    return this.ways.map(({ port }) => `127.0.0.1:${port}`);
  }

  /** Resolves once every broker knows all of them: then none is fenced, and all can be leaders. */
  async whole(): Promise<void> {
    for (const broker of this.brokers) {
      await eventually("the brokers know one another", async () => {
        const { brokers } = await broker.admin((admin) => admin.metadata({ topics: [] }));
        return brokers.size === this.brokers.length;
      });
    }
  }

  /** Makes a topic, on all brokers. Resolves once each of them serves it, in full. */
  async topic(name: string, partitions: number): Promise<void> {
    const all = this.brokers.length;
    const [first] = this.brokers;
    await first!.admin((admin) =>
      admin.createTopics({ topics: [name], partitions, replicas: all }),
    );
    await this.inSync(name);
  }

  /** Resolves once all copies of a topic are up to date, as each broker knows. */
  async inSync(name: string): Promise<void> {
    const all = this.brokers.length;
    for (const broker of this.brokers) {
      await eventually(`all copies of ${name} are in sync`, async () => {
        const { topics } = await broker.admin((admin) =>
          admin.metadata({ topics: [name], forceUpdate: true }),
        );
        const { partitions } = topics.get(name)!;
        return partitions.every(({ isr, leader }) => isr.length === all && leader >= 0);
      });
    }
  }

  /** The broker that coordinates a group, by the account of another one. */
  async coordinator(group: string): Promise<KafkaServer> {
    let found: KafkaServer | undefined;
    await eventually(`${group} has a coordinator`, async () => {
      const asked = this.brokers.find(({ pid, isFrozen }) => pid !== undefined && !isFrozen)!;
      const keyType = FindCoordinatorKeyTypes.GROUP;
      const [told] = await asked.admin((admin) =>
        admin.findCoordinator({ keyType, keys: [group] }),
      );
      found = this.brokers.find(({ nodeId }) => nodeId === told?.nodeId);
      return found !== undefined;
    });
    return found!;
  }

  async dispose(): Promise<void> {
    await Promise.all(this.brokers.map((broker) => broker.dispose()));
    await Promise.all(this.ways.map((way) => way[Symbol.asyncDispose]()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }
}

/** A started cluster: some seconds. */
export async function startKafkaCluster(): Promise<KafkaCluster> {
  const voters = new Map<number, number>();
  for (const id of [1, 2, 3]) voters.set(id, await freePort());
  const ways: FaultProxy[] = [];
  const brokers: KafkaServer[] = [];
  for (const id of voters.keys()) {
    const port = await freePort();
    const way = await faultProxy({ port });
    ways.push(way);
    brokers.push(new KafkaServer(REPLICATED, { id, voters, way: { port, by: way.port } }));
  }
  const cluster = new KafkaCluster(brokers, ways);
  try {
    // Together: none of them serves before two can agree.
    await Promise.all(cluster.brokers.map((broker) => broker.start()));
    await cluster.whole();
    return cluster;
  } catch (error) {
    await cluster.dispose();
    throw error;
  }
}

/** @throws Error with the last failure, if it does not come to pass. */
async function eventually(what: string, look: () => Promise<boolean>): Promise<void> {
  const endMs = performance.now() + AGREED_WITHIN_MS;
  let failure: unknown;
  for (;;) {
    try {
      if (await look()) return;
    } catch (error) {
      failure = error;
    }
    if (performance.now() > endMs) throw new Error(`not so: ${what}`, { cause: failure });
    await sleep(50);
  }
}

async function withAdmin<R>(broker: string, work: (admin: Admin) => Promise<R>): Promise<R> {
  const admin = new Admin({ clientId: "operator", bootstrapBrokers: [broker], retries: 0 });
  try {
    return await work(admin);
  } finally {
    await admin.close();
  }
}

function propertiesOf(folder: string): string {
  return path.join(folder, "server.properties");
}

/** Gives the broker's folder the id of a cluster, which a broker asks for. */
async function format(folder: string): Promise<void> {
  const tool = ["kafka.tools.StorageTool", "format", "-t", "dGVudXJlLXRlc3QtYnJvaw"];
  const child = spawn(mustFind(kafkaProgram), [...JVM, ...tool, "-c", propertiesOf(folder)], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`the broker's folder could not be formatted: ${errors}`);
}
