import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import path from "node:path";
import { Admin } from "@platformatic/kafka";
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

/** A Kafka broker that is its own controller. */
export class KafkaServer extends ServerProcess {
  constructor(config: KafkaConfig = {}) {
    let controllerPort = 0;
    super({
      ...kafkaProgram,
      args: (_port, folder) => [...JVM, "kafka.Kafka", propertiesOf(folder)],
      url: (port) => `127.0.0.1:${port}`,
      configure: async (port, folder) => {
        controllerPort ||= await freePort();
        const settings = {
          ...QUIET,
          "controller.quorum.voters": `1@127.0.0.1:${controllerPort}`,
          listeners: `PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controllerPort}`,
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
