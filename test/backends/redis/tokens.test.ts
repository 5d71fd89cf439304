import { expect, it } from "vitest";
import { Keys, slotOf } from "../../../src/backends/redis/keys.js";
import { redis } from "../../../src/backends/redis/open.js";
import { GuaranteeError } from "../../../src/core/errors.js";
import { describeOn } from "../../servers/find.js";
import { redisProgram, startRedis, startRedisCluster } from "../../servers/redis.js";
import { bench, call, client, libraries } from "./bench.js";

const DAY_MS = 24 * 3_600_000;
const ODD_NAMES = [
  "a", "{a}", "}{", "{}", "{}x", "}", "{", "a}b{c}", "%", "%7D", "%257D", "é{😀}", "a b", "a\nb",
  "*", "[x]", "\\", "x".repeat(512), ":q", "a}:q", "{a}:w",
];

describeOn(redisProgram, "tokens and keys of the redis backend", () => {
  const { server, backend, tenure } = bench();

  it.each(libraries)("counts on exactly above 2^53, also through JSON (case 31, %s)", async (library) => {
    const redis = await server(startRedis());
    await redis.command("HSET", "tenure:{big}", "t", String(2n ** 53n - 2n));
    const locks = await tenure(redis.port, { library });
    const seen: bigint[] = [];
    for (let i = 0; i < 3; i++) {
      const lease = await locks.acquire("big");
      const { token } = JSON.parse(JSON.stringify({ token: String(lease.token) })) as {
        token: string;
      };
      seen.push(BigInt(token));
      expect((await locks.inspect("big"))?.token).toBe(lease.token);
      await lease.renew();
      expect(await lease.release()).toBe("released");
    }
    expect(seen).toEqual([2n ** 53n - 1n, 2n ** 53n, 2n ** 53n + 1n]);
    // Such a counter is ahead of the time: its hash stays until the time has passed it.
    const leftMs = Number(await redis.command("PTTL", "tenure:{big}"));
    expect(leftMs).toBeGreaterThan(200 * 365 * DAY_MS);
  });

  it("goes on above the last token after the counter was lost (cases 25, 30)", async () => {
    const redis = await server(startRedis());
    const locks = await tenure(redis.port);
    let last = 0n;
    for (const lose of [
      () => redis.command("FLUSHALL"),
      () => redis.command("DEL", "tenure:{lost}"),
      () => redis.restart(),
    ]) {
      const lease = await locks.acquire("lost", { renew: false, wait: "30s" });
      expect(lease.token).toBeGreaterThan(last);
      last = lease.token;
      await lose();
    }
    const lease = await locks.acquire("lost", { wait: "30s" });
    expect(lease.token).toBeGreaterThan(last);
  });

  it("counts on from the last token when the server's clock is behind it", async () => {
    const redis = await server(startRedis());
    const ahead = BigInt(Date.now() + 60_000) * 1_000n;
    await redis.command("HSET", "tenure:{ahead}", "t", String(ahead));
    const locks = await tenure(redis.port);
    const lease = await locks.acquire("ahead");
    expect(lease.token).toBe(ahead + 1n);
    const leftMs = Number(await redis.command("PTTL", "tenure:{ahead}"));
    expect(leftMs).toBeGreaterThan(60_000 + 2 * DAY_MS);
  });

  it("keeps no counter for ever: every key but the store's id has its end (case 33)", { timeout: 180_000 }, async () => {
    const redis = await server(startRedis());
    const locks = await backend(redis.port);
    const acquire = async (i: number): Promise<void> => {
      const answer = await locks.acquire({ name: `n${i}`, holder: `h${i}`, ttlMs: 1_000 }, call);
      if ("grant" in answer && i % 2 === 0) await locks.release([answer.grant], call);
    };
    await Promise.all(Array.from({ length: 2_000 }, (_, i) => acquire(i)));
    await locks.acquire({ name: "long", holder: "h", ttlMs: 40 * DAY_MS }, call);
    const keys = (await redis.command("KEYS", "*")) as string[];
    expect(keys).toHaveLength(2_002);
    for (const key of keys) {
      const leftMs = Number(await redis.command("PTTL", key));
      if (key === "tenure:store") expect(leftMs).toBe(-1);
      else if (key === "tenure:{long}") expect(leftMs).toBeGreaterThan(41 * DAY_MS);
      else {
        expect(leftMs).toBeGreaterThan(DAY_MS);
        expect(leftMs).toBeLessThan(3 * DAY_MS);
      }
    }
  });

  it("keeps a lease of 40 days over a short one before and after it", async () => {
    const redis = await server(startRedis());
    const locks = await backend(redis.port);
    for (const ttlMs of [1_000, 40 * DAY_MS, 1_000]) {
      const answer = await locks.acquire({ name: "mixed", holder: `h${ttlMs}`, ttlMs }, call);
      if (!("grant" in answer)) throw new Error("held");
      const leftMs = Number(await redis.command("PTTL", "tenure:{mixed}"));
      expect(leftMs).toBeGreaterThan(ttlMs + DAY_MS);
      expect(await locks.release([answer.grant], call)).toEqual(["released"]);
    }
  });

  it("gives 40 clients distinct tokens in the order of the grants (case 32)", { timeout: 180_000 }, async () => {
    const redis = await server(startRedis());
    const clients = await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        tenure(redis.port, { library: libraries[i % 2]! }),
      ),
    );
    const inOrder: bigint[] = [];
    const work = async (i: number): Promise<void> => {
      for (let turn = 0; turn < 10; turn++) {
        const name = { ttl: 60_000, wait: 170_000 } as const;
        await clients[i % 8]!.hold("many", name, ({ token }) => void inOrder.push(token));
      }
    };
    await Promise.all(Array.from({ length: 40 }, (_, i) => work(i)));
    expect(inOrder).toHaveLength(400);
    expect(inOrder).toEqual([...new Set(inOrder)].sort((a, b) => (a < b ? -1 : 1)));
  });

  it("has all keys of a name in one slot, and finds the name again (case 36)", async () => {
    const [node, ...others] = await startRedisCluster();
    await server(Promise.resolve(node!));
    for (const other of others) await server(Promise.resolve(other));
    const keys = new Keys("tenure:");
    for (const name of ODD_NAMES) {
      const all = [...keys.ofQueue(name), keys.channel("process", name, true)];
      const slots = await Promise.all(all.map((key) => node!.command("CLUSTER", "KEYSLOT", key)));
      expect(new Set(slots).size, name).toBe(1);
      expect(slotOf(keys.lease(name))).toBe(slots[0]);
      expect(keys.nameOf(keys.lease(name))).toBe(name);
      expect(keys.nameOf(keys.ofQueue(name)[1])).toBeUndefined();
    }
    for (const key of ["tenure:store", "tenure:{}", "tenure:{a}b}", "other:{a}", "tenure:{%41}"]) {
      expect(keys.nameOf(key), key).toBeUndefined();
    }
  });

  it("refuses a cluster behind a client that knows no slots", async () => {
    const [node, ...others] = await startRedisCluster();
    await server(Promise.resolve(node!));
    for (const other of others) await server(Promise.resolve(other));
    await expect(tenure(node!.port)).rejects.toThrow(GuaranteeError);
    await expect(tenure(node!.port)).rejects.toThrow(/pass a cluster client/);
  });

  it("checks its options before any I/O, naming option and value", () => {
    const make = (settings: object) => (): unknown => redis(client(1), settings);
    expect(make({ fair: "yes" })).toThrow(/fair must be true or false, got "yes"/);
    expect(make({ replicas: -1 })).toThrow(/replicas must be a whole number, 0 or more, got -1/);
    expect(make({ replicas: 1.5 })).toThrow(RangeError);
    expect(make({ prefix: "a{b}" })).toThrow(/prefix must be text without braces/);
    expect(make({ storeId: "" })).toThrow(/storeId/);
    expect(() => redis({} as never)).toThrow(TypeError);
    expect(() => redis("http://127.0.0.1")).toThrow(/url must be/);
  });
});
