import { createClient } from "redis";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { etcdClient } from "../../src/backends/etcd/open.js";
import { cas, ConflictError, type Cas } from "../../src/cas/open.js";
import { redisCas } from "../../src/cas/redis.js";
import { explainRedis } from "../../src/drivers/redis/errors.js";
import { borrowRedis } from "../../src/drivers/redis/open.js";
import { platform } from "../../src/platform/index.js";
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
  });
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

  it("counts once what a client has sent twice, whatever others have written between", async () => {
    const { commands, close } = await borrowRedis(server.url);
    let between = async (): Promise<void> => undefined;
    const values = redisCas({
      runtime: platform(),
      commands: {
        evaluate: async (...call) => {
          await commands.evaluate(...call);
          await between();
          return await commands.evaluate(...call);
        },
      },
      explain: explainRedis,
      ...{ prefix: "twice:", timeoutMs: 5_000, maxBytes: 100, close },
    });
    onTestFinished(() => values.close());
    const add = (n?: number): number => (n ?? 0) + 1;
    const own = [await values.update("n", add), await values.update("n", add)];
    expect(own).toMatchObject([
      { value: 1, attempts: 1 },
      { value: 2, attempts: 1 },
    ]);
    expect(await values.read("n")).toEqual({ value: 2, version: own[1]!.version });
    const others = await spotAt(server.url).open({ prefix: "twice:" });
    let isNext = false;
    between = async () => {
      // After the first copy of the write, not of the read.
      isNext = !isNext;
      if (isNext) return;
      for (let n = 0; n < 31; n++) await others.update("n", add);
    };
    expect(await values.update("n", add)).toMatchObject({ value: 3, attempts: 1 });
    between = async () => undefined;
    expect(await values.read("n")).toMatchObject({ value: 34 });
    const { version } = own[1]!;
    await expect(values.write("n", 0, { version })).rejects.toBeInstanceOf(ConflictError);
    const kept = String(await server.command("HGET", "twice:n", "h"));
    expect(kept.match(/\S+:\d+ /g)).toHaveLength(32);
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
  });
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
