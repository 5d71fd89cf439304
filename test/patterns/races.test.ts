import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { claims, type LoneClaims } from "../../src/claims/open.js";
import { inbox } from "../../src/inbox/open.js";
import { describeOn } from "../servers/find.js";
import { redisProgram, startRedis, type RedisServer } from "../servers/redis.js";
import { eventually } from "./claims-suite.js";
import { race, startChild, type Child } from "./children.js";
import { onStores, type Spot } from "./stores.js";

const PROCESSES = 50;
/** A longer time finds rarer orders: `RACE_MS=20000`. */
const RACE_MS = Number(process.env["RACE_MS"] ?? 3_000);
const KEYS_PER_ROUND = 5;
/** Nothing may be stuck for longer than a transaction may take. */
const TIMEOUT_MS = 15_000;
/** Most of it is for starting so many processes. */
const WITHIN_MS = 240_000 + 3 * RACE_MS;

interface Won {
  readonly won: readonly string[];
}

const keysOf = (round: number): string[] =>
  Array.from({ length: KEYS_PER_ROUND }, (_, k) => `key-${round}-${k}`);

type Judge = (keys: readonly string[]) => Promise<void>;

/** Each round's keys are wanted by all processes; `order` says how. */
async function racing(
  title: string,
  target: object,
  orders: readonly { readonly do: string; readonly judge: Judge }[],
): Promise<void> {
  const orderOf = (n: number) => orders[n % orders.length]!;
  const keyed = (n: number) => (orderOf(n).do === "once" ? "events" : "keys");
  const { rounds, killed, longestMs } = await race<Won>({
    program: "races",
    processes: PROCESSES,
    opening: { do: "open", ...target, timeout: TIMEOUT_MS },
    round: (n) => ({ do: orderOf(n).do, [keyed(n)]: keysOf(n), owner: "any" }),
    forMs: RACE_MS,
    dying: 3,
    judge: async (n, answers) => {
      for (const key of keysOf(n)) {
        // None may have been told: whoever got it was killed before it could say so.
        const told = answers.filter(({ won }) => won.includes(key)).length;
        expect(told, `those that got ${key}`).toBeLessThanOrEqual(1);
      }
      await orderOf(n).judge(keysOf(n));
    },
  });
  const field = `${rounds} rounds of ${PROCESSES} processes for ${KEYS_PER_ROUND} keys each`;
  const deaths = `${killed} killed, longest round ${Math.round(longestMs)} ms`;
  process.stdout.write(`${title}: ${field}, ${deaths}\n`);
  expect(longestMs).toBeLessThan(TIMEOUT_MS);
}

const oneOwner =
  (c: LoneClaims): Judge =>
  async (keys) => {
    for (const key of keys) {
      expect(await c.inspect(key)).toMatchObject({ state: "running", owner: "any" });
    }
  };

const oneEffect =
  (spot: Spot): Judge =>
  async (keys) => {
    const effects = await spot.query(
      `SELECT event, count(*) AS n FROM effects
       WHERE event IN (${keys.map(() => "?").join(", ")}) GROUP BY event`,
      keys,
    );
    expect(effects.map(({ event }) => event as string).sort()).toEqual([...keys].sort());
    for (const { event, n } of effects) expect(Number(n), `effects of ${event}`).toBe(1);
  };

/** Jobs whose workers are killed are taken over, and each is completed once. */
async function jobRace(c: LoneClaims, target: object): Promise<void> {
  const jobs = Array.from({ length: 60 }, (_, i) => `job-${i}`);
  for (const job of jobs) await c.add(job);
  const order = { do: "jobs", owner: "worker", lease: "500ms", untilDone: jobs.length };
  const children = Array.from({ length: 8 }, () => startChild("races"));
  await Promise.all(
    children.map((child) => child.tell({ do: "open", ...target, timeout: TIMEOUT_MS })),
  );
  const answers = children.map((child) =>
    child.tell(order).catch((error: unknown) => {
      if (child.isDead) return { done: [] };
      throw error;
    }),
  );
  await eventually("some jobs to be done", async () =>
    (await c.list({ state: "done" })).length > 10 ? true : null,
  );
  await Promise.all(children.slice(0, 4).map((child) => child.kill()));
  const done = (await Promise.all(answers)).flatMap(({ done: some }) => some as string[]);
  expect(new Set(done).size).toBe(done.length);
  const list = await c.list();
  expect(list.filter(({ state }) => state !== "done")).toEqual([]);
  expect(list).toHaveLength(jobs.length);
}

/** A worker that is frozen through a take-over cannot complete when it wakes. */
async function frozenWorker(c: LoneClaims, target: object): Promise<void> {
  const child: Child = startChild("races");
  await child.tell({ do: "open", ...target, timeout: TIMEOUT_MS });
  const { claim } = await child.tell({ do: "take", key: "frozen", owner: "a", lease: "300ms" });
  child.freeze();
  const second = await eventually("the lease of a frozen worker to end", () =>
    c.claim("frozen", "b", { lease: "60s" }),
  );
  expect(second.token > BigInt(claim.token)).toBe(true);
  child.thaw();
  expect(await child.tell({ do: "complete" })).toEqual({
    completed: false,
    name: "SupersededError",
    mark: { token: String(second.token), holder: second.holder },
  });
  await c.complete(second);
}

onStores(
  "processes",
  (store) => {
    it(
      "that race get each key once, and have one effect of each event, though some are killed",
      async () => {
        const spot = await store.fresh();
        const c = await spot.open(claims, { timeout: TIMEOUT_MS });
        await spot.open(inbox);
        await spot.query("CREATE TABLE effects (event VARCHAR(80) NOT NULL)");
        await racing(store.name, spot.forChildren, [
          { do: "claim", judge: oneOwner(c) },
          { do: "once", judge: oneEffect(spot) },
        ]);
      },
      WITHIN_MS,
    );

    it("that work through jobs complete each once, though some are killed", async () => {
      const spot = await store.fresh();
      await jobRace(await spot.open(claims), spot.forChildren);
    });

    it("that were frozen through a take-over cannot complete", async () => {
      const spot = await store.fresh();
      await frozenWorker(await spot.open(claims), spot.forChildren);
    });
  },
  ["sqlite", "pg", "mysql"],
);

describeOn(redisProgram, "processes on Redis", () => {
  let server: RedisServer;
  let n = 0;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(async () => {
    await server?.dispose();
  });

  const place = async (): Promise<[LoneClaims, object]> => {
    const options = { prefix: `p${++n}:` };
    const c = await claims(server.url as `redis://${string}`, options);
    onTestFinished(() => c.close());
    return [c, { url: server.url, options }];
  };

  it(
    "that race get each key once, though some are killed",
    async () => {
      const [c, target] = await place();
      await racing("redis", target, [{ do: "claim", judge: oneOwner(c) }]);
    },
    WITHIN_MS,
  );

  it("that work through jobs complete each once, though some are killed", async () => {
    await jobRace(...(await place()));
  });

  it("that were frozen through a take-over cannot complete", async () => {
    await frozenWorker(...(await place()));
  });
});

describe("a race", () => {
  it("finds a store that gives a key twice", async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "tenure-careless-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const judged = race<Won>({
      program: "careless",
      processes: 10,
      opening: { do: "open", folder },
      round: (round) => ({ do: "claim", keys: keysOf(round) }),
      forMs: 20_000,
      dying: 0,
      judge: (round, answers) => {
        for (const key of keysOf(round)) {
          expect(answers.filter(({ won }) => won.includes(key)).length).toBeLessThanOrEqual(1);
        }
      },
    });
    await expect(judged).rejects.toThrow(/less than or equal/);
  });
});
