/** Scenario 19 on a real store: holders whose clocks run too slowly. */
import { expect, it, onTestFinished } from "vitest";
import { redis } from "../../../src/backends/redis/open.js";
import { StaleTokenError } from "../../../src/core/errors.js";
import { Tenure } from "../../../src/core/tenure.js";
import { memoryFence } from "../../../src/fences/memory/open.js";
import { platform } from "../../../src/platform/index.js";
import { describeOn } from "../../servers/find.js";
import { redisProgram, startRedis } from "../../servers/redis.js";
import { bench, client, until } from "../redis/bench.js";

const TTL_MS = 2_000;

/** A tenure all of whose clocks run at a rate; they can be made to stand still at a real moment. */
async function onSlowClocks(
  port: number,
  rate: number,
): Promise<{ locks: Tenure; stopAt(realMs: number | undefined): void }> {
  const real = platform();
  const { clock } = real;
  const fromMs = clock.monotonicMs();
  const [uptimeMs, wallMs] = [clock.uptimeMs() ?? fromMs, clock.wallMs()];
  let stopMs = Infinity;
  const passedMs = (): number => (Math.min(clock.monotonicMs(), stopMs) - fromMs) * rate;
  const slow = {
    monotonicMs: () => fromMs + passedMs(),
    uptimeMs: () => uptimeMs + passedMs(),
    wallMs: () => wallMs + passedMs(),
  };
  const runtime = { ...real, clock: slow };
  const locks = await Tenure.open(redis(client(port), { runtime }), runtime);
  onTestFinished(() => locks.close());
  return { locks, stopAt: (realMs) => void (stopMs = realMs ?? Infinity) };
}

describeOn(redisProgram, "client-clocks, slow ones on a real store", () => {
  const { server, tenure } = bench();

  it("a clock that is half a per cent slow is within the margin: lost before the next is granted", async () => {
    const store = await server(startRedis());
    const { locks } = await onSlowClocks(store.port, 0.995);
    const lease = await locks.acquire("near", { ttl: TTL_MS, renew: false });
    const next = await (await tenure(store.port)).acquire("near", { wait: 30_000 });
    expect(lease.state).toBe("lost");
    next.assertHeld();
    await locks.close();
  });

  it("one that is ten per cent slow believes too long, and only the fence refuses it", async () => {
    const store = await server(startRedis());
    const { locks, stopAt } = await onSlowClocks(store.port, 0.9);
    const accounts = memoryFence<number>();
    const sentMs = platform().clock.monotonicMs();
    const lease = await locks.acquire("far", { ttl: TTL_MS, renew: false });
    const { name, token, holder, storeId } = lease;
    // As it travels to another process: no signal stops the write, the mark alone decides.
    const before = await accounts.arm({ name, token, holder, storeId }, "account");
    // What it sees when its TTL is over by a right clock, however long the rest of this takes.
    stopAt(sentMs + TTL_MS);
    const next = await (await tenure(store.port)).acquire("far", { wait: 30_000 });
    const after = await accounts.arm(next, "account");
    expect([lease.state, next.state]).toEqual(["held", "held"]);
    expect(() => lease.assertHeld()).not.toThrow();
    // For less than the part by which its clock is slow.
    expect(lease.remaining()).toBeLessThan(TTL_MS * 0.1);
    await expect(before.write((cell) => cell.set(1))).rejects.toBeInstanceOf(StaleTokenError);
    await after.write((cell) => cell.set(2));
    stopAt(undefined);
    await until("its own deadline", () => lease.state === "lost", 30_000);
    next.assertHeld();
    expect(await after.read((cell) => cell.get())).toBe(2);
    await locks.close();
  });
});
