import { Cluster, Redis } from "ioredis";
import { Redis as ValkeyRedis } from "iovalkey";
import { createClient, createCluster } from "redis";
import { afterAll, beforeAll } from "vitest";
import { redisCommands, type RedisCommands } from "../../src/drivers/redis/commands.js";
import { explainRedis } from "../../src/drivers/redis/errors.js";
import { redisStore } from "../../src/fences/redis/index.js";
import { lowKey, markKey } from "../../src/fences/redis/keys.js";
import type { RedisTx } from "../../src/fences/redis/transaction.js";
import { describeOn } from "../servers/find.js";
import {
  disposeAll,
  redisProgram,
  startRedis,
  startRedisCluster,
  type RedisServer,
} from "../servers/redis.js";
import { fenceSuite } from "./suite.js";

interface Client {
  readonly commands: RedisCommands;
  end(): unknown;
}

function suite(
  title: string,
  start: () => Promise<readonly RedisServer[]>,
  connect: (servers: readonly RedisServer[]) => Promise<Client>,
): void {
  describeOn(redisProgram, title, () => {
    let servers: readonly RedisServer[] = [];
    let client: Client;
    let count = 0;
    beforeAll(async () => {
      servers = await start();
      client = await connect(servers);
    });
    afterAll(async () => {
      await client.end();
      await disposeAll(servers);
    });
    fenceSuite<RedisTx, RedisTx>({
      name: title,
      work: "async",
      open: async () => {
        const prefix = `fence${count++}:`;
        const { commands } = client;
        return {
          store: redisStore({ commands, faults: { explain: explainRedis } }, prefix),
          get: (tx) =>
            tx
              .call<string | null>("GET", tx.key("value"))
              .then((text) => (text === null ? undefined : Number(text))),
          put: (tx, _resource, value) => void tx.call("SET", tx.key("value"), value),
          add: (tx, _resource, amount) =>
            tx.call<number>("INCRBY", tx.key("value"), amount).then(Number),
          loseMark: async (resource) => {
            const key = markKey(prefix, resource);
            await commands.send(["DEL", key], key);
            await commands.send(["DEL", lowKey(key)], lowKey(key));
          },
          close: async () => undefined,
        };
      },
    });
  });
}

const one = async (): Promise<readonly RedisServer[]> => [await startRedis()];

suite("redis fence, node-redis", one, async ([server]) => {
  const client = createClient({ url: server!.url });
  await client.connect();
  return { commands: redisCommands(client), end: () => client.close() };
});
suite("redis fence, ioredis", one, async ([server]) => {
  const client = new Redis(server!.port);
  return { commands: redisCommands(client), end: () => client.quit() };
});
suite("redis fence, iovalkey", one, async ([server]) => {
  const client = new ValkeyRedis(server!.port);
  return { commands: redisCommands(client), end: () => client.quit() };
});
suite("redis fence, node-redis cluster", startRedisCluster, async (servers) => {
  const client = createCluster({ rootNodes: servers.map(({ url }) => ({ url })) });
  await client.connect();
  return { commands: redisCommands(client), end: () => client.close() };
});
suite("redis fence, ioredis cluster", startRedisCluster, async (servers) => {
  const client = new Cluster(servers.map(({ port }) => ({ host: "127.0.0.1", port })));
  return { commands: redisCommands(client), end: () => client.quit() };
});
