/** Connections beside a caller's client of node-redis over a network that is silent for a while. */
import { createClient, createCluster, SocketTimeoutError } from "redis";
import { expect, it, onTestFinished } from "vitest";
import { redis, type RedisClient } from "../../../src/backends/redis/open.js";
import { connect } from "../../../src/connect.js";
import { describeOn } from "../../servers/find.js";
import { redisProgram, startRedis, startRedisCluster } from "../../servers/redis.js";
import { bench, until } from "./bench.js";

/** Instead of the ten seconds that Tenure gives the connections it opens beside a client. */
const SILENT_MS = 400;
const SHORT = { pingInterval: SILENT_MS / 4, socketTimeout: SILENT_MS };

/** As the library has it where nothing is said. */
const notAfterSilence = (_: number, cause: Error): number | false =>
  cause instanceof SocketTimeoutError ? false : 20;

interface Settings {
  readonly socket?: object;
  readonly defaults?: Settings;
}

/** Its duplicates have all that Tenure gives them, with shorter times. */
function hurried<C extends RedisClient>(client: C): C {
  const { pingInterval, socketTimeout } = SHORT;
  const shorter = (settings: Settings): Settings => ({
    ...settings,
    ...(settings.defaults === undefined
      ? { pingInterval, socket: { ...settings.socket, socketTimeout } }
      : { defaults: shorter(settings.defaults) }),
  });
  const duplicate = client.duplicate.bind(client) as (settings: object) => unknown;
  return Object.assign(client, {
    duplicate: (settings: Settings) => duplicate(shorter(settings)),
  });
}

describeOn(redisProgram, "connections of node-redis over a network that falls silent", () => {
  const { server, proxy } = bench();
  const host = "127.0.0.1";

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
    // Given up, as leases and as renewals have one each, and tried anew.
    await until("other connections", () => cable.counts.connections.made >= made + 2, 10_000);
    await cable.heal();
    await until("a renewal", () => lease.renew().then(() => true, () => false), 10_000);
    await until("a grant", () => locks.tryAcquire("next").then((one) => one !== null, () => false));
    expect(lease.state).toBe("held");
  });
});
