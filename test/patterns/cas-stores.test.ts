import { createClient } from "redis";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { etcdClient } from "../../src/backends/etcd/open.js";
import { cas, type Cas } from "../../src/cas/open.js";
import { etcdProgram, startEtcd, type EtcdServer } from "../servers/etcd.js";
import { describeOn } from "../servers/find.js";
import { redisProgram, startRedis, type RedisServer } from "../servers/redis.js";
import { casSuite, type CasSpot } from "./cas-suite.js";

let count = 0;

function spotAt(url: string): CasSpot {
  const prefix = `t${++count}:`;
  return {
    open: async (options) => {
      const values: Cas = await cas(url as "redis://", { prefix, ...options });
      onTestFinished(() => values.close());
      return values;
    },
    forChildren: { url, options: { prefix } as object },
  };
}

describeOn(redisProgram, "compare-and-swap on Redis", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
  }, 60_000);
  afterAll(async () => {
    await server?.dispose();
  });

  casSuite("redis", async () => spotAt(server.url));

  it("does not take a key that was lost and made again for the old one", async () => {
    const values = await spotAt(server.url).open({ prefix: "lost:" });
    const before = await values.write("k", "old", { version: null });
    await server.command("FLUSHALL");
    const after = await values.write("k", "new", { version: null });
    expect(after).toBeGreaterThan(before);
    await expect(values.write("k", "late", { version: before })).rejects.toMatchObject({
      version: after,
    });
  });

  it("takes a client of the caller's, and tells of foreign keys", async () => {
    const client = createClient({ url: server.url });
    await client.connect();
    onTestFinished(() => client.close());
    const values = await cas(client as never, { prefix: "mine:" });
    await client.set("mine:text", "x");
    await expect(values.read("text")).rejects.toMatchObject({ retryable: false });
    await values.close();
    expect(await client.get("mine:text")).toBe("x");
  });
});

describeOn(etcdProgram, "compare-and-swap on etcd", () => {
  let server: EtcdServer;
  beforeAll(async () => {
    server = await startEtcd();
  }, 60_000);
  afterAll(async () => {
    await server?.dispose();
  });

  casSuite("etcd", async () => spotAt(server.url));

  it("takes a client of the caller's, and tells of foreign keys", async () => {
    const client = etcdClient(server.url);
    onTestFinished(() => client.close());
    const values = await cas(client, { prefix: "mine/" });
    const key = Buffer.from("mine/text").toString("base64");
    await server.call("kv/put", { key, value: Buffer.from("x").toString("base64") });
    await expect(values.read("text")).rejects.toThrow(/did not write/);
    await expect(values.write("text", 1, { version: null })).rejects.toThrow(/did not write/);
    await values.close();
    expect(await (await cas(client, { prefix: "mine/" })).read("other")).toBeNull();
  });
});
