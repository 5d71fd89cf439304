import { expect, it } from "vitest";
import { ForeignKeyError } from "../../../src/backends/redis/open.js";
import { connect } from "../../../src/connect.js";
import type { Held } from "../../../src/core/backend.js";
import {
  LeaseLostError,
  OutcomeUnknownError,
  UnavailableError,
} from "../../../src/core/errors.js";
import { describeOn } from "../../servers/find.js";
import { redisProgram, startRedis, startReplica } from "../../servers/redis.js";
import { bench, call, libraries, until } from "./bench.js";

describeOn(redisProgram, "redis backend when things go wrong", () => {
  const { server, proxy, backend, tenure, events } = bench();

  it.each(libraries)("tells the holder in time when the server freezes (case 1, %s)", async (library) => {
    const redis = await server(startRedis());
    const locks = await tenure(redis.port, { library });
    const ttl = 6_000;
    const sentMs = performance.now();
    // Of two timers that are late after a pause the one due first still comes first.
    const atTtl = new Promise<string>((tell) => setTimeout(tell, ttl, "the TTL was over"));
    const lease = await locks.acquire("frozen", { ttl });
    await redis.freeze();
    const told = new Promise<string>((tell) =>
      lease.signal.addEventListener("abort", () => tell("the holder was told")),
    );
    expect(await Promise.race([told, atTtl])).toBe("the holder was told");
    const tookMs = performance.now() - sentMs;
    expect(lease.signal.reason).toBeInstanceOf(LeaseLostError);
    expect(lease.signal.reason).toMatchObject({ reason: "deadline" });
    expect(tookMs).toBeGreaterThan(ttl / 2);
    await until("the deadline", () => lease.state === "lost");
    expect(() => lease.assertHeld()).toThrow(LeaseLostError);
    await redis.thaw();
  });

  it("keeps a lease over errors for half its TTL (case 4)", async () => {
    const redis = await server(startRedis());
    const cable = await proxy(redis.port);
    const locks = await tenure(cable.port);
    const lease = await locks.acquire("flaky", { ttl: 20_000 });
    cable.refuse();
    cable.cut();
    await expect(lease.renew()).rejects.toThrow();
    expect(events.map(({ type }) => type)).toContain("unknown");
    expect(lease.state).toBe("unknown");
    await cable.heal();
    await until("a renewal", () => events.some(({ type }) => type === "renewed"));
    expect(lease.state).toBe("held");
    const release = async (): Promise<boolean> => (await lease.release()) === "released";
    await until("the release", () => release().catch(() => false));
    expect(events.filter(({ type }) => type === "lost")).toEqual([]);
  });

  it.each(["request", "reply"] as const)(
    "ends a lease whose %s alone is lost, and lets another in (case 14)",
    async (direction) => {
      const redis = await server(startRedis());
      const cable = await proxy(redis.port);
      const [cut, other] = [await tenure(cable.port), await tenure(redis.port)];
      const lease = await cut.acquire("cut", { ttl: 3_000 });
      cable.silence(direction);
      // With replies lost, renewals still arrive, and must end when the holder stops by itself.
      const next = await other.acquire("cut", { wait: 30_000 });
      expect(lease.state).toBe("lost");
      expect(next.token).toBeGreaterThan(lease.token);
    },
  );

  it("gives one grant to a holder whose reply was lost (cases 11, 20)", async () => {
    const redis = await server(startRedis());
    const cable = await proxy(redis.port);
    const [lossy, other] = [await backend(cable.port), await backend(redis.port)];
    const request = { name: "lost reply", holder: "me", ttlMs: 60_000 };
    // Loads the script: the lost reply is to be the grant, not NOSCRIPT.
    await lossy.acquire({ ...request, name: "warm" }, call);
    cable.silence("reply");
    const first = Promise.resolve(lossy.acquire(request, call)).catch((error: unknown) => error);
    const look = async (): Promise<Held | null> => other.inspect(request.name, call);
    await until("the grant", async () => (await look()) !== null);
    const shown = await look();
    expect(shown).toMatchObject({ holder: "me" });
    await cable.heal();
    expect(await first).toBeInstanceOf(OutcomeUnknownError);
    const isConnected = async (): Promise<boolean> => (await lossy.inspect("warm", call)) !== null;
    await until("a connection", () => isConnected().catch(() => false));
    const again = await lossy.acquire(request, call);
    expect(again).toMatchObject({ grant: { token: shown?.token } });
  });

  it("loads its scripts anew after SCRIPT FLUSH, once each (case 35)", async () => {
    const redis = await server(startRedis());
    const locks = await tenure(redis.port);
    const flush = (): Promise<unknown> => redis.command("SCRIPT", "FLUSH");
    await flush();
    await redis.command("CONFIG", "RESETSTAT");
    const lease = await locks.acquire("flushed");
    expect((await redis.calls()).get("eval")).toBe(1);
    await flush();
    await lease.renew();
    await flush();
    expect(await locks.inspect("flushed")).toMatchObject({ token: lease.token });
    const waiting = locks.acquire("flushed");
    await until("a waiter", async () => (await locks.inspect("flushed"))?.waiters === 1);
    await flush();
    expect(await lease.release()).toBe("released");
    await flush();
    await (await waiting).release();
    // Seven steps and the signs of life between them, each once after a flush.
    expect((await redis.calls()).get("eval")).toBeLessThanOrEqual(12);
    await (await locks.acquire("flushed")).release();
    await redis.command("CONFIG", "RESETSTAT");
    for (let i = 0; i < 10; i++) await (await locks.acquire("flushed")).release();
    expect((await redis.calls()).has("eval")).toBe(false);
  });

  it("calls a full memory unavailable, not held, and can still release (cases 28, 35)", async () => {
    const redis = await server(startRedis({ "maxmemory-policy": "noeviction" }));
    const locks = await tenure(redis.port);
    const lease = await locks.acquire("full", { ttl: 60_000 });
    const second = await locks.acquire("full 2", { ttl: 60_000 });
    const waiting = locks.acquire("full 2");
    await until("a waiter", async () => (await locks.inspect("full 2"))?.waiters === 1);
    await redis.command("CONFIG", "SET", "maxmemory", 1);
    const refused = locks.tryAcquire("other");
    await expect(refused).rejects.toThrow(UnavailableError);
    await expect(refused).rejects.toThrow(/OOM/);
    await expect(lease.renew()).rejects.toThrow(UnavailableError);
    expect(lease.state).toBe("unknown");
    expect(await lease.release()).toBe("released");
    await second.release();
    await redis.command("CONFIG", "SET", "maxmemory", 0);
    expect((await waiting).token).toBeGreaterThan(second.token);
    expect(await locks.tryAcquire("other")).not.toBeNull();
  });

  it("calls a read-only server unavailable, and comes back to it (case 35)", async () => {
    const [redis, other] = [await server(startRedis()), await server(startRedis())];
    const locks = await tenure(redis.port);
    const lease = await locks.acquire("read only", { ttl: 60_000 });
    await redis.command("REPLICAOF", "127.0.0.1", other.port);
    await expect(locks.tryAcquire("more")).rejects.toThrow(/READONLY/);
    await expect(lease.renew()).rejects.toThrow(UnavailableError);
    expect(lease.state).toBe("unknown");
    await expect(tenure(redis.port)).rejects.toThrow(/read-only replica/);
    await redis.promote();
    expect(await locks.tryAcquire("more")).not.toBeNull();
  });

  it("refuses to open on a replica", async () => {
    const redis = await server(startRedis());
    const replica = await server(startReplica(redis.port));
    await expect(tenure(replica.port)).rejects.toThrow(UnavailableError);
  });

  it("has an error of its own for a stranger's key, alone or among others (case 41)", async () => {
    const redis = await server(startRedis());
    const locks = await backend(redis.port);
    await redis.command("SET", "tenure:{text}", "mine");
    await redis.command("HSET", "tenure:{hash}", "color", "red");
    await redis.command("HSET", "tenure:{half}", "w12:x", "not ours");
    const names = ["text", "fine 1", "hash", "fine 2", "half"];
    const all = await Promise.allSettled(
      names.map(async (name, i) => locks.acquire({ name, holder: `h${i}`, ttlMs: 60_000 }, call)),
    );
    for (const [i, name] of names.entries()) {
      const outcome = all[i]!;
      if (name.startsWith("fine")) expect(outcome).toMatchObject({ value: { grant: { name } } });
      else {
        const { reason } = outcome as PromiseRejectedResult;
        expect(reason, name).toBeInstanceOf(ForeignKeyError);
        expect(reason).toMatchObject({ family: "unavailable", retryable: false, lock: name });
        expect(String(reason)).toContain(`tenure:{${name}}`);
      }
    }
    await expect(locks.inspect("text", call)).rejects.toThrow(ForeignKeyError);
    const listed: string[] = [];
    for await (const { name } of locks.list("", call)) listed.push(name);
    expect(listed.sort()).toEqual(["fine 1", "fine 2"]);
    expect(await redis.command("GET", "tenure:{text}")).toBe("mine");
  });

  it("tells an overwritten record as lost (case 5)", async () => {
    const redis = await server(startRedis());
    const locks = await tenure(redis.port);
    const lease = await locks.acquire("overwritten", { ttl: 60_000 });
    await redis.command("SET", "tenure:{overwritten}", "mine");
    await expect(lease.renew()).rejects.toBeInstanceOf(LeaseLostError);
    expect(lease.signal.reason).toMatchObject({ reason: "absent" });
  });

  it("shows no password in any message", async () => {
    const redis = await server(startRedis());
    await redis.command("ACL", "SETUSER", "user", "on", ">right-secret", "+@all", "~*");
    const urls = [
      `redis://user:wrong-secret@127.0.0.1:${redis.port}`,
      "redis://user:wrong-secret@127.0.0.1:1",
      "redis://user:wrong-secret@",
      "rediss://user:wrong-secret@127.0.0.1:1/0",
    ];
    for (const url of urls) {
      const error: unknown = await connect(url, { timeout: 2_000 }).catch((e: unknown) => e);
      expect(error).toBeInstanceOf(Error);
      for (let one: unknown = error; one instanceof Error; one = one.cause) {
        expect(`${one.message} ${JSON.stringify(one)}`).not.toContain("wrong-secret");
      }
    }
  });

  it("opens by URL", async () => {
    const redis = await server(startRedis());
    const locks = await connect(`redis://127.0.0.1:${redis.port}/3`);
    const lease = await locks.acquire("by url");
    expect(await redis.command("EXISTS", "tenure:{by url}")).toBe(0);
    await lease.release();
    await locks.close();
  });

  it("warns about a policy that may evict leases, and is silent about noeviction", async () => {
    const redis = await server(startRedis());
    await tenure(redis.port);
    expect(events.filter(({ type }) => type === "warning")).toEqual([]);
    await redis.command("CONFIG", "SET", "maxmemory-policy", "volatile-lru");
    await tenure(redis.port);
    expect(events.filter(({ type }) => type === "warning")).toMatchObject([
      { backend: "redis", message: expect.stringContaining("volatile-lru") as string },
    ]);
  });

  it("does without INFO where the user may not ask, and says so", async () => {
    const redis = await server(startRedis());
    await redis.command("ACL", "SETUSER", "default", "-info");
    const locks = await tenure(redis.port);
    const lease = await locks.acquire("no info");
    expect(lease.storeEpoch).toBeUndefined();
    await lease.release();
    const warnings = events.filter(({ type }) => type === "warning");
    expect(warnings).toMatchObject([{ message: expect.stringContaining("INFO") as string }]);
  });
});
