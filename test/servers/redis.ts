import { setTimeout as sleep } from "node:timers/promises";
import type { Program } from "./find.js";
import { sendCommand, type Reply } from "./resp.js";
import { ServerProcess } from "./server.js";

/** What tests on Redis need. */
export const redisProgram: Program = {
  name: "Redis",
  binary: "redis-server",
  package: "redis-server",
};

/** Directives of redis.conf, by name. Default: nothing is written to the disk. */
export type RedisConfig = Readonly<Record<string, string | number>>;

const QUIET: RedisConfig = {
  bind: "127.0.0.1",
  save: "",
  appendonly: "no",
  daemonize: "no",
  // A replica would otherwise wait five seconds for others to come along.
  "repl-diskless-sync-delay": 0,
};

const SETTLED_WITHIN_MS = 15_000;
const SLOTS = 16_384;

/** A Redis server. */
export class RedisServer extends ServerProcess {
  constructor(config: RedisConfig = {}) {
    const directives = { ...QUIET, ...config };
    super({
      ...redisProgram,
      args: (port) => [
        "--port",
        String(port),
        ...Object.entries(directives).flatMap(([name, value]) => [
          `--${name}`,
          // Several values of one directive are several arguments; one empty value is one.
          ...(value === "" ? [""] : String(value).split(" ")),
        ]),
      ],
      url: (port) => `redis://127.0.0.1:${port}`,
      isReady: async (port, _folder, pid) => {
        const info = String(await sendCommand(port, ["INFO"]));
        return info.includes(`\nprocess_id:${pid}\r`) && info.includes("\nloading:0\r");
      },
    });
  }

  /** Sends one command on a connection of its own. @throws ReplyError as the server answers. */
  command(...args: readonly (string | number)[]): Promise<Reply> {
    return sendCommand(this.port, args);
  }

  /** One section of INFO, by field. */
  async info(section: string): Promise<Readonly<Record<string, string>>> {
    const text = String(await this.command("INFO", section));
    const lines = text.split("\r\n").filter((line) => line.includes(":"));
    return Object.fromEntries(
      lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1)]),
    );
  }

  /** How often each command was called since the start, or since `CONFIG RESETSTAT`. */
  async calls(): Promise<ReadonlyMap<string, number>> {
    const stats = Object.entries(await this.info("commandstats"));
    return new Map(
      stats.map(([name, text]) => [
        name.replace("cmdstat_", ""),
        Number(/calls=(\d+)/.exec(text)?.[1]),
      ]),
    );
  }

  /** Makes a replica a primary, as a failover does. */
  async promote(): Promise<void> {
    await this.command("REPLICAOF", "NO", "ONE");
  }

  /** Resolves once this replica has everything that its primary has written so far. */
  async caughtUp(primary: RedisServer): Promise<void> {
    const written = Number((await primary.info("replication"))["master_repl_offset"]);
    await until(`the replica on ${this.port} to catch up`, async () => {
      const { slave_repl_offset } = await this.info("replication");
      return Number(slave_repl_offset) >= written;
    });
  }

  /** Resolves once this replica has all of its primary's data and follows it. */
  async inStep(): Promise<void> {
    await until(`the replica on ${this.port} to follow`, async () => {
      const { master_link_status, master_sync_in_progress } = await this.info("replication");
      return master_link_status === "up" && master_sync_in_progress === "0";
    });
  }
}

/** A started server. */
export async function startRedis(config: RedisConfig = {}): Promise<RedisServer> {
  const server = new RedisServer(config);
  await start([server]);
  return server;
}

/** Several independent servers, started. */
export async function startRedisServers(
  count: number,
  config: RedisConfig = {},
): Promise<readonly RedisServer[]> {
  const servers = Array.from({ length: count }, () => new RedisServer(config));
  await start(servers);
  return servers;
}

/**
 * A replica of what listens on a port, in step with it. The port may be a proxy's, to cut the link:
 * a replica that is only frozen finds what it missed in its socket when it goes on.
 */
export async function startReplica(
  primaryPort: number,
  config: RedisConfig = {},
): Promise<RedisServer> {
  const replica = new RedisServer({ ...config, replicaof: `127.0.0.1 ${primaryPort}` });
  await start([replica]);
  await replica.inStep();
  return replica;
}

/** A primary, and a replica in step with it. */
export async function startRedisPair(
  config: RedisConfig = {},
): Promise<{ readonly primary: RedisServer; readonly replica: RedisServer }> {
  const primary = await startRedis(config);
  try {
    return { primary, replica: await startReplica(primary.port, config) };
  } catch (error) {
    await primary.dispose();
    throw error;
  }
}

/** The nodes of a cluster without replicas, which share the slots and agree on it. */
export async function startRedisCluster(
  count = 3,
  config: RedisConfig = {},
): Promise<readonly RedisServer[]> {
  const settings = { "cluster-enabled": "yes", "cluster-node-timeout": 2_000, ...config };
  const nodes = await startRedisServers(count, settings);
  try {
    for (const [i, node] of nodes.entries()) {
      const [from, to] = [i, i + 1].map((n) => Math.floor((n * SLOTS) / count));
      await node.command("CLUSTER", "ADDSLOTSRANGE", from!, to! - 1);
      await node.command("CLUSTER", "SET-CONFIG-EPOCH", i + 1);
      if (i > 0) await node.command("CLUSTER", "MEET", "127.0.0.1", nodes[0]!.port);
    }
    await until("the cluster to agree", async () => {
      const states = await Promise.all(nodes.map((node) => node.command("CLUSTER", "INFO")));
      return states.every(
        (state) =>
          /cluster_state:ok/.test(String(state)) &&
          String(state).includes(`cluster_known_nodes:${count}`),
      );
    });
    return nodes;
  } catch (error) {
    await disposeAll(nodes);
    throw error;
  }
}

/** Ends servers and removes their folders. */
export async function disposeAll(servers: Iterable<RedisServer>): Promise<void> {
  await Promise.all([...servers].map((server) => server.dispose()));
}

async function start(servers: readonly RedisServer[]): Promise<void> {
  try {
    await Promise.all(servers.map((server) => server.start()));
  } catch (error) {
    await disposeAll(servers);
    throw error;
  }
}

async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  for (let waitedMs = 0; waitedMs < SETTLED_WITHIN_MS; waitedMs += 20) {
    if (await isSo()) return;
    await sleep(20);
  }
  throw new Error(`waited ${SETTLED_WITHIN_MS} ms for ${what}`);
}
