import { existsSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { afterEach, expect, it } from "vitest";
import { describeOn } from "../../servers/find.js";
import {
  disposeAll,
  redisProgram,
  startRedis,
  startRedisCluster,
  startRedisPair,
  type RedisServer,
} from "../../servers/redis.js";

describeOn(redisProgram, "the bench's Redis", () => {
  const started: RedisServer[] = [];
  const own = <S extends RedisServer>(server: S): S => {
    started.push(server);
    return server;
  };

  afterEach(async () => {
    const pids = started.map((server) => server.pid);
    await disposeAll(started.splice(0));
    for (const pid of pids) expect(existsSync(`/proc/${pid}`), `process ${pid}`).toBe(false);
    const folders = readdirSync(tmpdir()).filter((entry) =>
      entry.startsWith(`tenure-server-${process.pid}-`),
    );
    expect(folders).toEqual([]);
  });

  it("serves on a port of its own, and keeps nothing over a restart unless told", async () => {
    const [a, b] = [own(await startRedis()), own(await startRedis())];
    expect(a.port).not.toBe(b.port);
    await a.command("SET", "key é", "välue");
    expect(await a.command("GET", "key é")).toBe("välue");
    expect(await b.command("GET", "key é")).toBeNull();
    const { port, pid } = a;
    await a.restart();
    expect(a.port).toBe(port);
    expect(a.pid).not.toBe(pid);
    expect(await a.command("GET", "key é")).toBeNull();
  });

  it("keeps its data over SIGKILL with an append-only file that is always synced", async () => {
    const server = own(await startRedis({ appendonly: "yes", appendfsync: "always" }));
    await server.command("SET", "key", "value");
    await server.kill();
    expect(server.pid).toBeUndefined();
    await expect(server.command("PING")).rejects.toThrow(/ECONNREFUSED/);
    await server.start();
    expect(await server.command("GET", "key")).toBe("value");
  });

  it("falls silent while frozen, and answers what was asked meanwhile when thawed", async () => {
    const server = own(await startRedis());
    await server.freeze();
    const asked = server.command("INCR", "n");
    let answered = false;
    void asked.then(() => (answered = true));
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(answered).toBe(false);
    await server.thaw();
    expect(await asked).toBe(1);
  });

  it("can be ended while frozen", async () => {
    const server = own(await startRedis());
    await server.freeze();
    await server.stop();
    expect(server.pid).toBeUndefined();
    await server.start();
    await server.freeze();
  });

  it("tells with its log why it does not start", async () => {
    await expect(startRedis({ maxmemory: "nonsense" })).rejects.toThrow(/argument must be/);
  });

  it("follows a primary, and can be promoted once that is gone", async () => {
    const { primary, replica } = await startRedisPair();
    started.push(primary, replica);
    await primary.command("SET", "key", "value");
    await replica.caughtUp(primary);
    await expect(replica.command("SET", "key", "other")).rejects.toThrow(/READONLY/);
    await primary.kill();
    await replica.promote();
    expect(await replica.command("GET", "key")).toBe("value");
    expect(await replica.command("SET", "key", "other")).toBe("OK");
  });

  it("makes a cluster whose nodes share the slots", async () => {
    const nodes = await startRedisCluster();
    started.push(...nodes);
    const answers = await Promise.allSettled(nodes.map((node) => node.command("SET", "key", "v")));
    const refusals = answers.filter((answer) => answer.status === "rejected");
    expect(refusals.map(({ reason }) => String(reason))).toEqual([
      expect.stringMatching(/MOVED 12539 127.0.0.1:\d+/),
      expect.stringMatching(/MOVED 12539 127.0.0.1:\d+/),
    ]);
  });
});
