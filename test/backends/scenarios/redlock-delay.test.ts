/** Scenario 23 on real servers: one that has forgotten all comes back late, and then too early. */
// Loaded before the first connection is timed: a busy machine takes seconds for it.
import "redis";
import { expect, it, onTestFinished } from "vitest";
import type { Lease } from "../../../src/core/lease.js";
import { describeOn } from "../../servers/find.js";
import { redisProgram } from "../../servers/redis.js";
import { Bench, until, type Contender } from "../redlock/bench.js";

const TTL_MS = 3_000;
/** Longer than the test. */
const LONG_MS = 120_000;

interface Setting {
  readonly bench: Bench;
  readonly b: Contender;
  readonly first: Lease<undefined>;
}

describeOn(redisProgram, "redlock-amnesia, with a restart that is put off", () => {
  /** A holds on the first two servers, and B reaches the last two: one of them is between them. */
  async function setUp(ttl: number): Promise<Setting> {
    const bench = await Bench.start(3);
    onTestFinished(() => bench[Symbol.asyncDispose]());
    const [a, b] = [await bench.contender(), await bench.contender()];
    a.networks[2]!.refuse();
    a.networks[2]!.cut();
    const first = await a.tenure.acquire("x", { ttl, renew: false });
    await until(async () => (await bench.holders("x"))[2] === null);
    await bench.servers[1]!.kill();
    return { bench, b, first };
  }

  it("away until every lease that it forgot is over, it lets nobody in beside the first", async () => {
    const { bench, b, first } = await setUp(TTL_MS);
    const order: string[] = [];
    first.signal.addEventListener("abort", () => order.push("first is told"));
    // While it is away no majority is free: the next asks, and asks again.
    const waiting = b.tenure.acquire("x", { ttl: TTL_MS, wait: 60_000 });
    const granted = waiting.finally(() => order.push("next is granted"));
    await until(() => first.state === "lost");
    await bench.servers[1]!.start();
    const next = await granted;
    expect(next.state).toBe("held");
    expect(first.state).toBe("lost");
    expect(order).toEqual(["first is told", "next is granted"]);
  });

  it("back before that, as by a clock that ran ahead, it lets in a second one", async () => {
    const { bench, b, first } = await setUp(LONG_MS);
    await bench.servers[1]!.start();
    const next = await b.tenure.acquire("x", { ttl: LONG_MS, wait: 30_000 });
    expect(await bench.holders("x")).toEqual([first.holder, next.holder, next.holder]);
    expect([first.state, next.state]).toEqual(["held", "held"]);
  });
});
