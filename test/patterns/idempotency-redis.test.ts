import { createClient } from "redis";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { LeaseLostError } from "../../src/core/errors.js";
import {
  idempotency,
  InProgressError,
  KeyReusedError,
  type RedisIdempotency,
} from "../../src/idempotency/open.js";
import { redisIdempotency } from "../../src/idempotency/redis.js";
import { explainRedis } from "../../src/drivers/redis/errors.js";
import { borrowRedis } from "../../src/drivers/redis/open.js";
import { platform } from "../../src/platform/index.js";
import { describeOn } from "../servers/find.js";
import { redisProgram, startRedis, type RedisServer } from "../servers/redis.js";
import { race, startChild } from "./children.js";
import { RACE_MS, RACE_TIMEOUT_MS, RACERS, tell } from "./race-size.js";
import { until } from "./until.js";
import { withWallClockOff } from "./wrong-clock.js";

const never = (): never => {
  throw new Error("the work ran a second time");
};

describeOn(redisProgram, "idempotency keys on Redis", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(async () => {
    await server?.dispose();
  });

  let count = 0;
  async function open(options: object = {}): Promise<RedisIdempotency> {
    const url = server.url as `redis://${string}`;
    const keys = await idempotency(url, { prefix: `t${++count}:`, ...options });
    onTestFinished(() => keys.close());
    return keys;
  }
  const effectsOf = async (key: string): Promise<string[]> =>
    (await server.command("LRANGE", `effects:${key}`, 0, -1)) as string[];

  it("run the work once, and give its result to all later callers", async () => {
    const keys = await open();
    const work = async (): Promise<object> => ({ id: 7, note: undefined });
    const first = await keys.once("pay", { input: { a: 1, b: 2 } }, work);
    expect(first).toEqual({ result: { id: 7 }, replayed: false });
    const later = await keys.once("pay", { input: { b: 2, a: 1 } }, never);
    expect(later).toEqual({ result: { id: 7 }, replayed: true });
    const failure = keys.once("pay", { input: 1 }, never);
    await expect(failure).rejects.toBeInstanceOf(KeyReusedError);
    await keys.once("nothing", {}, () => undefined);
    expect(await keys.once("nothing", {}, never)).toEqual({ result: undefined, replayed: true });
  });

  it("take a client of the caller's, and leave it open", async () => {
    const client = createClient({ url: server.url });
    await client.connect();
    onTestFinished(() => client.close());
    const keys = await idempotency(client as never, { prefix: "mine:" });
    await keys.once("k", {}, () => 1);
    await keys.close();
    await expect(keys.once("k", {}, never)).rejects.toMatchObject({ family: "unavailable" });
    expect(await client.exists("mine:k")).toBe(1);
  });

  it("let the next caller do what threw, or was not JSON", async () => {
    const keys = await open({ maxBytes: 10 });
    const boom = new Error("boom");
    await expect(keys.once("k", {}, () => Promise.reject(boom))).rejects.toBe(boom);
    await expect(keys.once("k", {}, () => 1n)).rejects.toThrow(/^result must be JSON/);
    await expect(keys.once("k", {}, () => "x".repeat(9))).rejects.toThrow(/^result .* 10 bytes/);
    expect(await keys.once("k", { wait: 0 }, () => 1)).toEqual({ result: 1, replayed: false });
  });

  it("tell what is wrong before anything is sent", async () => {
    const keys = await open();
    for (const [option, value] of [
      ["lease", 1],
      ["lease", "2"],
      ["ttl", -1],
      ["wait", NaN],
      ["schema", "x"],
    ] as const) {
      const attempt = keys.once("k", { [option]: value }, never);
      await expect(attempt).rejects.toThrow(new RegExp(`^${option} must be`));
    }
    await expect(open({ prefix: 1 })).rejects.toThrow(/^prefix must be/);
    await expect(open({ schema: "x" })).rejects.toThrow(/^schema must be/);
  });

  it("wait for a call that is at work, or tell of it", async () => {
    const keys = await open();
    let finish: (result: string) => void = () => undefined;
    const slow = new Promise<string>((resolve) => (finish = resolve));
    let isAtWork = false;
    const first = keys.once("k", {}, () => {
      isAtWork = true;
      return slow;
    });
    await until(() => isAtWork);
    await expect(keys.once("k", { wait: 0 }, never)).rejects.toBeInstanceOf(InProgressError);
    const waiting = keys.once("k", {}, never);
    finish("slow");
    expect(await first).toEqual({ result: "slow", replayed: false });
    expect(await waiting).toEqual({ result: "slow", replayed: true });
  });

  /** Keys whose answers wait until they are let through. */
  async function openSlow() {
    const { commands, close } = await borrowRedis(server.url);
    let letThrough = (): void => undefined;
    const gate = new Promise<void>((resolve) => (letThrough = resolve));
    let answers = 0;
    const keys = redisIdempotency({
      runtime: platform(),
      commands: {
        evaluate: async (...call) => {
          const answer = await commands.evaluate(...call);
          answers += 1;
          await gate;
          return answer;
        },
      },
      explain: explainRedis,
      ...{ prefix: `t${count}:`, timeoutMs: 5_000, maxBytes: 100, digest: (text) => text, close },
    });
    onTestFinished(() => keys.close());
    return { keys, letThrough, isAnswered: () => answers > 0 };
  }

  it("do not begin the work where the answer comes after the lease", async () => {
    const quick = await open();
    const slow = await openSlow();
    const late = slow.keys.once("k", { lease: 50 }, never);
    await until(slow.isAnswered);
    expect(await quick.once("k", {}, () => "quick")).toEqual({ result: "quick", replayed: false });
    slow.letThrough();
    expect(await late).toEqual({ result: "quick", replayed: true });
  });

  it("say that the work was not run where each answer comes after the lease", async () => {
    const quick = await open();
    const slow = await openSlow();
    const late = slow.keys.once("k", { lease: 50, wait: 0 }, never);
    await until(slow.isAnswered);
    await until(async () => (await server.command("EXISTS", `t${count}:k`)) === 0);
    slow.letThrough();
    await expect(late).rejects.toMatchObject({ family: "unavailable" });
    const next = await quick.once("k", { wait: 0 }, () => "quick");
    expect(next).toEqual({ result: "quick", replayed: false });
  });

  it("are taken over by the server's clock, and the late one records nothing", async () => {
    const keys = await open();
    const url = server.url as `redis://${string}`;
    const options = { prefix: `t${count}:`, runtime: withWallClockOff(3_600_000) };
    const ahead = await idempotency(url, options);
    onTestFinished(() => ahead.close());
    let finish: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (finish = resolve));
    let signal: AbortSignal | undefined;
    const late = keys.once("k", { lease: 300 }, async (attempt) => {
      signal = attempt.signal;
      await held;
      return "late";
    });
    late.catch(() => undefined);
    await until(() => signal !== undefined);
    await expect(ahead.once("k", { wait: 0 }, never)).rejects.toBeInstanceOf(InProgressError);
    const next = await ahead.once("k", { wait: "10s" }, () => "next");
    expect(next).toEqual({ result: "next", replayed: false });
    expect(signal!.aborted).toBe(true);
    expect(signal!.reason).toBeInstanceOf(LeaseLostError);
    finish();
    await expect(late).rejects.toMatchObject({
      code: "TENURE_LEASE_LOST",
      outcome: { status: "fulfilled", value: "late" },
    });
    expect(await keys.once("k", {}, never)).toEqual({ result: "next", replayed: true });
  });

  it("are taken over from a process that is killed at work, once its lease is over", async () => {
    const keys = await open({ prefix: "tenure:idempotency:" });
    const child = startChild("idempotency");
    await child.tell({ do: "open", target: { url: server.url, options: {} } });
    const options = { lease: "1s" };
    const lost = child.tell({ do: "once", key: "killed", options, work: { hangs: true } });
    lost.catch(() => undefined);
    await until(async () => (await effectsOf("killed")).length === 1);
    await child.kill();
    const next = await keys.once("killed", { wait: "10s" }, () => "next");
    expect(next).toEqual({ result: "next", replayed: false });
  });

  it(
    "bring 50 processes that race to one result, and to one effect but for those that die",
    async () => {
      const keys = await open({ prefix: "tenure:idempotency:" });
      const raced = await race<{
        result: unknown;
        replayed: boolean;
        failed?: string;
        pid: number;
      }>({
        program: "idempotency",
        processes: RACERS,
        opening: { do: "open", target: { url: server.url, options: {} } },
        round: (n) => ({
          ...{ do: "once", key: `round ${n}`, work: { pauseMs: n % 3 } },
          options: { input: { n }, wait: "60s", lease: "3s" },
        }),
        forMs: RACE_MS,
        dying: 2,
        judge: async (n, answers) => {
          const key = `round ${n}`;
          const { result } = await keys.once(key, { input: { n } }, never);
          const outlasted = answers.filter(({ failed }) => failed === "LeaseLostError");
          for (const answer of answers) {
            if (!outlasted.includes(answer)) expect(answer).toMatchObject({ result });
          }
          // Of the living, each that did it a second time knows that it outlasted its lease.
          const effects = (await effectsOf(key)).map(Number);
          const living = effects.filter((pid) => answers.some((answer) => answer.pid === pid));
          expect(living.length).toBeLessThanOrEqual(1 + outlasted.length);
          expect(effects).toContain(Number((result as { who: string }).who));
        },
      });
      tell("idempotency keys on Redis", raced);
    },
    RACE_TIMEOUT_MS,
  );
});
