/** One primary, one replica, and a sentinel that makes the one the other. */
import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { Redis } from "ioredis";
import { createSentinel } from "redis";
import { expect, it, onTestFinished, vi } from "vitest";
import { redis, type RedisClient } from "../../../src/backends/redis/open.js";
import { connect } from "../../../src/connect.js";
import type { Tenure } from "../../../src/core/tenure.js";
import { openBesideRedis } from "../../../src/drivers/redis/open.js";
import { describeOn } from "../../servers/find.js";
import { redisProgram, startRedis, startRedisPair, type RedisServer } from "../../servers/redis.js";
import { until, waitersOf, type Library } from "./bench.js";
import { PRIMARY, Sentinel } from "./sentinel.js";

/** Clients that stay unconnected, and ask a sentinel for the primary. */
const clients: Readonly<Record<Library, (sentinel: Sentinel) => RedisClient>> = {
  "node-redis": ({ port }) =>
    createSentinel({ name: PRIMARY, sentinelRootNodes: [{ host: "127.0.0.1", port }] }),
  ioredis: ({ port }) =>
    new Redis({ name: PRIMARY, sentinels: [{ host: "127.0.0.1", port }], lazyConnect: true }),
};

/** Says where the primary is, and tells of a failover while the second who asks waits. */
async function meddlingSentinel(
  primary: RedisServer,
): Promise<{ readonly port: number; readonly isHeard: Promise<void> }> {
  let asked = 0;
  let hear = (): void => undefined;
  const isHeard = new Promise<void>((resolve) => (hear = resolve));
  let detector: Socket | undefined;
  const port = String(primary.port);
  const address = `*2\r\n$9\r\n127.0.0.1\r\n$${port.length}\r\n${port}\r\n`;
  const message = ">3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$1\r\nx\r\n";
  const sentinel = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.on("data", (data) => {
      // One answer for each command, in order.
      for (const command of String(data).split(/^\*\d+\r\n/m).slice(1)) {
        if (/get-master-addr/i.test(command)) {
          asked += 1;
          if (asked === 2 && detector !== undefined) {
            // The client has hung up on it once it has heard.
            detector.once("close", () => socket.write(address));
            detector.write(message);
          } else socket.write(address);
        } else if (/subscribe/i.test(command)) {
          detector = socket;
          socket.write(">3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n");
          hear();
        } else socket.write(/sentinels/i.test(command) ? "*0\r\n" : "+OK\r\n");
      }
    });
  });
  await once(sentinel.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void sentinel.close());
  return { port: (sentinel.address() as AddressInfo).port, isHeard };
}

describeOn(redisProgram, "redis backend behind a sentinel", () => {
  it("goes on where it hears of a failover while it asks for the primary (ioredis)", async () => {
    const primary = await startRedis();
    onTestFinished(() => primary.dispose());
    const sentinel = await meddlingSentinel(primary);
    const sentinels = [{ host: "127.0.0.1", port: sentinel.port }];
    const client = new Redis({ name: PRIMARY, sentinels, lazyConnect: true });
    const duplicate = vi.spyOn(client, "duplicate");
    const own = openBesideRedis(client);
    onTestFinished(() => own.close());
    await own.connected;
    const made = duplicate.mock.results[0]!.value as Redis;
    const ended = new Promise<void>((resolve) => made.once("end", () => resolve()));
    await sentinel.isHeard;
    await primary.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    await ended;
    const isAnswered = (): Promise<boolean> =>
      own.commands.send(["PING"]).then((pong) => pong === "PONG", () => false);
    await until("an answer", isAnswered, 5_000);
  });

  it.each([
    ["node-redis", "kill"],
    ["node-redis", "freeze"],
    ["ioredis", "kill"],
    ["ioredis", "freeze"],
  ] as const)("goes on with leases and waiters when the primary is gone (%s, %s)", async (library, how) => {
    const { primary, replica } = await startRedisPair();
    const sentinel = new Sentinel(primary);
    onTestFinished(async () => {
      for (const server of [sentinel, replica, primary]) await server.dispose();
    });
    await sentinel.start();
    const opened = async (): Promise<Tenure> => {
      const locks = await connect(redis(clients[library](sentinel)));
      onTestFinished(() => locks.close());
      return locks;
    };
    const [one, other] = [await opened(), await opened()];
    const held = await one.acquire("name");
    const waiting = other.acquire("name");
    await until("its place", async () => (await waitersOf(one, "name")) === 1);
    await replica.caughtUp(primary);
    await primary[how]();
    // The sentinel hangs up on all who ask whom it promotes, also on who looks whether it has.
    const isPromoted = (): Promise<boolean> =>
      replica.info("replication").then(({ role }) => role === "master", () => false);
    await until("the failover", isPromoted);
    // Each connection finds the new primary by itself, at a time of its own.
    const done = (step: () => Promise<unknown>): Promise<void> =>
      until("the new primary", () => step().then(() => true, () => false));
    await done(() => held.renew());
    await done(() => held.release());
    const next = await waiting;
    expect(next.token).toBeGreaterThan(held.token);
    await done(() => next.release());
  });
});
