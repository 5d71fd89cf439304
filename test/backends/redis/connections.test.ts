/** Connections that the backend opens when it first needs them, and what may be wrong with them. */
import { Redis } from "ioredis";
import { expect, it, onTestFinished } from "vitest";
import type { Connection } from "../../../src/backends/redis/client.js";
import { redisBackend } from "../../../src/backends/redis/index.js";
import type { AcquireRequest, Backend, QueueWaiting } from "../../../src/core/backend.js";
import { UnavailableError } from "../../../src/core/errors.js";
import { explainRedis } from "../../../src/drivers/redis/errors.js";
import { openBesideRedis } from "../../../src/drivers/redis/open.js";
import { platform } from "../../../src/platform/index.js";
import { describeOn } from "../../servers/find.js";
import { redisProgram, startRedis } from "../../servers/redis.js";
import { bench, call, client, libraries, type Library } from "./bench.js";

/** Leases and renewals have one each. */
const FROM_THE_START = 2;

const request = (holder: string): AcquireRequest => ({ name: "name", holder, ttlMs: 60_000 });

describeOn(redisProgram, "further connections of the redis backend", () => {
  const { server, proxy } = bench();

  /** An open backend whose name is held, and how many of its connections are not closed. */
  async function opened(
    connect: (nth: number) => Connection,
  ): Promise<{ locks: Backend; queue: QueueWaiting; open: () => number }> {
    let [nth, open] = [0, 0];
    const counted = (connection: Connection): Connection => ({
      ...connection,
      close: () => {
        open -= 1;
        connection.close();
      },
    });
    const locks = redisBackend({
      connect: async () => {
        open += 1;
        return counted(connect(++nth));
      },
      faults: { explain: explainRedis },
      runtime: platform(),
    });
    onTestFinished(() => locks.close());
    await locks.open!(call);
    expect(await locks.acquire(request("holder"), call)).toHaveProperty("grant");
    if (locks.waiting.kind !== "queue") throw new Error("no queue");
    return { locks, queue: locks.waiting, open: () => open };
  }

  const to = (port: number, library: Library): Connection => openBesideRedis(client(port, library));

  it.each(libraries)("leave nothing behind where a full server refuses them (%s)", async (library) => {
    const { port } = await server(startRedis());
    const { queue, open } = await opened(() => to(port, library));
    // Let in before the server is full.
    const inside = new Redis(port);
    onTestFinished(() => inside.disconnect());
    await inside.config("SET", "maxclients", FROM_THE_START + 1);
    for (const holder of ["w1", "w2", "w3"]) {
      await expect(queue.enqueue(request(holder), call)).rejects.toThrow();
      expect(open()).toBe(FROM_THE_START);
    }
    await inside.config("SET", "maxclients", 1_000);
    await queue.enqueue(request("w4"), call);
    expect(open()).toBe(FROM_THE_START + 1);
  });

  it.each(libraries)("are replaced where they bring nothing and nobody closes them (%s)", async (library) => {
    const { port } = await server(startRedis());
    const cable = await proxy(port);
    /** Behind the cable, of which nothing comes back once it is connected. */
    const falling = (): Connection => {
      const connection = to(cable.port, library);
      return { ...connection, connected: connection.connected.then(() => cable.silence("reply")) };
    };
    const { locks, queue, open } = await opened((nth) =>
      nth === FROM_THE_START + 1 ? falling() : to(port, library),
    );
    const short = { ...call, timeoutMs: 1_000 };
    await expect(queue.enqueue(request("w1"), short)).rejects.toThrow(UnavailableError);
    const ticket = await queue.enqueue(request("w2"), call);
    expect(open()).toBe(FROM_THE_START + 1);
    // It is told: nobody looks here.
    const turn = ticket.turn(call.signal);
    const { token } = (await locks.inspect("name", call))!;
    await locks.release([{ name: "name", holder: "holder", token: token as never }], call);
    expect(await turn).toMatchObject({ holder: "w2" });
  });
});
