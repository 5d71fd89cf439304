import { Cluster } from "ioredis";
import { afterEach, beforeEach, expect, it } from "vitest";
import { redlock, type RedisClient } from "../../../src/backends/redlock/open.js";
import { connect } from "../../../src/connect.js";
import {
  GuaranteeError,
  NotAcquiredError,
  OutcomeUnknownError,
  UnavailableError,
} from "../../../src/core/errors.js";
import { validityMs } from "../../../src/core/deadline.js";
import { describeOn } from "../../servers/find.js";
import { redisProgram, startRedis } from "../../servers/redis.js";
import { Bench, clientOf, patientClient, until } from "./bench.js";
import { running } from "../redis/bench.js";

const efficiency = { purpose: "efficiency", timeout: 30_000 } as const;

describeOn(redisProgram, "redlock on three servers", () => {
  let bench: Bench;

  beforeEach(async () => {
    bench = await Bench.start(3);
  });
  afterEach(() => bench[Symbol.asyncDispose]());

  const urls = (): string[] => bench.servers.map(({ url }) => url);
  const clients = (): RedisClient[] => urls().map(patientClient);

  it("is refused without the purpose efficiency, before any I/O", async () => {
    const url = `redlock:${urls().join(",")}`;
    for (const server of bench.servers) await server.command("CONFIG", "RESETSTAT");
    await expect(connect(url)).rejects.toBeInstanceOf(GuaranteeError);
    const backend = redlock(urls());
    await expect(connect(backend as never)).rejects.toBeInstanceOf(GuaranteeError);
    await backend.close();
    for (const server of bench.servers) expect((await server.calls()).has("hello")).toBe(false);
    const tenure = await connect(url, efficiency);
    const lease = await tenure.acquire("x");
    expect(lease.token).toBeUndefined();
    await tenure.close();
  });

  it("has one id, whoever comes first", async () => {
    const opening = [1, 2, 3, 4].map(() => connect(redlock(clients()), efficiency));
    const tenures = await Promise.all(opening);
    expect(new Set(tenures.map(({ storeId }) => storeId)).size).toBe(1);
    await bench.servers[0]!.restart();
    const later = await connect(redlock(clients()), efficiency);
    expect(later.storeId).toBe(tenures[0]!.storeId);
    for (const tenure of [...tenures, later]) await tenure.close();
  });

  it.each([
    ["most", ["b", "a", "b"], "b"],
    ["one each", ["c", "a", "b"], "a"],
  ])("keeps the id that %s of the servers had, when one of them is lost", async (_what, ids, id) => {
    for (const [i, server] of bench.servers.entries()) {
      await server.command("SET", "tenure:redlock:id", ids[i]!);
    }
    for (const lost of [0, 1, 2]) {
      const tenure = await connect(redlock(clients()), efficiency);
      expect(tenure.storeId).toBe(id);
      await tenure.close();
      await bench.servers[lost]!.restart();
    }
  });

  it("goes on with a server that is down, and takes it in when it is back", async () => {
    await bench.servers[2]!.kill();
    const tenure = await connect(redlock(clients()), efficiency);
    const lease = await tenure.acquire("x");
    expect((await Promise.allSettled(bench.servers.map((s) => s.command("DBSIZE"))))[2]!.status).toBe(
      "rejected",
    );
    await lease.release();
    await bench.servers[2]!.start();
    await until(async () => {
      const again = await tenure.acquire("x");
      const all = (await bench.holders("x")).every((holder) => holder === again.holder);
      await again.release();
      return all;
    });
    await tenure.close();
  });

  it("cannot be opened without a majority, and does not say the password", async () => {
    for (const server of bench.servers.slice(1)) await server.kill();
    const secret = urls().map((url) => url.replace("//", "//user:hush@"));
    const error: unknown = await connect(redlock(secret), efficiency).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(UnavailableError);
    expect((error as Error).message).toMatch(/ECONNREFUSED/);
    expect((error as Error).message).not.toContain("hush");
  });

  it("refuses what are not several independent servers", async () => {
    const [a, b] = urls() as [string, string];
    expect(() => redlock([a, b])).toThrow(RangeError);
    expect(() => redlock(a as never)).toThrow(TypeError);
    expect(() => redlock([a, b, "http://x"])).toThrow(TypeError);
    expect(() => redlock([a, b, {} as never])).toThrow(TypeError);
    const cluster = new Cluster([{ host: "127.0.0.1", port: 1 }], { lazyConnect: true });
    expect(() => redlock([a, b, cluster])).toThrow(/no cluster/);
    await expect(connect(redlock([a, b, `${a}/1`]), efficiency)).rejects.toThrow(
      /two of them are the same server/,
    );
    const node = await startRedis({ "cluster-enabled": "yes" });
    await expect(connect(redlock([a, b, node.url]), efficiency)).rejects.toThrow(/cluster/);
    await node.dispose();
  });

  it("takes a caller's clients, and leaves them alone", async () => {
    const clients = bench.servers.map(clientOf);
    const tenure = await connect(redlock(clients), efficiency);
    await (await tenure.acquire("x")).release();
    await tenure.close();
    expect(clients.map(({ status }) => status)).toEqual(["wait", "wait", "wait"]);
  });

  it("keeps a lease that one server refuses to renew, and releases nothing (case 10)", async () => {
    const { tenure } = await bench.contender();
    const lease = await tenure.acquire("x", { ttl: 6_000 });
    await bench.servers[1]!.command("DEL", "tenure:redlock:lock:x");
    for (const server of bench.servers) await server.command("CONFIG", "RESETSTAT");
    await bench.servers[1]!.command("SET", "tenure:redlock:lock:x", "b n 600000 ", "PX", 600_000);
    const before = Date.now();
    await until(async () => {
      const renewals = await Promise.all(bench.servers.map((server) => server.calls()));
      return renewals.every((calls) => (calls.get("evalsha") ?? 0) >= 3);
    });
    expect(Date.now() - before).toBeGreaterThan(3_000);
    expect(lease.state).toBe("held");
    expect(lease.signal.aborted).toBe(false);
    expect(await bench.holders("x")).toEqual([lease.holder, "b", lease.holder]);
    for (const server of bench.servers) expect((await server.calls()).has("del")).toBe(false);
    expect(await lease.release()).toBe("released");
    expect(await bench.holders("x")).toEqual([null, "b", null]);
  });

  it("counts from the request that was granted, not from the reply or the first try (case 11)", async () => {
    const [a, b] = [await bench.contender(), await bench.contender()];
    const ttl = 60_000;
    const held = await a.tenure.acquire("x", { ttl });
    const waiting = b.tenure.acquire("x", { ttl, renew: false });
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    const freedMs = performance.now();
    await held.release();
    const waited = await waiting;
    const [store] = await bench.lefts("x");
    const remaining = waited.remaining();
    expect(remaining).toBeGreaterThan(validityMs(ttl) - (performance.now() - freedMs) - 100);
    expect(remaining).toBeLessThanOrEqual(store!);
    await waited.release();
    const lateMs = 1_000;
    for (const network of b.networks) network.delay(lateMs, "reply");
    const late = await b.tenure.acquire("y", { ttl, renew: false });
    expect(late.remaining()).toBeGreaterThan(0);
    expect(late.remaining()).toBeLessThanOrEqual(ttl - lateMs);
    const lefts = await bench.lefts("y");
    expect(Math.min(...lefts)).toBeGreaterThanOrEqual(late.remaining());
  });

  it("is not in its own way after a lost reply, and leaves no orphan for long (case 20)", {
    timeout: 120_000,
  }, async () => {
    // What a broken connection leaves on one server is gone after this time, if not before.
    const ttl = 20_000;
    const { tenure, networks } = await bench.contender(10_000);
    for (const network of networks) network.silence("reply");
    const lost: unknown = await tenure.tryAcquire("x", { ttl: 5_000 }).catch((e: unknown) => e);
    expect(lost).toBeInstanceOf(OutcomeUnknownError);
    for (const network of networks) await network.heal();
    await until(async () => {
      const lease = await tenure.tryAcquire("x", { ttl }).catch(() => null);
      if (lease === null) return false;
      const theirs = (await bench.holders("x")).filter((holder) => holder === lease.holder);
      expect(theirs.length).toBeGreaterThanOrEqual(2);
      await lease.release();
      return true;
    });
    await until(async () => (await bench.holders("x")).every((holder) => holder === null));
  });

  it("rewrites the whole record when it takes an expired lease over (case 28)", async () => {
    const [a, b] = [await bench.contender(), await bench.contender()];
    await a.tenure.acquire("x", { ttl: 100, renew: false, holderInfo: { job: "old", n: 1 } });
    const lease = await b.tenure.acquire("x", { ttl: 60_000, holderInfo: { job: "new" } });
    const record = String(await bench.servers[0]!.command("GET", "tenure:redlock:lock:x"));
    expect(record).toMatch(new RegExp(`^${lease.holder} \\w+ 60000 `));
    expect(record).toContain('"job":"new"');
    expect(record).not.toContain('"n"');
    expect(Math.min(...(await bench.lefts("x")))).toBeGreaterThan(50_000);
  });

  it("grants one of two calls at once, and the loser does not touch the winner (case 29)", async () => {
    const { tenure } = await bench.contender();
    const outcomes = await Promise.allSettled(
      [1, 2].map(() => tenure.acquire("x", { ttl: 60_000, wait: 10_000 })),
    );
    const won = outcomes.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    const lost = outcomes.flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
    expect([won.length, lost.length]).toEqual([1, 1]);
    expect(lost[0]).toBeInstanceOf(NotAcquiredError);
    const { holder } = won[0]!;
    await until(async () => (await bench.holders("x")).every((seen) => seen === holder));
    expect(won[0]!.state).toBe("held");
  });

  it("is not slowed down by a server that hangs, which has no more when it wakes", async () => {
    const { tenure } = await bench.contender();
    const other = await bench.contender();
    await (await tenure.acquire("x")).release();
    await bench.servers[0]!.freeze();
    const ranMs = running();
    for (let i = 0; i < 20; i++) await (await tenure.acquire("x")).release();
    // Two hundred milliseconds for one straggler, five seconds for one call.
    expect(ranMs()).toBeLessThan(2_000);
    const lease = await tenure.acquire("x", { ttl: 6_000 });
    // Renewals go on: without them it would be over by now.
    await new Promise((resolve) => setTimeout(resolve, 7_000));
    expect(lease.signal.aborted).toBe(false);
    await until(() => lease.state === "held");
    expect(await other.tenure.tryAcquire("x")).toBeNull();
    expect(await lease.release()).toBe("released");
    await bench.servers[0]!.thaw();
    await until(async () => {
      const { length } = (await bench.holders("x")).filter((holder) => holder === null);
      const calls = await Promise.all(bench.servers.map((server) => server.calls()));
      const [first, second] = calls.map((each) => each.get("evalsha") ?? 0);
      return length === 3 && first! >= second! - 5;
    });
    const next = await other.tenure.tryAcquire("x");
    expect(next).not.toBeNull();
  });

  it("says unavailable, never held, when a majority refuses to serve (case 35)", async () => {
    const { tenure } = await bench.contender();
    const refusals: readonly (readonly (string | number)[])[] = [
      ["CONFIG", "SET", "maxmemory", 1],
      ["REPLICAOF", "127.0.0.1", 1],
    ];
    for (const refusal of refusals) {
      for (const server of bench.servers.slice(1)) await server.command(...refusal);
      const error: unknown = await tenure.tryAcquire("x").catch((e: unknown) => e);
      expect(error).toBeInstanceOf(UnavailableError);
      for (const server of bench.servers.slice(1)) {
        await server.command("CONFIG", "SET", "maxmemory", 0);
        await server.promote();
      }
    }
    await until(async () => (await bench.holders("x")).every((holder) => holder === null));
    expect(await tenure.tryAcquire("x")).not.toBeNull();
  });

  it("tells a stranger's value from a lease", async () => {
    const { tenure } = await bench.contender();
    const key = "tenure:redlock:lock:x";
    for (const value of [["SET", key, "mine"], ["RPUSH", key, "1"]] as const) {
      for (const server of bench.servers) {
        await server.command("DEL", key);
        await server.command(...value);
      }
      await expect(tenure.acquire("x")).rejects.toMatchObject({
        family: "unavailable",
        retryable: false,
        message: expect.stringContaining("not of Tenure's making"),
      });
    }
    expect((await tenure.acquire("y")).state).toBe("held");
  });

  it("lists leases by prefix, whatever stands in it", async () => {
    const { tenure } = await bench.contender();
    for (const name of ["a*b:1", "a*b:2", "axb:1", "a[b:1", "é:1"]) await tenure.acquire(name);
    const names = async (prefix: string): Promise<string[]> => {
      const found: string[] = [];
      for await (const { name } of tenure.list(prefix)) found.push(name);
      return found.sort();
    };
    expect(await names("a*b:")).toEqual(["a*b:1", "a*b:2"]);
    expect(await names("a[")).toEqual(["a[b:1"]);
    expect(await names("é")).toEqual(["é:1"]);
    expect((await names("")).length).toBe(5);
  });
});
