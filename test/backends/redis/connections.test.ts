/** Connections that the backend opens when it first needs them, and what may be wrong with them. */
import { Redis } from "ioredis";
import { expect, it, onTestFinished } from "vitest";
import type { Connection } from "../../../src/backends/redis/client.js";
import { redisBackend } from "../../../src/backends/redis/index.js";
import { STRAGGLER_SHARE } from "../../../src/backends/redis/leases.js";
import type { AcquireRequest, Backend, QueueWaiting } from "../../../src/core/backend.js";
import type { Timers } from "../../../src/core/clock.js";
import { UnavailableError } from "../../../src/core/errors.js";
import type { Runtime } from "../../../src/core/runtime.js";
import { explainRedis } from "../../../src/drivers/redis/errors.js";
import { openBesideRedis } from "../../../src/drivers/redis/open.js";
import { platform } from "../../../src/platform/index.js";
import { describeOn } from "../../servers/find.js";
import { redisProgram, startRedis } from "../../servers/redis.js";
import { bench, call, client, libraries, until, type Library } from "./bench.js";

/** Leases and renewals have one each. */
const FROM_THE_START = 2;

const request = (holder: string): AcquireRequest => ({ name: "name", holder, ttlMs: 60_000 });

describeOn(redisProgram, "further connections of the redis backend", () => {
  const { server, proxy } = bench();

  /** An open backend whose name is held, and how many of its connections are not closed. */
  async function opened(
    connect: (nth: number) => Connection,
    runtime = platform(),
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
      runtime,
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

  /** What a subscription may take is rung by the test. */
  const LIMITED = { ...call, timeoutMs: 1_234 };
  function limits(): { readonly runtime: Runtime; readonly set: (() => void)[] } {
    const [real, set] = [platform(), [] as (() => void)[]];
    const after: Timers["after"] = (delayMs, run, options) => {
      if (delayMs !== LIMITED.timeoutMs * STRAGGLER_SHARE) {
        return real.timers.after(delayMs, run, options);
      }
      set.push(run);
      return { cancel: () => undefined };
    };
    return { runtime: { ...real, timers: { ...real.timers, after } }, set };
  }

  it("may take longer to be opened than an answer may take", async () => {
    const { port } = await server(startRedis());
    const { runtime, set } = limits();
    let arrive = (): void => undefined;
    const slow = new Promise<void>((resolve) => (arrive = resolve));
    const { queue, open } = await opened((nth) => {
      const connection = to(port, "ioredis");
      if (nth <= FROM_THE_START) return connection;
      return { ...connection, connected: connection.connected.then(() => slow) };
    }, runtime);
    const enqueued = queue.enqueue(request("w1"), LIMITED);
    await until("the connection", () => open() === FROM_THE_START + 1);
    for (const ring of set) ring();
    arrive();
    expect(await enqueued).toMatchObject({ holder: "w1" });
    expect(open()).toBe(FROM_THE_START + 1);
  });

  it("are not opened for longer than the first ones", async () => {
    const { port } = await server(startRedis());
    const real = platform();
    let isFurther = false;
    let late: (() => void) | undefined;
    const after: Timers["after"] = (delayMs, run, options) => {
      if (delayMs === call.timeoutMs && isFurther) late = run;
      return real.timers.after(delayMs, run, options);
    };
    const { queue, open } = await opened(
      (nth) => {
        isFurther = nth > FROM_THE_START;
        const connection = to(port, "ioredis");
        if (!isFurther) return connection;
        return { ...connection, connected: new Promise<void>(() => undefined) };
      },
      { ...real, timers: { ...real.timers, after } },
    );
    const refused = expect(queue.enqueue(request("w1"), call)).rejects.toThrow(UnavailableError);
    await until("the limit", () => late !== undefined);
    late!();
    await refused;
    expect(open()).toBe(FROM_THE_START);
  });

  it("are not given up for one that they have replaced", async () => {
    const { port } = await server(startRedis());
    const { runtime, set } = limits();
    const { queue, open } = await opened((nth) => {
      const connection = to(port, "ioredis");
      if (nth !== FROM_THE_START + 1) return connection;
      const never = (): Promise<void> => new Promise(() => undefined);
      return { ...connection, channels: { ...connection.channels, subscribe: never } };
    }, runtime);
    const dead = ["w1", "w2"].map((holder) => queue.enqueue(request(holder), LIMITED));
    const refused = dead.map((enqueued) => expect(enqueued).rejects.toThrow(UnavailableError));
    await until("both to wait", () => set.length === dead.length);
    set[0]!();
    await refused[0];
    expect(await queue.enqueue(request("w3"), LIMITED)).toMatchObject({ holder: "w3" });
    expect(open()).toBe(FROM_THE_START + 1);
    set[1]!();
    await refused[1];
    expect(open()).toBe(FROM_THE_START + 1);
  });
});
