import { Cluster as IoCluster, Redis as IoRedis } from "ioredis";
import { Cluster as IoValkeyCluster, Redis as IoValkey } from "iovalkey";
import { createClient, createCluster } from "redis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { OutcomeUnknownError, UnavailableError } from "../../../src/core/errors.js";
import type { RedisClient } from "../../../src/drivers/redis/client.js";
import { redisCommands } from "../../../src/drivers/redis/commands.js";
import { explainRedis } from "../../../src/drivers/redis/errors.js";
import { openBesideRedis, openRedis, type RedisLibrary } from "../../../src/drivers/redis/open.js";
import { describeOn } from "../../servers/find.js";
import {
  disposeAll,
  redisProgram,
  startRedis,
  startRedisCluster,
  type RedisServer,
} from "../../servers/redis.js";

interface OpenClient {
  readonly client: RedisClient;
  close(): void;
}

const quiet = (): void => undefined;

const singles: Readonly<Record<RedisLibrary, (url: string) => Promise<OpenClient>>> = {
  redis: async (url) => {
    const client = createClient({ url }).on("error", quiet);
    await client.connect();
    return { client, close: () => client.destroy() };
  },
  ioredis: async (url) => {
    const client = new IoRedis(url).on("error", quiet);
    return { client, close: () => client.disconnect() };
  },
  iovalkey: async (url) => {
    const client = new IoValkey(url).on("error", quiet);
    return { client, close: () => client.disconnect() };
  },
};

const clusters: Readonly<
  Record<RedisLibrary, (nodes: readonly RedisServer[]) => Promise<OpenClient>>
> = {
  redis: async (nodes) => {
    const client = createCluster({ rootNodes: nodes.map(({ url }) => ({ url })) });
    await client.connect();
    return { client, close: () => client.destroy() };
  },
  ioredis: async (nodes) => {
    const client = new IoCluster(nodes.map(({ port }) => ({ host: "127.0.0.1", port })));
    return { client, close: () => client.disconnect() };
  },
  iovalkey: async (nodes) => {
    const client = new IoValkeyCluster(nodes.map(({ port }) => ({ host: "127.0.0.1", port })));
    return { client, close: () => client.disconnect() };
  },
};

const libraries = Object.keys(singles) as RedisLibrary[];
const SCRIPT = "redis.call('set', KEYS[1], ARGV[1]) return {redis.call('get', KEYS[1]), 7, false}";

describeOn(redisProgram, "the Redis driver", () => {
  describe.each(libraries)("%s", (library) => {
    let server: RedisServer;
    let opened: OpenClient;

    beforeAll(async () => {
      server = await startRedis();
      opened = await singles[library](server.url);
    });
    afterAll(async () => {
      opened?.close();
      await server?.dispose();
    });

    it("sends commands and runs scripts, after SCRIPT FLUSH as well", async () => {
      const commands = redisCommands(opened.client);
      expect(await commands.send(["SET", "k é", "välue"])).toBe("OK");
      expect(await commands.send(["GET", "k é"])).toBe("välue");
      for (let run = 0; run < 2; run++) {
        await server.command("SCRIPT", "FLUSH");
        await server.command("CONFIG", "RESETSTAT");
        expect(await commands.evaluate(SCRIPT, ["k"], ["ü"])).toEqual(["ü", 7, null]);
        expect(await commands.evaluate(SCRIPT, ["k"], ["ü"])).toEqual(["ü", 7, null]);
        const calls = await server.calls();
        expect([calls.get("evalsha"), calls.get("eval")]).toEqual([2, 1]);
      }
      expect(await commands.primaries()).toEqual([commands]);
    });

    it("tells refusals of the server apart", async () => {
      const commands = redisCommands(opened.client);
      const refused = async (args: string[]): Promise<unknown> => {
        const error = await commands.send(args).then(() => undefined, (caught: unknown) => caught);
        return explainRedis(error, { during: "try", backend: "redis" });
      };
      await commands.send(["RPUSH", "list", "x"]);
      expect(await refused(["GET", "list"])).toMatchObject({
        family: "unavailable",
        retryable: false,
        message: expect.stringContaining("value of another type"),
      });
      await server.command("CONFIG", "SET", "maxmemory", 1);
      expect(await refused(["SET", "k", "v"])).toMatchObject({
        family: "unavailable",
        retryable: true,
        message: expect.stringContaining("out of memory"),
      });
      const script = "return redis.call('set', KEYS[1], 'v')";
      expect(await refused(["EVAL", script, "1", "k"])).toMatchObject({ family: "unavailable" });
      await server.command("CONFIG", "SET", "maxmemory", 0);
      await server.command("REPLICAOF", "127.0.0.1", 1);
      expect(await refused(["EVAL", script, "1", "k"])).toMatchObject({
        family: "unavailable",
        retryable: true,
        message: expect.stringContaining("read-only replica"),
      });
      await server.promote();
    });

    it("hears messages on a connection of its own", async () => {
      const own = openBesideRedis(opened.client);
      await own.connected;
      const heard: string[] = [];
      let tell = quiet;
      const both = new Promise<void>((resolve) => (tell = resolve));
      const hear = (message: string): void => {
        if (heard.push(message) === 2) tell();
      };
      await own.channels.subscribe("channel", hear);
      await server.command("PUBLISH", "other", "no");
      expect(await server.command("PUBLISH", "channel", "one")).toBe(1);
      expect(await server.command("PUBLISH", "channel", "two")).toBe(1);
      await both;
      expect(heard).toEqual(["one", "two"]);
      await own.channels.unsubscribe("channel", hear);
      expect(await server.command("PUBLISH", "channel", "three")).toBe(0);
      own.close();
    });

    it("on connections of its own, fails at once when the server is gone, and comes back", async () => {
      for (const make of [
        () => openRedis(server.url, { library }),
        () => Promise.resolve(openBesideRedis(opened.client)),
      ]) {
        const own = await make();
        await own.connected;
        await own.commands.send(["SET", "k", "1"]);
        await server.freeze();
        const pending = own.commands.send(["INCR", "k"]).catch((error: unknown) => error);
        // It is written once the event loop has come round.
        await new Promise((resolve) => setImmediate(resolve));
        await server.kill();
        const lost = await pending;
        expect(explainRedis(lost, { during: "try" })).toBeInstanceOf(OutcomeUnknownError);
        const refused = await own.commands.send(["INCR", "k"]).catch((error: unknown) => error);
        expect(explainRedis(refused, { during: "try" })).toBeInstanceOf(UnavailableError);
        await server.start();
        await answers(() => own.commands.send(["PING"]));
        expect(await own.commands.send(["GET", "k"])).toBeNull();
        own.close();
        const ended = await own.commands.send(["PING"]).catch((error: unknown) => error);
        expect(explainRedis(ended, { during: "try" })).toBeInstanceOf(UnavailableError);
      }
    });

    it("says at once that nobody listens, without the password", async () => {
      const url = `redis://user:hush-hush@127.0.0.1:1`;
      const own = await openRedis(url, { library });
      const error = await own.connected.catch((caught: unknown) => caught as Error);
      expect(error).toBeInstanceOf(UnavailableError);
      expect(String(error)).toMatch(/ECONNREFUSED/);
      expect(JSON.stringify([error, String((error as Error).cause)])).not.toContain("hush");
      own.close();
    });

    it("never shows the password that the server refused", async () => {
      await server.command("ACL", "SETUSER", "user", "on", ">right", "~*", "+@all");
      const { port } = server;
      const own = await openRedis(`redis://user:hush-hush@127.0.0.1:${port}`, { library });
      const error = await own.connected.catch((caught: unknown) => caught as Error);
      expect(error).toMatchObject({ family: "unavailable", retryable: false });
      const { inspect } = await import("node:util");
      expect(inspect(error, { depth: 9 })).not.toContain("hush");
      own.close();
    });
  });

  describe("on a cluster", () => {
    let nodes: readonly RedisServer[] = [];

    beforeAll(async () => {
      nodes = await startRedisCluster();
    });
    afterAll(() => disposeAll(nodes));

    it.each(libraries)("%s asks the right node, finds all primaries, hears sharded", async (lib) => {
      const opened = await clusters[lib](nodes);
      const own = openBesideRedis(opened.client);
      await own.connected;
      try {
        const commands = redisCommands(opened.client);
        expect(commands.isCluster).toBe(true);
        const names = Array.from({ length: 20 }, (_, i) => `key-${i}`);
        for (const key of names) {
          expect(await commands.evaluate(SCRIPT, [key], [key])).toEqual([key, 7, null]);
          expect(await own.commands.send(["GET", key], key)).toBe(key);
        }
        const primaries = await commands.primaries();
        const found = await Promise.all(primaries.map((node) => node.send(["KEYS", "key-*"])));
        expect(found.flat().sort()).toEqual(names.sort());
        for (const channel of ["a", "b", "c", "d", "e"]) {
          let tell: (message: string) => void = quiet;
          const heard = new Promise<string>((resolve) => (tell = resolve));
          await own.channels.subscribe(channel, tell);
          await commands.send(["SPUBLISH", channel, "m"], channel);
          expect(await heard).toBe("m");
        }
      } finally {
        own.close();
        opened.close();
      }
    });
  });

  it.each([
    "OOM command not allowed when used memory > 'maxmemory'.",
    "ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -OOM not allowed",
    "@user_script: 12: -READONLY You can't write against a read only replica.",
  ])("knows a refusal, also within a script before Redis 7: %s", (text) => {
    const told = explainRedis(new Error(text), { during: "try" });
    expect(told).toBeInstanceOf(UnavailableError);
    expect(told.message).toMatch(/OOM|READONLY/);
  });

  it("refuses what is no client", () => {
    for (const wrong of [null, "redis://x", {}, { get: quiet, set: quiet }]) {
      expect(() => redisCommands(wrong)).toThrow(TypeError);
    }
  });

  it("refuses other URLs without repeating them", async () => {
    for (const url of ["http://user:hush@x", "redis://user:hu sh@x:99999", "redis:", "hush"]) {
      const error: unknown = await openRedis(url).catch((caught: unknown) => caught);
      expect(error).toBeInstanceOf(TypeError);
      expect((error as Error).message).not.toContain("hush");
      expect((error as Error).cause).toBeUndefined();
    }
  });
});

/** Resolves once `ask` is answered: the libraries connect again after a pause. */
async function answers(ask: () => Promise<unknown>): Promise<void> {
  for (;;) {
    try {
      await ask();
      return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
}
