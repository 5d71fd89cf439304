import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { redlock } from "../../../src/backends/redlock/open.js";
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
    const urls = networks.map(({ port }) => `redis://127.0.0.1:${port}`);
    const tenure = await connect(redlock(urls), { purpose: "efficiency", timeout: timeoutMs });
    this.#open.unshift(tenure);
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

/** A client object of the caller's own. */
export function clientOf(server: RedisServer): Redis {
  return new Redis(server.port, { lazyConnect: true });
}

/** Resolves once it is so. */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await sleep(5);
}
