import { Cluster, Redis } from "ioredis";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import {
  NotArmedError,
  OutcomeUnknownError,
  StaleTokenError,
  TokenConflictError,
  UnavailableError,
} from "../../src/core/errors.js";
import { redisCommands, type RedisCommands } from "../../src/drivers/redis/commands.js";
import { explainRedis } from "../../src/drivers/redis/errors.js";
import type { FenceCall, FenceStore } from "../../src/fences/contract.js";
import {
  decide,
  type FenceRequest,
  type MarkRecord,
  type Scope,
  type Verdict,
} from "../../src/fences/decide.js";
import { createRedisFence, redisStore, type RedisFence } from "../../src/fences/redis/index.js";
import { lowKey, markKey } from "../../src/fences/redis/keys.js";
import { redisFence } from "../../src/fences/redis/open.js";
import type { RedisTx } from "../../src/fences/redis/transaction.js";
import { faultProxy } from "../../src/testing/fault-proxy.js";
import { describeOn } from "../servers/find.js";
import {
  disposeAll,
  redisProgram,
  startRedis,
  startRedisCluster,
  type RedisServer,
} from "../servers/redis.js";
import { bearer } from "./bearers.js";
import { testRuntime } from "./runtime.js";

const call: FenceCall = { signal: undefined, remainingMs: () => Infinity };
const faults = { explain: explainRedis };
const here: Scope = { storeId: "store-1", name: "acct:7" };
const scopes = [here, { storeId: "store-2", name: "acct:7" }, { storeId: "store-1", name: "a" }];
const tokens = [9n, 10n, 2n ** 53n, 2n ** 53n + 1n, 2n ** 63n - 1n];
const PREFIX = "rules:";

function* marks(): Generator<Omit<MarkRecord, "scope" | "past">> {
  for (const token of tokens) {
    for (const holder of ["a", "b"]) {
      for (const arm of [1, 2, 10]) {
        for (const n of [0, 1, 10]) yield { token, holder, arm, n };
      }
    }
  }
}

function* requests(): Generator<FenceRequest> {
  for (const op of ["arm", "read", "write"] as const) {
    for (const scope of scopes) {
      // Of another scope nothing else counts: a few will do.
      for (const mark of scope === here ? marks() : [...marks()].slice(0, 3)) {
        yield { op, resource: "", scope, ...mark };
      }
    }
  }
}

function ask(store: FenceStore<RedisTx>, request: FenceRequest): Promise<{ accepted: boolean }> {
  if (request.op === "arm") return store.arm(request, call);
  return store[request.op](request, () => undefined, call);
}

describeOn(redisProgram, "redis fence", () => {
  let server: RedisServer;
  let client: Redis;
  let commands: RedisCommands;
  let fence: RedisFence;
  beforeAll(async () => {
    server = await startRedis();
    client = new Redis(server.port);
    commands = redisCommands(client);
    fence = createRedisFence({ commands, faults, runtime: testRuntime().runtime });
  });
  afterAll(async () => {
    client.disconnect();
    await server.dispose();
  });

  it(
    "decides in Lua what decide.ts decides, for every mark and request of a few",
    { timeout: 300_000 },
    async () => {
      const store = redisStore({ commands, faults }, PREFIX);
      const all = [...requests()];
      const wrong: unknown[] = [];
      const seen = { accepted: 0, refused: 0 };
      const compare = async (
        mark: MarkRecord | null,
        request: FenceRequest,
        i: number,
      ): Promise<void> => {
        const resource = `r${i}`;
        const key = markKey(PREFIX, resource);
        await client.del(key, lowKey(key));
        if (mark !== null) {
          const { scope, token, holder, arm, n } = mark;
          const fields = { s: scope.storeId, l: scope.name, t: String(token), h: holder };
          await client.hset(key, { ...fields, a: arm, n, p: "[]" });
        }
        const expected: Verdict = decide(mark, request);
        const answer = await ask(store, { ...request, resource });
        const kept = await store.load(resource, call);
        const right =
          expected.accepted === answer.accepted &&
          (expected.accepted || expected.why === (answer as { why?: unknown }).why) &&
          text(kept) === text(expected.record);
        if (!right) wrong.push({ mark, request, answer, kept, expected });
        seen[answer.accepted ? "accepted" : "refused"]++;
      };
      for (const mark of [null, ...marks()]) {
        const record = mark === null ? null : { scope: here, ...mark, past: [] };
        await Promise.all(all.map((request, i) => compare(record, request, i)));
      }
      expect(wrong.slice(0, 3)).toEqual([]);
      expect(seen.accepted).toBeGreaterThan(2_000);
      expect(seen.refused).toBeGreaterThan(15_000);
    },
  );

  it("judges an arming by the copy when the mark alone is lost, and lets nothing else pass", async () => {
    const key = markKey("tenure:fence:", "lost");
    const a = await fence.arm(bearer(33n, { holder: "a" }), "lost");
    const b = await fence.arm(bearer(34n, { holder: "b" }), "lost");
    await b.write((tx) => tx.call("SET", "lost", "b"));
    await client.del(key);
    await expect(b.write((tx) => tx.call("SET", "lost", "late"))).rejects.toThrow(NotArmedError);
    await expect(a.read((tx) => tx.call("GET", "lost"))).rejects.toThrow(NotArmedError);
    await expect(fence.arm(bearer(33n, { holder: "a" }), "lost")).rejects.toThrow(StaleTokenError);
    await expect(fence.arm(bearer(34n, { holder: "c" }), "lost")).rejects.toThrow(
      TokenConflictError,
    );
    const again = await fence.arm(bearer(34n, { holder: "b" }), "lost");
    expect(again.arm).toBe(2);
    await again.write((tx) => tx.call("SET", "lost", "again"));
    expect(await client.get("lost")).toBe("again");
    expect(await client.pttl(key)).toBe(-1);
  });

  it("runs several commands and scripts in one step, and gives each its reply", async () => {
    const handle = await fence.arm(bearer(1n), "steps");
    const result = await handle.write(async (tx) => {
      tx.call("SET", "steps:a", "1");
      const lua = "redis.call('SET', KEYS[1], ARGV[1]) return {KEYS[1], redis.call('GET', KEYS[2])}";
      const both = tx.script<string[]>(lua, ["steps:b", "steps:a"], [2n]);
      const absent = tx.call("GET", "steps:none");
      const sum = tx.call<number>("INCRBY", "steps:a", 4);
      return { both: await both, absent: await absent, sum: await sum };
    });
    expect(result).toEqual({ both: ["steps:b", "1"], absent: null, sum: 5 });
    expect(await client.mget("steps:a", "steps:b")).toEqual(["5", "2"]);
    expect(await handle.read((tx) => tx.call("MGET", "steps:a", "steps:b"))).toEqual(["5", "2"]);
  });

  it("sends nothing of work that fails before it has awaited a reply", async () => {
    const handle = await fence.arm(bearer(1n), "early");
    const boom = new Error("boom");
    const failing = handle.write(async (tx) => {
      tx.call("SET", "early", "1");
      await Promise.resolve();
      throw boom;
    });
    await expect(failing).rejects.toBe(boom);
    expect(await client.exists("early")).toBe(0);
    expect((await fence.mark("early"))?.n).toBe(0);
  });

  it("says outcome unknown when the work fails after its write was applied", async () => {
    const handle = await fence.arm(bearer(1n), "after");
    const failing = handle.write(async (tx) => {
      await tx.call("SET", "after", "1");
      tx.call("SET", "after", "2");
    });
    const error = await failing.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(OutcomeUnknownError);
    expect(String((error as Error).cause)).toMatch(/note commands before/);
    expect(await client.get("after")).toBe("1");
    await handle.write((tx) => tx.call("SET", "after", "3"));
    expect(handle.arm).toBe(2);
  });

  it("tells a first command that fails from a later one, which leaves those before it", async () => {
    await client.set("text", "x");
    const handle = await fence.arm(bearer(1n), "fails");
    const first = handle.write((tx) => tx.call("LPUSH", "text", "1"));
    await expect(first).rejects.toThrow(/command 1 failed: WRONGTYPE/);
    await expect(first).rejects.toThrow(UnavailableError);
    const second = handle.write((tx) => {
      tx.call("SET", "fails", "1");
      tx.call("LPUSH", "text", "1");
    });
    await expect(second).rejects.toThrow(OutcomeUnknownError);
    await expect(second).rejects.toThrow(/command 2 failed: WRONGTYPE/);
    expect(await client.get("fails")).toBe("1");
  });

  it("refuses to write in a read", async () => {
    const handle = await fence.arm(bearer(1n), "reads");
    const write = handle.read((tx) => tx.call("SET", "reads", "1"));
    await expect(write).rejects.toThrow(/read-only|no-writes/i);
    expect(await client.exists("reads")).toBe(0);
  });

  it("takes a stranger's key for an error, and no damaged mark for a lower one", async () => {
    await client.set(markKey("tenure:fence:", "foreign"), "mine");
    await client.hset(markKey("tenure:fence:", "damaged"), "t", "5");
    await client.hset(markKey("tenure:fence:", "other"), "x", "5");
    for (const name of ["foreign", "damaged", "other"]) {
      const error = await fence.arm(bearer(9n), name).catch((thrown: unknown) => thrown);
      expect(error, name).toBeInstanceOf(UnavailableError);
    }
    await client.del(markKey("tenure:fence:", "foreign"));
  });

  it("takes a write that its client sent twice for one whose reply was lost", async () => {
    const twice: RedisCommands = {
      ...commands,
      evaluate: async (...step) => {
        if (step[2][0] === "write") await commands.evaluate(...step);
        return commands.evaluate(...step);
      },
    };
    const runtime = testRuntime().runtime;
    const resending = createRedisFence({ commands: twice, faults, runtime });
    const handle = await resending.arm(bearer(1n), "twice");
    const write = handle.write((tx) => tx.call("INCR", "twice"));
    await expect(write).rejects.toThrow(OutcomeUnknownError);
    expect(await client.get("twice")).toBe("1");
  });

  it("keeps resources apart whose names end like keys of one another", async () => {
    for (const end of [":low", ":v:x"]) {
      const [one, other] = ["{names}stock", `{names}stock${end}`];
      const [older, newer] = [bearer(7n, { holder: "a" }), bearer(8n, { holder: "b" })];
      await fence.arm(older, one);
      const stale = await fence.arm(older, other);
      const newest = await fence.arm(newer, other);
      await newest.write((tx) => tx.call("SET", tx.key("v"), "newer"));
      // Neither its mark, what is left of that, nor its data is the mark of the other.
      const again = await fence.arm(older, one);
      await again.write((tx) => tx.call("DEL", tx.key("x")));
      expect(await fence.mark(other)).toMatchObject({ token: 8n, holder: "b" });
      const late = stale.write((tx) => tx.call("SET", tx.key("v"), "stale"));
      await expect(late).rejects.toThrow(StaleTokenError);
      expect(await newest.read((tx) => tx.call("GET", tx.key("v")))).toBe("newer");
    }
  });

  it("takes a write and a re-arming that ioredis sent again for its own", async () => {
    const proxy = await faultProxy({ port: server.port });
    const resending = new Redis(proxy.port, { retryStrategy: () => 20 });
    resending.on("error", () => undefined);
    // The reply is lost with the connection, and what it was for is sent again over the next one.
    const withoutReply = async <T>(isApplied: () => Promise<boolean>, step: () => Promise<T>) => {
      proxy.silence("reply");
      const outcome = step().catch((thrown: unknown) => thrown);
      await vi.waitUntil(isApplied, { timeout: 30_000 });
      await proxy.heal();
      return outcome;
    };
    try {
      const handle = await redisFence(resending).arm(bearer(1n), "resent");
      const add = (): Promise<unknown> => handle.write((tx) => tx.call("INCR", tx.key("v")));
      // From here on the server knows the scripts, and the first sending of each is applied.
      expect(await add()).toBe(1);
      const isAt = async (arm: number, n: number): Promise<boolean> => {
        const mark = await fence.mark("resent");
        return mark?.arm === arm && mark.n >= n;
      };
      const unknown = await withoutReply(() => isAt(1, 2), add);
      expect(unknown).toBeInstanceOf(OutcomeUnknownError);
      expect(await withoutReply(() => isAt(2, 0), add)).toBe(3);
      expect(handle.arm).toBe(2);
      expect(await add()).toBe(4);
    } finally {
      resending.disconnect();
      await proxy.close();
    }
  });

  it("counter-lost: FLUSHALL takes the marks too, and armed handles are refused", async () => {
    const handle = await fence.arm(bearer(5n), "flushed");
    await client.flushall();
    const write = handle.write((tx) => tx.call("SET", "flushed", "1"));
    await expect(write).rejects.toThrow(NotArmedError);
  });

  it("checks its options", () => {
    expect(() => redisFence({} as never)).toThrow(/client must be a client of node-redis/);
    expect(() => redisFence(client, { prefix: "a{b}" })).toThrow(/prefix must be/);
    expect(() => redisFence(client, { onStale: "maybe" as never })).toThrow(/onStale/);
  });
});

describeOn(redisProgram, "redis fence in a cluster", () => {
  let servers: readonly RedisServer[];
  let client: Cluster;
  beforeAll(async () => {
    servers = await startRedisCluster();
    client = new Cluster(servers.map(({ port }) => ({ host: "127.0.0.1", port })));
  });
  afterAll(async () => {
    client.disconnect();
    await disposeAll(servers);
  });

  it("keeps the mark with the data's key, with or without a tag, and its own keys anywhere", async () => {
    const fence = redisFence(client);
    const names = ["plain", "{user:7}:cart", "x{y}z", "a}b", "a{b", "{}", "{}{a}", "%7D", "a%7Db"];
    for (const [i, name] of names.entries()) {
      const handle = await fence.arm(bearer(BigInt(i + 1)), name);
      const key = fence.key(name, "value");
      await handle.write((tx) => tx.call("SET", key, String(i)));
      expect(await handle.read((tx) => tx.call("GET", tx.key("value")))).toBe(String(i));
      if (/^[^{}]*(\{[^{}]+\}[^{}]*)?$/.test(name)) {
        await handle.write((tx) => tx.call("SET", name, String(i)));
        expect(await client.get(name)).toBe(String(i));
      }
    }
    const seen = await Promise.all(names.map(async (name) => (await fence.mark(name))?.token));
    expect(seen).toEqual(names.map((_, i) => BigInt(i + 1)));
  });

  it("refuses keys of other slots, says what to do, and applies nothing", async () => {
    const fence = redisFence(client);
    const handle = await fence.arm(bearer(1n), "here");
    const write = handle.write((tx) => {
      tx.call("SET", "here", "1");
      tx.call("SET", "elsewhere", "1");
    });
    await expect(write).rejects.toThrow(/other slots of the cluster.*fence\.key/);
    await expect(write).rejects.toThrow(UnavailableError);
    expect(await client.get("here")).toBeNull();
  });
});

function text(record: MarkRecord | null): string {
  return JSON.stringify(record, (_, value: unknown) =>
    typeof value === "bigint" ? String(value) : value,
  );
}
