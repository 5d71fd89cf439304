import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { redlock, type RedisClient } from "../../../src/backends/redlock/open.js";
import { connect } from "../../../src/connect.js";
import type { Tenure } from "../../../src/core/tenure.js";
import { faultProxy, type FaultProxy } from "../../../src/testing/fault-proxy.js";
import { disposeAll, startRedisServers, type RedisServer } from "../../servers/redis.js";

/** One process as the servers see it: it reaches each through a network of its own. */
export interface Contender {
  readonly tenure: Tenure<undefined>;
  /** To each server, in order. */
  readonly networks: readonly FaultProxy[];
}

/** Servers and the contenders that use them; to be disposed. */
export class Bench implements AsyncDisposable {
  readonly servers: readonly RedisServer[];
  readonly #open: { close(): Promise<void> }[] = [];

  private constructor(servers: readonly RedisServer[]) {
    this.servers = servers;
  }

  /** Servers that keep nothing on the disk. */
  static async start(count: number): Promise<Bench> {
    return new Bench(await startRedisServers(count));
  }

  async contender(timeoutMs = 30_000): Promise<Contender> {
    const networks: FaultProxy[] = [];
    for (const { port } of this.servers) networks.push(await faultProxy({ port, sleep }));
    this.#open.push(...networks);
    const clients = networks.map(({ port }) => patientClient(`redis://127.0.0.1:${port}`));
    const tenure = await connect(redlock(clients), { purpose: "efficiency", timeout: timeoutMs });
    // Servers that a test has left without a majority take no lease back.
    this.#open.unshift({ close: () => tenure.close().catch(() => undefined) });
    return { tenure, networks };
  }

  /** Whom each server has as holder; null for none. */
  async holders(name: string): Promise<readonly (string | null)[]> {
    const records = await Promise.all(
      this.servers.map(async (server) => server.command("GET", `tenure:redlock:lock:${name}`)),
    );
    return records.map((record) => (record === null ? null : String(record).split(" ")[0]!));
  }

  /** Milliseconds that each server still gives the lease. */
  async lefts(name: string): Promise<readonly number[]> {
    const lefts = this.servers.map((server) =>
      server.command("PTTL", `tenure:redlock:lock:${name}`),
    );
    return (await Promise.all(lefts)).map(Number);
  }

  /** Lets a server's clock run ahead, for one lease: it expires now. */
  async expireEarly(server: number, name: string): Promise<void> {
    await this.servers[server]!.command("PEXPIRE", `tenure:redlock:lock:${name}`, 1);
    while ((await this.holders(name))[server] !== null) await sleep(1);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const one of this.#open) await one.close();
    await disposeAll(this.servers);
  }
}

/** Longest that a connection may take on a busy machine, milliseconds. */
const CONNECT_MS = 30_000;

/** A client object of the caller's own. */
export function clientOf(server: RedisServer): Redis {
  return new Redis(server.port, { lazyConnect: true, connectTimeout: CONNECT_MS });
}

/** A client as the backend makes one for a URL, but for the time that a connection may take. */
export function patientClient(url: string): RedisClient {
  return createClient({
    url,
    pingInterval: 4_000,
    socket: {
      connectTimeout: CONNECT_MS,
      socketTimeout: 10_000,
      reconnectStrategy: (failures) => Math.min(1_000, 25 * 2 ** failures),
    },
  });
}

/** Resolves once it is so. */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await sleep(5);
}
