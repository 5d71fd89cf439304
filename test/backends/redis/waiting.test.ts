import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { afterEach, expect, it } from "vitest";
import { Keys } from "../../../src/backends/redis/keys.js";
import { OFFER_MS } from "../../../src/backends/redis/scripts.js";
import type { Ticket } from "../../../src/core/backend.js";
import { NotAcquiredError } from "../../../src/core/errors.js";
import type { Lease } from "../../../src/core/lease.js";
import type { Tenure } from "../../../src/core/tenure.js";
import { bundledChild } from "../../servers/bundle.js";
import { describeOn } from "../../servers/find.js";
import { redisProgram, startRedis } from "../../servers/redis.js";
import { bench, call, libraries, releaseToStandingOffer, running, until, waitersOf } from "./bench.js";

/** Longest that a process may take to start and to wait, milliseconds. */
const CHILD_MS = 120_000;
/** For tests that start one. */
const withChild = { timeout: 240_000 } as const;

describeOn(redisProgram, "waiting on the redis backend", () => {
  const { server, proxy, backend, tenure } = bench();
  const bundle = bundledChild(import.meta.dirname);
  const children: ChildProcess[] = [];
  afterEach(() => {
    for (const child of children.splice(0)) child.kill("SIGKILL");
  });

  /** A process that waits; resolves once it has its place. */
  async function waitingChild(url: string, name: string, locks: Tenure): Promise<ChildProcess> {
    const before = await waitersOf(locks, name);
    const child = spawn(process.execPath, [bundle, url, name], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    children.push(child);
    const hasPlace = async (): Promise<boolean> => (await waitersOf(locks, name)) > before;
    await until("the child's place", hasPlace, CHILD_MS);
    return child;
  }

  async function killed(child: ChildProcess): Promise<void> {
    const exit = once(child, "exit");
    child.kill("SIGKILL");
    await exit;
  }

  it.each(libraries)("wakes one of 500, and does the same work for each hand-over (case 24, %s)", async (library) => {
    const redis = await server(startRedis());
    const clients = await Promise.all(
      Array.from({ length: 5 }, () => tenure(redis.port, { library })),
    );
    const held = await clients[0]!.acquire("herd");
    const order: number[] = [];
    const leases: Promise<Lease>[] = [];
    for (let i = 0; i < 500; i++) {
      const waiting = clients[i % 5]!.acquire("herd").then((lease) => {
        order.push(i);
        return lease;
      });
      waiting.catch(() => undefined);
      leases.push(waiting);
    }
    await until("500 waiters", async () => (await waitersOf(clients[0]!, "herd")) === 500);
    const work: (readonly [removals: number, looks: number])[] = [];
    // Whether this process stood still for as long as an offer stands.
    let lapsed = false;
    let lease = held;
    for (let i = 0; i < 20; i++) {
      await redis.command("CONFIG", "RESETSTAT");
      const fromMs = performance.now();
      await lease.release();
      await until("the next holder", () => order.length > i);
      lapsed ||= performance.now() - fromMs > OFFER_MS;
      lease = await leases[order[i]!]!;
      const calls = await redis.calls();
      // Signs of life come at their own pace: one call for each process each half second.
      const [publish, zrem, zrange] = ["publish", "zrem", "zrange"].map((kind) => calls.get(kind));
      work.push([zrem! / publish!, zrange! / publish!]);
      if (!lapsed) expect(publish).toBe(1);
    }
    expect(order).toHaveLength(20);
    // One look at the head, one removal, one message: for the first as for the last. Whoever lets
    // an offer lapse queues anew, with one more look.
    for (const [removals, looks] of work) {
      expect(removals).toBe(1);
      expect(looks).toBeLessThanOrEqual(lapsed ? 2 : 1);
    }
    if (lapsed) return;
    const inOrder = [0, 1, 2, 3, 4].map((client) => order.filter((i) => i % 5 === client));
    for (const some of inOrder) expect(some).toEqual([...some].sort((a, b) => a - b));
  });

  it("passes over a waiter whose process was killed, at once (case 23)", withChild, async () => {
    const redis = await server(startRedis());
    const [a, b] = [await tenure(redis.port), await tenure(redis.port)];
    const held = await a.acquire("killed");
    const first = await waitingChild(redis.url, "killed", a);
    const second = b.acquire("killed");
    await until("two waiters", async () => (await waitersOf(a, "killed")) === 2);
    await killed(first);
    // The kernel has closed its connections; the server sees that a moment later.
    const listening = async (): Promise<number> =>
      ((await redis.command("PUBSUB", "CHANNELS", "tenure:wake:*")) as string[]).length;
    await until("its end", async () => (await listening()) === 1);
    const ranMs = running();
    await held.release();
    const lease = await second;
    expect(ranMs()).toBeLessThan(800);
    expect(lease.token).toBeGreaterThan(held.token);
  });

  it("hands on within one offer when a waiter's process is frozen (case 23)", withChild, async () => {
    const redis = await server(startRedis());
    const [a, b] = [await tenure(redis.port), await tenure(redis.port)];
    const held = await a.acquire("frozen");
    const first = await waitingChild(redis.url, "frozen", a);
    const second = b.acquire("frozen");
    await until("two waiters", async () => (await waitersOf(a, "frozen")) === 2);
    first.kill("SIGSTOP");
    const ranMs = running();
    await held.release();
    await second;
    expect(ranMs()).toBeLessThan(2_500);
  });

  it("strikes waiters that were silent for long, though one listens still (case 23)", withChild, async () => {
    const redis = await server(startRedis());
    const [a, b] = [await tenure(redis.port), await tenure(redis.port)];
    const held = await a.acquire("silent");
    const listening = await waitingChild(redis.url, "silent", a);
    const dead = await waitingChild(redis.url, "silent", a);
    listening.kill("SIGSTOP");
    await killed(dead);
    const [, line, waiters] = new Keys("tenure:").ofQueue("silent");
    // As they stand a minute later.
    const longAgo = (Date.now() - 60_000) * 1_000;
    const known = (await redis.command("HKEYS", waiters)) as string[];
    const processes = known.filter((field) => field.startsWith("@"));
    expect(processes).toHaveLength(2);
    for (const process of processes) await redis.command("HSET", waiters, process, longAgo);
    const next = b.acquire("silent");
    await until("three waiters", async () => (await waitersOf(a, "silent")) === 3);
    const ranMs = running();
    await held.release();
    await next;
    // No second went by for an offer to one that would not have come.
    expect(ranMs()).toBeLessThan(1_000);
    expect(await redis.command("EXISTS", line, waiters)).toBe(0);
  });

  it("gives the lease of a killed holder to the waiter once its time is over (case 7)", withChild, async () => {
    const redis = await server(startRedis());
    const locks = await tenure(redis.port);
    const child = spawn(process.execPath, [bundle, redis.url, "holder"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    children.push(child);
    const lines = createInterface({ input: child.stdout });
    let token = 0n;
    lines.on("line", (line) => {
      if (line.startsWith("token")) token = BigInt(line.split(" ")[1]!);
    });
    await until("the child's lease", () => token > 0n);
    await killed(child);
    const ranMs = running();
    const lease = await locks.acquire("holder");
    expect(ranMs()).toBeLessThan(3_000);
    expect(lease.token).toBeGreaterThan(token);
  });

  it("keeps the place of a waiter whose connection for messages breaks, and finds its turn", async () => {
    const redis = await server(startRedis());
    const [a, b] = [await tenure(redis.port), await tenure(redis.port)];
    const order: string[] = [];
    const held = await a.acquire("deaf");
    const first = b.acquire("deaf").then((lease) => {
      order.push("first");
      return lease;
    });
    await until("one waiter", async () => (await waitersOf(a, "deaf")) === 1);
    await redis.command("CLIENT", "KILL", "TYPE", "pubsub");
    await held.release();
    const lease = await first;
    const second = a.acquire("deaf").then(() => order.push("second"));
    await until("one waiter", async () => (await waitersOf(a, "deaf")) === 1);
    await lease.release();
    await second;
    expect(order).toEqual(["first", "second"]);
  });

  it("queues anew when the whole store is flushed under its waiters (case 21)", async () => {
    const redis = await server(startRedis());
    const [a, b] = [await tenure(redis.port), await tenure(redis.port)];
    const held = await a.acquire("flushed", { ttl: 12_000 });
    const leases: Lease[] = [];
    const waiting = [a, b, a, b].map(async (locks) => {
      const lease = await locks.acquire("flushed");
      leases.push(lease);
      await lease.release();
    });
    await until("four waiters", async () => (await waitersOf(a, "flushed")) === 4);
    await redis.command("FLUSHALL");
    await Promise.all(waiting);
    const tokens = [held, ...leases].map(({ token }) => token);
    expect(tokens).toEqual([...tokens].sort((one, two) => (one < two ? -1 : 1)));
    await until("the old holder's loss", () => held.state === "lost");
    const reason = expect.stringMatching(/absent|taken/) as string;
    expect(held.signal.reason).toMatchObject({ reason });
  });

  it("queues anew after the server came back empty", async () => {
    const redis = await server(startRedis());
    const [a, b] = [await tenure(redis.port), await tenure(redis.port)];
    const held = await a.acquire("restarted");
    const waiting = b.acquire("restarted");
    await until("a waiter", async () => (await waitersOf(a, "restarted")) === 1);
    await redis.restart();
    const lease = await waiting;
    expect(lease.token).toBeGreaterThan(held.token);
  });

  it("does not let the releaser barge in before those who wait", async () => {
    const redis = await server(startRedis());
    const [a, b] = [await tenure(redis.port), await tenure(redis.port)];
    let held = await a.acquire("barge");
    for (let i = 0; i < 10; i++) {
      const waiting = b.acquire("barge");
      await until("a waiter", async () => (await waitersOf(a, "barge")) === 1);
      const again = held.release().then(() => a.tryAcquire("barge"));
      const lease = await waiting;
      expect(await again).toBeNull();
      const back = a.acquire("barge");
      await until("a waiter", async () => (await waitersOf(a, "barge")) === 1);
      await lease.release();
      held = await back;
    }
  });

  it("leaves nothing of waiters that give up, nor of those whose process has ended (case 17)", withChild, async () => {
    const redis = await server(startRedis());
    const [a, b] = [await tenure(redis.port), await tenure(redis.port)];
    const held = await a.acquire("left");
    const waits = Array.from({ length: 20 }, (_, i) => b.acquire("left", { wait: 1_000 + i }));
    for (const outcome of await Promise.allSettled(waits)) {
      expect((outcome as PromiseRejectedResult).reason).toBeInstanceOf(NotAcquiredError);
    }
    // A place that was asked for just before is left once it is there.
    await until("nothing of them", async () => {
      return (await redis.command("EXISTS", "tenure:{left}:q", "tenure:{left}:w")) === 0;
    });
    const child = await waitingChild(redis.url, "left", a);
    await killed(child);
    expect(Number(await redis.command("PTTL", "tenure:{left}:q"))).toBeGreaterThan(0);
    expect(Number(await redis.command("PTTL", "tenure:{left}:w"))).toBeGreaterThan(0);
    await held.release();
  });

  it("forgets processes that are gone while the line of a name is never empty", async () => {
    const redis = await server(startRedis());
    const [one, other] = [await tenure(redis.port), await tenure(redis.port)];
    const held = await one.acquire("busy");
    const first = one.acquire("busy");
    await until("its place", async () => (await waitersOf(one, "busy")) === 1);
    const [, , waiters] = new Keys("tenure:").ofQueue("busy");
    // As 500 processes leave it that waited once, the last a minute ago.
    const longAgo = (Date.now() - 60_000) * 1_000;
    const former = Array.from({ length: 500 }, (_, i) => [`@p${i}`, longAgo]).flat();
    await redis.command("HSET", waiters, ...former);
    const second = other.acquire("busy");
    await until("its place", async () => (await waitersOf(one, "busy")) === 2);
    // Two waiters, and the process of each.
    expect(await redis.command("HLEN", waiters)).toBe(4);
    await held.release();
    await (await first).release();
    await (await second).release();
  });

  it("keeps a lease whose notice overtakes the answer, and one told twice", async () => {
    const redis = await server(startRedis());
    const locks = await backend(redis.port);
    if (locks.waiting.kind !== "queue") throw new Error("no queue");
    const first = await locks.acquire({ name: "twice", holder: "h1", ttlMs: 60_000 }, call);
    if (!("grant" in first)) throw new Error("held");
    const ticket: Ticket = await locks.waiting.enqueue(
      { name: "twice", holder: "h2", ttlMs: 60_000 },
      call,
    );
    await releaseToStandingOffer(redis.port, first.grant);
    const offer = await ticket.turn(call.signal);
    if (offer === "gone") throw new Error("gone");
    expect(await locks.renew([offer], call)).toEqual(["renewed"]);
    const channel = String(((await redis.command("PUBSUB", "CHANNELS")) as string[])[0]);
    await redis.command("PUBLISH", channel, `${offer.token} h2`);
    await redis.command("PUBLISH", channel, "nonsense");
    expect(await locks.renew([offer], call)).toEqual(["renewed"]);
    await ticket.leave(call);
    expect(await locks.inspect("twice", call)).toMatchObject({ holder: "h2", token: offer.token });
  });

  it("ends the wait of a client cut from the store when it heals, without a second place", async () => {
    const redis = await server(startRedis());
    const cable = await proxy(redis.port);
    const [cut, other] = [await tenure(cable.port, { timeout: 1_000 }), await tenure(redis.port)];
    const held = await other.acquire("cut off");
    const waiting = cut.acquire("cut off");
    await until("a waiter", async () => (await waitersOf(other, "cut off")) === 1);
    cable.hold();
    await held.release();
    // The offer lapses unheard, and a newcomer gets the lease.
    const newcomer = await other.acquire("cut off");
    await cable.heal();
    await until("a waiter", async () => (await waitersOf(other, "cut off")) === 1);
    await newcomer.release();
    const lease = await waiting;
    expect(lease.token).toBeGreaterThan(newcomer.token);
    expect(await waitersOf(other, "cut off")).toBe(0);
  });

  it("polls where fair is false, and gives way to those who queue", async () => {
    const redis = await server(startRedis());
    const [unfair, fair] = [await tenure(redis.port, { fair: false }), await tenure(redis.port)];
    expect(unfair.manifest).toMatchObject({ waiting: "poll", fair: false });
    const held = await unfair.acquire("polled");
    const queued = fair.acquire("polled");
    await until("a waiter", async () => (await waitersOf(fair, "polled")) === 1);
    const polling = unfair.acquire("polled");
    await held.release();
    const lease = await queued;
    await lease.release();
    expect((await polling).token).toBeGreaterThan(lease.token);
  });
});
