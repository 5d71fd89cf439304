/** Connections beside a caller's client over a network that is silent for a while. */
import { Redis } from "ioredis";
import { createClient, createCluster, createSentinel, SocketTimeoutError } from "redis";
import { expect, it, onTestFinished } from "vitest";
import { redis, type RedisClient } from "../../../src/backends/redis/open.js";
import { connect } from "../../../src/connect.js";
import { describeOn } from "../../servers/find.js";
import { redisProgram, startRedis, startRedisCluster } from "../../servers/redis.js";
import { bench, until } from "./bench.js";
import { PRIMARY, Sentinel } from "./sentinel.js";

/** Instead of the ten seconds that Tenure gives the connections it opens beside a client. */
const SILENT_MS = 400;
const SHORT = { pingInterval: SILENT_MS / 4, socketTimeout: SILENT_MS };

/** As the library has it where nothing is said. */
const notAfterSilence = (_: number, cause: Error): number | false =>
  cause instanceof SocketTimeoutError ? false : 20;

interface Settings {
  readonly socket?: object;
  readonly defaults?: Settings;
  readonly nodeClientOptions?: Settings;
  readonly socketTimeout?: number;
}

/** Its duplicates have all that Tenure gives them, with shorter times. */
function hurried<C extends RedisClient>(client: C): C {
  const { pingInterval, socketTimeout } = SHORT;
  const shorter = (settings: Settings): Settings => {
    const { defaults, nodeClientOptions, socket } = settings;
    if (settings.socketTimeout !== undefined) return { ...settings, socketTimeout };
    if (defaults !== undefined) return { ...settings, defaults: shorter(defaults) };
    if (nodeClientOptions !== undefined) {
      return { ...settings, nodeClientOptions: shorter(nodeClientOptions) };
    }
    return { ...settings, ...{ pingInterval }, socket: { ...socket, socketTimeout } };
  };
  const duplicate = client.duplicate.bind(client) as (settings: object) => unknown;
  return Object.assign(client, {
    duplicate: (settings: Settings) => duplicate(shorter(settings)),
  });
}

describeOn(redisProgram, "connections beside a client over a network that falls silent", () => {
  const { server, proxy } = bench();
  const host = "127.0.0.1";
  let sentinel: Sentinel | undefined;

  const kinds = [
    {
      kind: "a client",
      start: async () => (await server(startRedis())).port,
      client: (port: number): RedisClient => createClient({ socket: { host, port } }),
    },
    {
      kind: "a client with a strategy of its own",
      start: async () => (await server(startRedis())).port,
      client: (port: number): RedisClient =>
        createClient({ socket: { host, port, reconnectStrategy: notAfterSilence } }),
    },
    {
      kind: "a client that never connects again",
      start: async () => (await server(startRedis())).port,
      client: (port: number): RedisClient =>
        createClient({ socket: { host, port, reconnectStrategy: false } }),
    },
    {
      kind: "a client of ioredis that never connects again",
      start: async () => (await server(startRedis())).port,
      client: (port: number): RedisClient =>
        new Redis({ host, port, lazyConnect: true, retryStrategy: () => null }),
    },
    {
      kind: "a client behind sentinels",
      start: async () => {
        const primary = await server(startRedis());
        sentinel = new Sentinel(primary, 0);
        onTestFinished(() => sentinel!.dispose());
        await sentinel.start();
        return primary.port;
      },
      client: (port: number): RedisClient =>
        createSentinel({
          name: PRIMARY,
          sentinelRootNodes: [{ host, port: sentinel!.port }],
          // To the primary by the proxy.
          nodeAddressMap: (address) => {
            const watching = sentinel!.port;
            return { host, port: address.endsWith(`:${watching}`) ? watching : port };
          },
        }),
    },
    {
      kind: "a cluster",
      start: async () => {
        const [node] = await startRedisCluster(1);
        return (await server(Promise.resolve(node!))).port;
      },
      client: (port: number): RedisClient =>
        createCluster({
          rootNodes: [{ socket: { host, port } }],
          nodeAddressMap: () => ({ host, port }),
        }),
    },
  ];

  it.each(kinds)("serve its leases again once it is well ($kind)", async ({ start, client }) => {
    const cable = await proxy(await start());
    const locks = await connect(redis(hurried(client(cable.port))), { timeout: "10s" });
    onTestFinished(() => locks.close().catch(() => undefined));
    const lease = await locks.acquire("kept", { ttl: "1m", renew: false });
    const { made } = cable.counts.connections;
    cable.silence();
    // ioredis takes it for silence where it waits for an answer.
    const asked = [lease.renew(), locks.inspect("kept")].map((one) => one.catch(() => undefined));
    // Given up, as leases and as renewals have one each, and tried anew.
    await until("other connections", () => cable.counts.connections.made >= made + 2, 10_000);
    await cable.heal();
    await until("a renewal", () => lease.renew().then(() => true, () => false), 10_000);
    await until("a grant", () => locks.tryAcquire("next").then((one) => one !== null, () => false));
    expect(lease.state).toBe("held");
    await Promise.all(asked);
    await locks.close();
  });
});
