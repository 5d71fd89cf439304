import { expect, it, onTestFinished } from "vitest";
import { redis } from "../../../src/backends/redis/open.js";
import { LeaseLostError, StaleTokenError, UnverifiedError } from "../../../src/core/errors.js";
import { Tenure } from "../../../src/core/tenure.js";
import { memoryFence } from "../../../src/fences/memory/open.js";
import { platform } from "../../../src/platform/index.js";
import { describeOn } from "../../servers/find.js";
import { redisProgram, startRedis } from "../../servers/redis.js";
import { bench, client, until } from "./bench.js";

const HOUR_MS = 3_600_000;

/** By how much clocks are ahead of the real ones. */
interface Moved {
  uptimeMs: number;
  wallMs: number;
}

/** A tenure on real clocks that are moved: as a sleeping machine's are, or by somebody. */
async function onMovedClocks(port: number): Promise<{ locks: Tenure; moved: Moved }> {
  const moved: Moved = { uptimeMs: 0, wallMs: 0 };
  const real = platform();
  const clock = {
    monotonicMs: () => real.clock.monotonicMs(),
    uptimeMs: () => (real.clock.uptimeMs() ?? real.clock.monotonicMs()) + moved.uptimeMs,
    wallMs: () => real.clock.wallMs() + moved.wallMs,
  };
  const runtime = { ...real, clock };
  const locks = await Tenure.open(redis(client(port), { runtime }), runtime);
  onTestFinished(() => locks.close());
  return { locks, moved };
}

describeOn(redisProgram, "leases on redis when clocks move", () => {
  const { server, tenure } = bench();

  it("are lost at the first look after the machine slept, and a late write is refused (suspend)", async () => {
    const store = await server(startRedis());
    const { locks, moved } = await onMovedClocks(store.port);
    const accounts = memoryFence<number>();
    const lease = await locks.acquire("asleep", { ttl: 60_000 });
    const before = await accounts.arm(lease, "account");
    // The store's time goes on while the machine sleeps.
    await store.command("PEXPIRE", "tenure:{asleep}", 1);
    const next = await (await tenure(store.port)).acquire("asleep", { wait: 30_000 });
    const after = await accounts.arm(next, "account");
    await after.write((cell) => cell.set(1));

    moved.uptimeMs += 10 * 60_000;
    expect(lease.state).toBe("lost");
    expect(() => lease.assertHeld()).toThrow(LeaseLostError);
    // The token alone, as it travels to another process, which knows nothing of the loss.
    const { name, holder, storeId, token } = lease;
    await expect(accounts.arm({ name, holder, storeId, token }, "account")).rejects.toBeInstanceOf(StaleTokenError);
    await expect(before.write((cell) => cell.set(2))).rejects.toBeInstanceOf(LeaseLostError);
    expect(await after.read((cell) => cell.get())).toBe(1);
  });

  it("are in doubt after a hypervisor froze the machine, until a renewal has answered (suspend)", async () => {
    const store = await server(startRedis());
    const { locks, moved } = await onMovedClocks(store.port);
    const lease = await locks.acquire("frozen", { ttl: 60_000 });
    moved.wallMs += 10 * 60_000;
    expect(lease.state).toBe("unknown");
    expect(() => lease.assertHeld()).toThrow(UnverifiedError);
    await until("a renewal", () => lease.state === "held");
    lease.assertHeld();

    const gone = await locks.acquire("taken", { ttl: 60_000 });
    await store.command("DEL", "tenure:{taken}");
    const next = await (await tenure(store.port)).acquire("taken");
    moved.wallMs += 10 * 60_000;
    expect(() => gone.assertHeld()).toThrow(UnverifiedError);
    await until("a renewal", () => gone.state === "lost");
    next.assertHeld();
    await lease.release();
  });

  it("are kept when somebody sets the wall clock, ahead or back (client-clocks)", async () => {
    const store = await server(startRedis());
    const { locks, moved } = await onMovedClocks(store.port);
    const lease = await locks.acquire("set", { ttl: 60_000 });
    moved.wallMs -= HOUR_MS;
    expect(lease.state).toBe("held");
    lease.assertHeld();
    await lease.renew();
    moved.wallMs += 2 * HOUR_MS;
    await until("a renewal", () => lease.state === "held");
    expect(lease.signal.aborted).toBe(false);
    expect(await lease.release()).toBe("released");
  });
});
