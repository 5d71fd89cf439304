import { expect, it } from "vitest";
import { UnavailableError } from "../../../src/core/errors.js";
import { describeOn } from "../../servers/find.js";
import { RedisServer, redisProgram, startRedis } from "../../servers/redis.js";
import { bench, libraries, until } from "./bench.js";

describeOn(redisProgram, "redis backend when answers and commands are late", () => {
  const { server, proxy, tenure, events } = bench();

  it.each(libraries)(
    "counts from the sending, and has three renewals out at most (slow-store, scenario 16, %s)",
    async (library) => {
      const redis = await server(startRedis());
      const cable = await proxy(redis.port);
      const locks = await tenure(cable.port, { library });
      const ttl = 8_000;
      const lease = await locks.acquire("slow", { ttl });
      // Renewals have a connection of their own, which is made by the first.
      await lease.renew();
      // Longer than the time between two renewals.
      const lateMs = 3_600;
      cable.delay(lateMs / 2);
      await redis.command("CONFIG", "RESETSTAT");
      const sinceMs = performance.now();
      const renewed = (): number => events.filter(({ type }) => type === "renewed").length;
      const before = renewed();
      for (let renewals = 1; renewals <= 3; renewals++) {
        await until("a renewal", () => renewed() >= before + renewals);
        expect(lease.remaining()).toBeLessThanOrEqual(ttl - lateMs);
      }
      const tookMs = performance.now() - sinceMs;
      const scripts = (await redis.calls()).get("evalsha") ?? 0;
      expect(scripts).toBeGreaterThanOrEqual(3);
      // Three are out at most, so three in the time of one answer.
      expect(scripts).toBeLessThanOrEqual(3 * (tookMs / lateMs + 1));
      await cable.heal();
      await until("it to be held for certain", () => lease.state === "held");
    },
  );

  it.each(libraries)("calls a server that is loading unavailable, and comes back to it (%s)", async (library) => {
    const redis = await server(slowToLoad());
    const holder = await tenure(redis.port, { library });
    const waiter = await tenure(redis.port, { library });
    const lease = await holder.acquire("loading", { ttl: 60_000 });
    for (let i = 0; i < 20; i++) {
      const pairs = Array.from({ length: 100 }, (_, j) => [`filler:${i}:${j}`, "x"]);
      await redis.command("MSET", ...pairs.flat());
    }
    await redis.command("SAVE");
    await redis.kill();
    const started = redis.start();
    await until("it to load", async () => {
      const info = await redis.info("persistence").catch(() => undefined);
      return info?.["loading"] === "1";
    });
    const refused = await waiter.tryAcquire("other").catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(UnavailableError);
    await expect(lease.renew()).rejects.toBeInstanceOf(UnavailableError);
    expect(lease.state).toBe("unknown");
    await redis.command("CONFIG", "SET", "key-load-delay", 0);
    await started;
    await until("a renewal", () => lease.renew().then(() => true, () => false));
    expect(lease.state).toBe("held");
    await until("the other's connection", async () => {
      const other = await waiter.tryAcquire("other").catch(() => null);
      return (await other?.release()) === "released";
    });
    expect(await waiter.tryAcquire("loading")).toBeNull();
  });
});

/** Takes 4 ms for each key that it reads at its start, and answers meanwhile that it loads. */
async function slowToLoad(): Promise<RedisServer> {
  const redis = new RedisServer({
    "enable-debug-command": "yes",
    "key-load-delay": 4_000,
    "loading-process-events-interval-bytes": 1_024,
  });
  await redis.start();
  return redis;
}
