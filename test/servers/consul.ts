import { writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Program } from "./find.js";
import { freePort } from "./free-port.js";
import { ServerProcess } from "./server.js";

/** Consul of the last line under the MPL, which `node scripts/build-consul.mjs` makes. */
export const consulProgram: Program = {
  name: "Consul 1.14",
  binary: "consul-1.14.11",
  package: "golang-go; then: node scripts/build-consul.mjs",
  folders: [path.join(homedir(), ".cache/tenure-servers")],
};

/** Settings of an agent's configuration file, over those for tests. */
export type ConsulConfig = Readonly<Record<string, unknown>>;

const READY_KEY = "tenure-test/ready";
const SETTLED_WITHIN_MS = 20_000;

/** A Consul server, alone or one of several. */
export class ConsulServer extends ServerProcess {
  readonly #token: string | undefined;

  constructor(
    ports: { readonly rpc: number; readonly serf: number },
    config: ConsulConfig,
    token?: string,
  ) {
    super({
      ...consulProgram,
      args: (_port, folder) => ["agent", "-config-file", path.join(folder, "consul.json")],
      url: (port) => `consul://127.0.0.1:${port}`,
      configure: async (port, folder) => {
        const all = {
          server: true,
          node_name: `n${ports.rpc}`,
          data_dir: path.join(folder, "data"),
          bind_addr: "127.0.0.1",
          client_addr: "127.0.0.1",
          disable_update_check: true,
          log_level: "warn",
          // Sessions end after twice their TTL, which is at least 10 s by default.
          session_ttl_min: "200ms",
          connect: { enabled: false },
          ...config,
          ports: {
            ...{ http: port, server: ports.rpc, serf_lan: ports.serf },
            ...OTHER_PORTS,
            ...(config["ports"] as object | undefined),
          },
        };
        await writeFile(path.join(folder, "consul.json"), JSON.stringify(all));
      },
      // A consistent read needs a leader that is sure of itself, a session a node that it knows.
      isReady: async (port) => {
        const answer = await ask(port, `kv/${READY_KEY}?consistent`, { token });
        if (answer.status !== 404) return false;
        const node = await ask(port, `catalog/node/n${ports.rpc}?consistent`, { token });
        return (await node.json()) !== null;
      },
    });
    this.#token = token;
  }

  /** Asks this server, on a connection of its own. @throws Error with what it answered. */
  async call(method: "GET" | "PUT" | "DELETE", what: string, body?: unknown): Promise<any> {
    const answer = await ask(this.port, what, { method, body, token: this.#token });
    const text = await answer.text();
    if (!answer.ok && answer.status !== 404) throw new Error(`${what}: ${answer.status} ${text}`);
    return answer.status === 404 ? undefined : JSON.parse(text);
  }

  /** The keys that begin with `prefix`. */
  async keys(prefix: string): Promise<readonly string[]> {
    return (await this.call("GET", `kv/${prefix}?keys`)) ?? [];
  }

  /** The session that holds a key, if one does. */
  async sessionOf(key: string): Promise<string | undefined> {
    return (await this.call("GET", `kv/${key}?consistent`))?.[0].Session;
  }

  /** Ids of the live sessions. */
  async sessions(): Promise<readonly string[]> {
    const all: { readonly ID: string }[] = await this.call("GET", "session/list?consistent");
    return all.map(({ ID }) => ID);
  }

  /** Ends a session behind everybody's back. */
  async endSession(id: string): Promise<void> {
    await this.call("PUT", `session/destroy/${id}`);
  }
}

const OTHER_PORTS = { dns: -1, grpc: -1, grpc_tls: -1, serf_wan: -1 };

/** A started server of its own. `token`: that of a client that may do everything. */
export async function startConsul(
  config: ConsulConfig = {},
  token?: string,
): Promise<ConsulServer> {
  const [rpc, serf] = await Promise.all([freePort(), freePort()]);
  const quick = { bootstrap: true, performance: { raft_multiplier: 1 } };
  const server = new ConsulServer({ rpc, serf }, { ...quick, ...config }, token);
  try {
    await server.start();
    return server;
  } catch (error) {
    await server.dispose();
    throw error;
  }
}

/** Started servers that elect a leader among themselves. */
export async function startConsulCluster(size = 3): Promise<readonly ConsulServer[]> {
  const ports = await Promise.all(
    Array.from({ length: size }, async () => ({ rpc: await freePort(), serf: await freePort() })),
  );
  const servers = ports.map(
    (own) =>
      new ConsulServer(own, {
        bootstrap_expect: size,
        retry_join: ports.map(({ serf }) => `127.0.0.1:${serf}`),
        retry_interval: "1s",
        performance: { raft_multiplier: 2 },
      }),
  );
  try {
    await Promise.all(servers.map((server) => server.start()));
    return servers;
  } catch (error) {
    await Promise.all(servers.map((server) => server.dispose()));
    throw error;
  }
}

/** The place of the leader among servers of one cluster. */
export async function leaderAmong(servers: readonly ConsulServer[]): Promise<ConsulServer> {
  return await until("a leader", async () => {
    for (const server of servers) {
      const self = await server.call("GET", "agent/self").catch(() => undefined);
      if (self?.Stats?.consul?.leader === "true") return server;
    }
    return undefined;
  });
}

/** Waits for what a question is answered with. */
async function until<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
  for (let waitedMs = 0; waitedMs < SETTLED_WITHIN_MS; waitedMs += 20) {
    const answer = await look();
    if (answer !== undefined && answer !== false) return answer;
    await sleep(20);
  }
  throw new Error(`waited ${SETTLED_WITHIN_MS} ms for ${what}`);
}

async function ask(
  port: number,
  what: string,
  { method = "GET", body, token }: { method?: string; body?: unknown; token?: string | undefined },
): Promise<Response> {
  return await fetch(`http://127.0.0.1:${port}/v1/${what}`, {
    method,
    headers: {
      Connection: "close",
      ...(token === undefined ? {} : { "X-Consul-Token": token }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}
