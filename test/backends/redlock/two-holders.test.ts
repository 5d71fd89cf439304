/**
 * What Redlock cannot prevent, shown on real servers: each ends with two holders who both believe
 * it. The store of neither gives a token, so no fence takes their leases.
 */
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Lease } from "../../../src/core/lease.js";
import { memoryFence } from "../../../src/fences/memory/open.js";
import { describeOn } from "../../servers/find.js";
import { redisProgram } from "../../servers/redis.js";
import { Bench, until, type Contender } from "./bench.js";

describeOn(redisProgram, "redlock", () => {
  let bench: Bench;
  let a: Contender;
  let b: Contender;

  beforeEach(async () => {
    bench = await Bench.start(3);
    [a, b] = [await bench.contender(), await bench.contender()];
  });
  afterEach(() => bench[Symbol.asyncDispose]());

  /** A lease of A on the first two servers: the third is out of its reach. */
  async function leaseOnTwo(): Promise<Lease<undefined>> {
    a.networks[2]!.refuse();
    a.networks[2]!.cut();
    const lease = await a.tenure.acquire("x", { ttl: 300_000, renew: false });
    expect(await bench.holders("x")).toEqual([lease.holder, lease.holder, null]);
    expect(await b.tenure.tryAcquire("x")).toBeNull();
    await until(async () => (await bench.holders("x"))[2] === null);
    return lease;
  }

  async function expectTwoHolders(one: Lease<undefined>, two: Lease<undefined>): Promise<void> {
    expect([one.state, two.state]).toEqual(["held", "held"]);
    expect(() => one.assertHeld(1_000)).not.toThrow();
    expect(() => two.assertHeld(1_000)).not.toThrow();
    expect([one.token, two.token]).toEqual([undefined, undefined]);
    const fence = memoryFence();
    for (const lease of [one, two]) {
      // @ts-expect-error a lease without a token does not type-check
      await expect((async () => fence.arm(lease, "account"))()).rejects.toThrow(TypeError);
    }
    expect(await fence.mark("account")).toBeNull();
  }

  it("redlock-clock: a server's clock runs ahead", async () => {
    const first = await leaseOnTwo();
    await bench.expireEarly(1, "x");
    const second = await b.tenure.acquire("x", { ttl: 300_000 });
    expect(await bench.holders("x")).toEqual([first.holder, second.holder, second.holder]);
    await expectTwoHolders(first, second);
    // Asked, the servers that A reaches cannot confirm it: one renews, one shows B.
    await expect(first.renew()).rejects.toMatchObject({ family: "unavailable" });
    expect(await first.release()).toBe("released");
    await until(async () => (await bench.holders("x"))[0] === null);
    expect((await bench.holders("x")).slice(1)).toEqual([second.holder, second.holder]);
  });

  it("redlock-amnesia: a server is killed and comes back without its data", async () => {
    const first = await leaseOnTwo();
    await bench.servers[1]!.kill();
    await bench.servers[1]!.start();
    const second = await b.tenure.acquire("x", { ttl: 300_000 });
    const [, ...others] = await bench.holders("x");
    expect(others).toEqual([second.holder, second.holder]);
    await expectTwoHolders(first, second);
  });

  it("correlated-stop: a majority restarts together", async () => {
    const first = await a.tenure.acquire("x", { ttl: 300_000, renew: false });
    expect(await b.tenure.tryAcquire("x")).toBeNull();
    for (const server of bench.servers.slice(1)) await server.kill();
    for (const server of bench.servers.slice(1)) await server.start();
    const second = await b.tenure.acquire("x", { ttl: 300_000 });
    await expectTwoHolders(first, second);
    expect(await bench.holders("x")).toEqual([first.holder, second.holder, second.holder]);
  });

  it("correlated-stop: a majority that only froze lets the next in after the first has lost", async () => {
    const first = await a.tenure.acquire("x", { ttl: 4_000 });
    const order: string[] = [];
    first.signal.addEventListener("abort", () => order.push("first is told"));
    for (const server of bench.servers.slice(1)) await server.freeze();
    const trying = async (): Promise<Lease<undefined>> => {
      for (;;) {
        const lease = await b.tenure.tryAcquire("x", { ttl: 300_000 }).catch(() => null);
        if (lease !== null) return lease;
      }
    };
    const second = trying().finally(() => order.push("second is granted"));
    await until(() => first.state === "lost");
    for (const server of bench.servers.slice(1)) await server.thaw();
    expect((await second).state).toBe("held");
    expect(order).toEqual(["first is told", "second is granted"]);
  });
});
