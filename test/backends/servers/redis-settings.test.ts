/** What of a caller's client its duplicates keep, and what they have beside. */
import { Cluster as IoCluster, Redis as IoRedis } from "ioredis";
import { Cluster as IoValkeyCluster, Redis as IoValkey } from "iovalkey";
import {
  createClient,
  createCluster,
  createSentinel,
  SocketTimeoutError,
} from "redis";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import type { RedisClient } from "../../../src/drivers/redis/client.js";
import { openBesideRedis } from "../../../src/drivers/redis/open.js";
import { describeOn } from "../../servers/find.js";
import {
  disposeAll,
  redisProgram,
  startRedisCluster,
  type RedisServer,
} from "../../servers/redis.js";

const PASSWORD = "s3cret";

/** Clients that stay unconnected. */
const clusters: Readonly<Record<string, (port: number) => RedisClient>> = {
  "node-redis": (port) =>
    createCluster({
      rootNodes: [{ url: `redis://127.0.0.1:${port}` }],
      defaults: { password: PASSWORD },
    }),
  ioredis: (port) =>
    new IoCluster([{ host: "127.0.0.1", port }], {
      lazyConnect: true,
      redisOptions: { password: PASSWORD },
    }),
  iovalkey: (port) =>
    new IoValkeyCluster([{ host: "127.0.0.1", port }], {
      lazyConnect: true,
      redisOptions: { password: PASSWORD },
    }),
};

describeOn(redisProgram, "a connection beside a caller's client of a Redis cluster", () => {
  let nodes: readonly RedisServer[];
  beforeAll(async () => {
    nodes = await startRedisCluster();
    for (const node of nodes) await node.command("CONFIG", "SET", "requirepass", PASSWORD);
  });
  afterAll(() => disposeAll(nodes));

  it.each(Object.keys(clusters))("has its password (%s)", async (library) => {
    const own = openBesideRedis(clusters[library]!(nodes[0]!.port));
    onTestFinished(() => own.close());
    await own.connected;
    expect(await own.commands.send(["SET", "key", library], "key")).toBe("OK");
    await own.channels.subscribe("{key}", () => undefined);
  });
});

describe("a connection beside a caller's client of Redis", () => {
  /** The settings of the duplicate that is made. */
  function settingsBeside(client: RedisClient): Record<string, unknown> {
    const duplicate = vi.spyOn(client, "duplicate");
    openBesideRedis(client).close();
    return (duplicate.mock.results[0]!.value as { options: Record<string, unknown> }).options;
  }

  type Strategy = (failures: number, cause: Error) => unknown;
  const strategyIn = (settings: Record<string, unknown>): Strategy =>
    (settings["socket"] as { readonly reconnectStrategy: Strategy }).reconnectStrategy;

  it.each([
    { library: "ioredis", make: (settings: object) => new IoRedis(settings) },
    { library: "iovalkey", make: (settings: object) => new IoValkey(settings) },
  ])("is given up when it is silent, unless the caller says when ($library)", ({ make }) => {
    const settings = { lazyConnect: true, host: "127.0.0.1", port: 1 };
    expect(settingsBeside(make(settings))).toMatchObject({ socketTimeout: 10_000 });
    const patient = make({ ...settings, socketTimeout: 60_000 });
    expect(settingsBeside(patient)).toMatchObject({ socketTimeout: 60_000 });
  });

  it("is given up when it is silent, unless the caller says when (node-redis)", () => {
    const url = "redis://127.0.0.1:1";
    expect(settingsBeside(createClient({ url }))).toMatchObject({
      pingInterval: 4_000,
      socket: { port: 1, socketTimeout: 10_000 },
    });
    const patient = createClient({ url, pingInterval: 9, socket: { socketTimeout: 60_000 } });
    expect(settingsBeside(patient)).toMatchObject({
      pingInterval: 9,
      socket: { port: 1, socketTimeout: 60_000 },
    });
    const unsaid = { socketTimeout: undefined, reconnectStrategy: undefined };
    const { socket } = settingsBeside(createClient({ url, socket: unsaid as object }));
    expect(socket).toMatchObject({ socketTimeout: 10_000 });
    expect(strategyIn({ socket })(3, new Error("reset"))).toBe(200);
  });

  it("is given up when it is silent, and keeps its password (node-redis, sentinel)", () => {
    const made = createSentinel({
      name: "leases",
      sentinelRootNodes: [{ host: "127.0.0.1", port: 1 }],
      nodeClientOptions: { password: PASSWORD, socket: { socketTimeout: 60_000 } },
      sentinelClientOptions: { username: "watcher" },
    });
    // Also of one that is itself a duplicate, and of one with options of its commands.
    for (const client of [made, made.duplicate(), made.withTypeMapping({})]) {
      const duplicate = vi.spyOn(client, "duplicate");
      openBesideRedis(client).close();
      expect(duplicate.mock.lastCall?.[0]).toMatchObject({
        nodeClientOptions: {
          password: PASSWORD,
          disableOfflineQueue: true,
          pingInterval: 4_000,
          socket: { socketTimeout: 60_000 },
        },
        sentinelClientOptions: {
          username: "watcher",
          pingInterval: 4_000,
          socket: { socketTimeout: 10_000 },
        },
      });
    }
  });

  it.each([
    { said: { pingInterval: 60_000 }, pingInterval: 4_000 },
    { said: { pingInterval: 0 }, pingInterval: 4_000 },
    { said: { pingInterval: undefined }, pingInterval: 4_000 },
    { said: { pingInterval: 1_000 }, pingInterval: 1_000 },
    { said: { socket: { socketTimeout: 2_000 } }, pingInterval: 800 },
    { said: { pingInterval: 0, socket: { socketTimeout: 0 } }, pingInterval: 0 },
  ])("is asked before it counts as silent (node-redis, $said)", ({ said, pingInterval }) => {
    const client = createClient({ url: "redis://127.0.0.1:1", ...(said as object) });
    expect(settingsBeside(client)).toMatchObject({ pingInterval });
  });

  it.each([
    { title: "none", own: undefined, after: 100 },
    { title: "a pause", own: 7, after: 7 },
    { title: "never", own: false as const, after: false },
    { title: "one that stops", own: () => new Error("stop"), after: new Error("stop") },
  ])("connects again after a silence, whatever the strategy: $title", ({ own, after }) => {
    const [url, silent] = ["redis://127.0.0.1:1", new SocketTimeoutError(10_000)];
    const socket = own === undefined ? {} : { reconnectStrategy: own };
    const strategy = strategyIn(settingsBeside(createClient({ url, socket })));
    const reset = new Error("reset");
    // What else ends a connection is for the caller to decide.
    expect(strategy(2, reset)).toEqual(after);
    expect(strategy(2, silent)).toBe(100);
    // Not how a silence ends: somebody finds half a connection, or none.
    expect(strategy(2, reset)).toBe(typeof after === "number" ? after : 100);
    // And so is a time-out of the caller's.
    if (own === undefined) return;
    const patient = createClient({ url, socket: { ...socket, socketTimeout: 60_000 } });
    expect(settingsBeside(patient)).toMatchObject({ socket: { reconnectStrategy: own } });
  });
});
