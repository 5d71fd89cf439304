/** One primary, one replica, and a sentinel that makes the one the other. */
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { Redis } from "ioredis";
import { createSentinel } from "redis";
import { expect, it, onTestFinished } from "vitest";
import { redis, type RedisClient } from "../../../src/backends/redis/open.js";
import { connect } from "../../../src/connect.js";
import type { Tenure } from "../../../src/core/tenure.js";
import { describeOn } from "../../servers/find.js";
import { redisProgram, startRedisPair, type RedisServer } from "../../servers/redis.js";
import { sendCommand } from "../../servers/resp.js";
import { ServerProcess } from "../../servers/server.js";
import { until, waitersOf, type Library } from "./bench.js";

const PRIMARY = "leases";

/** Watches a primary alone, and is quick to give it up. */
class Sentinel extends ServerProcess {
  constructor(primary: RedisServer) {
    super({
      ...redisProgram,
      args: (_port, folder) => [path.join(folder, "sentinel.conf"), "--sentinel"],
      url: (port) => `redis://127.0.0.1:${port}`,
      configure: (port, folder) =>
        writeFile(
          path.join(folder, "sentinel.conf"),
          `port ${port}\nbind 127.0.0.1\ndir ${folder}\n` +
            `sentinel monitor ${PRIMARY} 127.0.0.1 ${primary.port} 1\n` +
            `sentinel down-after-milliseconds ${PRIMARY} 1000\n`,
        ),
      // Until it has heard of the replica there is nobody to promote.
      isReady: async (port) => {
        const replicas = await sendCommand(port, ["SENTINEL", "REPLICAS", PRIMARY]);
        return Array.isArray(replicas) && replicas.length === 1;
      },
    });
  }
}

/** Clients that stay unconnected, and ask a sentinel for the primary. */
const clients: Readonly<Record<Library, (sentinel: Sentinel) => RedisClient>> = {
  "node-redis": ({ port }) =>
    createSentinel({ name: PRIMARY, sentinelRootNodes: [{ host: "127.0.0.1", port }] }),
  ioredis: ({ port }) =>
    new Redis({ name: PRIMARY, sentinels: [{ host: "127.0.0.1", port }], lazyConnect: true }),
};

describeOn(redisProgram, "redis backend behind a sentinel", () => {
  it.each([
    ["node-redis", "kill"],
    ["node-redis", "freeze"],
    ["ioredis", "kill"],
    ["ioredis", "freeze"],
  ] as const)("goes on with leases and waiters when the primary is gone (%s, %s)", async (library, how) => {
    const { primary, replica } = await startRedisPair();
    const sentinel = new Sentinel(primary);
    onTestFinished(async () => {
      for (const server of [sentinel, replica, primary]) await server.dispose();
    });
    await sentinel.start();
    const opened = async (): Promise<Tenure> => {
      const locks = await connect(redis(clients[library](sentinel)));
      onTestFinished(() => locks.close());
      return locks;
    };
    const [one, other] = [await opened(), await opened()];
    const held = await one.acquire("name");
    const waiting = other.acquire("name");
    await until("its place", async () => (await waitersOf(one, "name")) === 1);
    await replica.caughtUp(primary);
    await primary[how]();
    await until("the failover", async () => (await replica.info("replication"))["role"] === "master");
    // Each connection finds the new primary by itself, at a time of its own.
    const done = (step: () => Promise<unknown>): Promise<void> =>
      until("the new primary", () => step().then(() => true, () => false));
    await done(() => held.renew());
    await done(() => held.release());
    const next = await waiting;
    expect(next.token).toBeGreaterThan(held.token);
    await done(() => next.release());
  });
});
