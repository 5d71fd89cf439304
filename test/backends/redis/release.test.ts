import { Cluster } from "ioredis";
import { expect, it } from "vitest";
import { redis, type RedisSettings } from "../../../src/backends/redis/open.js";
import type { Backend, Grant } from "../../../src/core/backend.js";
import { describeOn } from "../../servers/find.js";
import {
  disposeAll,
  redisProgram,
  startRedis,
  startRedisCluster,
  startReplica,
} from "../../servers/redis.js";
import { bench, call, until } from "./bench.js";

/** Long enough for the plain release of a fresh grant, however slow the machine is. */
const LONG_MS = 3_600_000;
const SHORT_MS = 50;

/** A lease that is granted for long, and renewed to be over sooner. */
async function shortened(
  granting: Backend,
  renewing: Backend,
  name: string,
  ttlMs = SHORT_MS,
): Promise<Grant> {
  const request = { name, holder: `holder of ${name}`, ttlMs: LONG_MS };
  const answer = await granting.acquire(request, call);
  if (!("grant" in answer)) throw new Error(`${name} is held`);
  const { grant } = answer;
  expect(await renewing.renew([{ ...grant, ttlMs }], call)).toEqual(["renewed"]);
  return grant;
}

async function overInStore(backend: Backend, name: string): Promise<void> {
  await until("its end", async () => (await backend.inspect(name, call)) === null);
}

describeOn(redisProgram, "release of a lease that a renewal let end sooner", () => {
  const { server, backend } = bench();

  async function check(open: () => Promise<Backend>): Promise<void> {
    const [one, two] = [await open(), await open()];
    for (const renewing of [one, two]) {
      const who = renewing === one ? "own" : "other";
      const single = await shortened(one, renewing, `single ${who}`);
      await overInStore(one, single.name);
      expect(await one.release([single], call)).toEqual(["not-held"]);

      const several: Grant[] = [];
      for (let i = 0; i < 5; i++) several.push(await shortened(one, renewing, `${i} ${who}`));
      for (const { name } of several) await overInStore(one, name);
      const answers = await one.release(several, call);
      expect(answers).toEqual(several.map(() => "not-held"));
    }
    // What is live is released, though it ends sooner.
    const live = await shortened(one, two, "live", LONG_MS / 2);
    expect(await one.release([live], call)).toEqual(["released"]);
    expect(await one.inspect("live", call)).toBeNull();
  }

  it.each<RedisSettings>([{ fair: true }, { fair: false }])(
    "is not-held once the server's time is past it, on one server (%o)",
    async (settings) => {
      const { port } = await server(startRedis());
      await check(() => backend(port, settings));
    },
  );

  it("is not-held on a primary whose replica has to have the grants", async () => {
    const { port } = await server(startRedis());
    await server(startReplica(port));
    await check(() => backend(port, { replicas: 1 }));
  });

  it("is not-held on a cluster", async () => {
    const nodes = await startRedisCluster();
    const open: Backend[] = [];
    try {
      await check(async () => {
        const seeds = nodes.map(({ port }) => ({ host: "127.0.0.1", port }));
        const opened = redis(new Cluster(seeds, { lazyConnect: true }));
        open.push(opened);
        await opened.open!(call);
        return opened;
      });
    } finally {
      for (const opened of open) await opened.close();
      await disposeAll(nodes);
    }
  });

  it("is not-held in front of a line, which goes on", async () => {
    const { port } = await server(startRedis());
    const [one, two] = [await backend(port), await backend(port)];
    if (two.waiting.kind !== "queue") throw new Error("no line");
    const request = { name: "line", holder: "first", ttlMs: LONG_MS };
    const answer = await one.acquire(request, call);
    if (!("grant" in answer)) throw new Error("held");
    const waiter = { name: "line", holder: "second", ttlMs: LONG_MS };
    const ticket = await two.waiting.enqueue(waiter, call);
    const { grant } = answer;
    expect(await one.renew([{ ...grant, ttlMs: SHORT_MS }], call)).toEqual(["renewed"]);
    const { waiting } = two;
    await until("its turn", async () => {
      const [standing] = await waiting.touch([ticket], call);
      return typeof standing === "object" && standing.holder === "second";
    });
    expect(await one.release([grant], call)).toEqual(["not-held"]);
  });

  it("leaves the plain release to a renewal that ends no sooner", async () => {
    const redisServer = await server(startRedis());
    const one = await backend(redisServer.port);
    const request = { name: "plain", holder: "h", ttlMs: LONG_MS };
    const answer = await one.acquire(request, call);
    if (!("grant" in answer)) throw new Error("held");
    expect(await one.renew([answer.grant], call)).toEqual(["renewed"]);
    await redisServer.command("CONFIG", "RESETSTAT");
    expect(await one.release([answer.grant], call)).toEqual(["released"]);
    const calls = await redisServer.calls();
    expect(calls.get("hdel")).toBe(1);
    expect(calls.get("evalsha") ?? 0).toBe(0);
  });
});
