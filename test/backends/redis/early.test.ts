import { expect, it } from "vitest";
import { LeaseLostError, StaleTokenError, UnavailableError } from "../../../src/core/errors.js";
import { memoryFence } from "../../../src/fences/memory/open.js";
import { describeOn } from "../../servers/find.js";
import { redisProgram, startRedis } from "../../servers/redis.js";
import { bench, libraries, until } from "./bench.js";

describeOn(redisProgram, "redis backend when the store is early, or its answer too late", () => {
  const { server, proxy, tenure } = bench();

  it("lets the fence refuse a holder whose time the store ended early (store-clock-forward)", async () => {
    const redis = await server(startRedis());
    const [one, two] = [await tenure(redis.port), await tenure(redis.port)];
    const accounts = memoryFence<number>();
    const first = await one.acquire("early", { ttl: 60_000 });
    const before = await accounts.arm(first, "account");
    await before.write((cell) => cell.set(1));

    await redis.command("PEXPIRE", "tenure:{early}", 1);
    const second = await two.acquire("early", { wait: 30_000 });
    expect(second.token).toBeGreaterThan(first.token);
    const after = await accounts.arm(second, "account");
    const seen = await after.read((cell) => cell.get());

    // Nothing has told it: only the mark stands between it and the value.
    first.assertHeld();
    await expect(before.write((cell) => cell.set(2))).rejects.toBeInstanceOf(StaleTokenError);
    await after.write((cell) => cell.set((seen ?? 0) + 10));
    expect(await after.read((cell) => cell.get())).toBe(11);
    await expect(first.renew()).rejects.toBeInstanceOf(LeaseLostError);
  });

  it.each(libraries)("hands out no grant whose time is over when it arrives (dead-on-arrival, %s)", async (library) => {
    const redis = await server(startRedis());
    const cable = await proxy(redis.port);
    const far = await tenure(cable.port, { library, timeout: "1m" });
    const near = await tenure(redis.port);
    // The connection is there, and the script known.
    await (await far.acquire("first")).release();

    cable.hold("reply");
    const late = far.tryAcquire("late", { ttl: 5_000 }).then(
      () => "granted",
      (error: unknown) => error,
    );
    await until("the grant in the store", async () => (await near.inspect("late")) !== null);
    const next = await near.acquire("late", { wait: 30_000 });
    await cable.heal();
    const error = await late;
    expect(error).toBeInstanceOf(UnavailableError);
    expect((error as Error).message).toContain("came too late to be used");
    // What the far one gives back is its own attempt.
    await far.close();
    await next.renew();
    expect(await next.release()).toBe("released");
  });
});
