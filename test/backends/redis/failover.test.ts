import { expect, it } from "vitest";
import {
  StaleTokenError,
  TokenConflictError,
  UnavailableError,
} from "../../../src/core/errors.js";
import type { Lease } from "../../../src/core/lease.js";
import { memoryFence } from "../../../src/fences/memory/open.js";
import { describeOn } from "../../servers/find.js";
import { redisProgram, startRedis, startReplica } from "../../servers/redis.js";
import { bench, libraries, running, until } from "./bench.js";

describeOn(redisProgram, "redis backend with a replica", () => {
  const { server, proxy, tenure } = bench();

  /**
   * A grant that its primary alone has, and then nobody: the replica that knows nothing of it is
   * promoted. `counter` is the last token of the name that both know.
   */
  async function failOver(counter?: bigint): Promise<Record<"lost" | "next", Lease>> {
    const primary = await server(startRedis());
    const link = await proxy(primary.port);
    if (counter !== undefined) {
      await primary.command("HSET", "tenure:{failover}", "t", String(counter));
    }
    const replica = await server(startReplica(link.port));
    const before = await tenure(primary.port, { storeId: "one store" });
    // Freezing the replica would not do: it finds in its socket what it missed.
    link.refuse();
    link.cut();
    const lost = await before.acquire("failover", { ttl: "1m" });
    await primary.kill();
    await replica.promote();
    const after = await tenure(replica.port, { storeId: "one store" });
    return { lost, next: await after.acquire("failover") };
  }

  it("gives the second holder a higher token after the grant was lost (cases 24, 37)", async () => {
    const { lost, next } = await failOver();
    expect(next.token).toBeGreaterThan(lost.token);
    expect(lost.storeEpoch).toMatch(/^[0-9a-f]{40}$/);
    expect(next.storeEpoch).toMatch(/^[0-9a-f]{40}$/);
    expect(next.storeEpoch).not.toBe(lost.storeEpoch);
    const fence = memoryFence<number>();
    const old = await fence.arm(lost, "r");
    const handle = await fence.arm(next, "r");
    await handle.write((cell) => cell.set(1));
    await expect(old.write((cell) => cell.set(2))).rejects.toThrow(StaleTokenError);
  });

  it("lets a fence refuse the second holder of one token, whoever comes first (case 24)", async () => {
    // A counter ahead of both clocks: neither server can tell the lost grant from none.
    const { lost, next } = await failOver(BigInt(Date.now() + 3_600_000) * 1_000n);
    expect(next.token).toBe(lost.token);
    expect(next.storeEpoch).not.toBe(lost.storeEpoch);
    for (const [first, second] of [[lost, next], [next, lost]] as const) {
      const fence = memoryFence<number>();
      const handle = await fence.arm(first, "r");
      await expect(fence.arm(second, "r")).rejects.toThrow(TokenConflictError);
      await handle.write((cell) => cell.set(1));
    }
  });

  it.each(libraries)("counts a grant once a replica has it (%s)", async (library) => {
    const primary = await server(startRedis());
    const replica = await server(startReplica(primary.port));
    const locks = await tenure(primary.port, { replicas: 1, library });
    const leases = await Promise.all(
      Array.from({ length: 50 }, (_, i) => locks.acquire(`copied ${i}`)),
    );
    await primary.kill();
    await replica.promote();
    const other = await tenure(replica.port);
    for (const { name, holder, token } of leases) {
      expect(await other.inspect(name)).toMatchObject({ holder, token });
    }
  });

  it("gives a grant up that too few replicas have, and holds nobody else up", async () => {
    const primary = await server(startRedis());
    const link = await proxy(primary.port);
    await server(startReplica(link.port));
    const [strict, lax] = [await tenure(primary.port, { replicas: 1 }), await tenure(primary.port)];
    await (await strict.acquire("replicated")).release();
    link.refuse();
    link.cut();
    await primary.command("CONFIG", "RESETSTAT");
    const refused = strict.tryAcquire("alone").then(
      () => "granted",
      (error: unknown) => error,
    );
    await until("its copies to be counted", async () => (await primary.calls()).has("wait"));
    const ranMs = running();
    await (await lax.acquire("meanwhile")).release();
    expect(await strict.inspect("meanwhile")).toBeNull();
    expect(ranMs()).toBeLessThan(900);
    const error = await refused;
    expect(error).toBeInstanceOf(UnavailableError);
    expect(String(error)).toMatch(/reached 0 of the 1 replicas/);
    expect(await lax.inspect("alone")).toBeNull();
  });

  it("asks for the replicas also when a lease is handed over", async () => {
    const primary = await server(startRedis());
    const link = await proxy(primary.port);
    await server(startReplica(link.port));
    const strict = await tenure(primary.port, { replicas: 1 });
    const held = await strict.acquire("handed over");
    const waiting = strict.acquire("handed over", { wait: 30_000 });
    await until("a waiter", async () => (await strict.inspect("handed over"))?.waiters === 1);
    await held.release();
    await (await waiting).release();
    const again = await strict.acquire("handed over");
    const stop = new AbortController();
    const late = strict
      .acquire("handed over", { signal: stop.signal })
      .catch((error: unknown) => error);
    await until("a waiter", async () => (await strict.inspect("handed over"))?.waiters === 1);
    link.refuse();
    link.cut();
    await primary.command("CONFIG", "RESETSTAT");
    await again.release();
    // The second time that copies are counted, the first grant was given up.
    await until("it to try again", async () => ((await primary.calls()).get("wait") ?? 0) >= 2);
    const reason = new Error("enough");
    stop.abort(reason);
    expect(await late).toBe(reason);
    await until("nobody", async () => (await strict.inspect("handed over")) === null);
  });
});
