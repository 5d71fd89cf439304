import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { claims, jobStatements, type Claim, type Claims } from "../../src/claims/open.js";
import { SupersededError } from "../../src/core/errors.js";
import { describeOn } from "../servers/find.js";
import { redisProgram, startRedis, type RedisServer } from "../servers/redis.js";
import { claimsSuite, eventually } from "./claims-suite.js";
import { onStores, type Spot } from "./stores.js";
import { until } from "./until.js";

const open = (spot: Spot, options: object = {}): Promise<Claims<any>> =>
  spot.open(claims, options) as Promise<Claims<any>>;

onStores("claims", (store) => {
  claimsSuite(async () => {
    const spot = await store.fresh();
    return (options) => open(spot, options);
  });

  it("claims in the caller's transaction, and is undone with it", async () => {
    const spot = await store.fresh();
    const c = await open(spot);
    await spot.query("CREATE TABLE effects (id INTEGER PRIMARY KEY)");
    const claimThen = (fails: boolean) => (tx: any) => {
      const end = (won: unknown): unknown => {
        if (fails) throw new Error("boom");
        return won;
      };
      const won = c.within(tx).claim("job", "a") as unknown;
      return store.dialect === "sqlite" ? end(won) : (won as Promise<unknown>).then(end);
    };
    await expect(spot.begin(claimThen(true))).rejects.toThrow("boom");
    expect(await c.inspect("job")).toBeNull();
    expect(await spot.begin(claimThen(false))).toBe(true);
    expect(await spot.begin(claimThen(false))).toBe(false);
    expect(await c.inspect("job")).toMatchObject({ owner: "a", state: "running" });
  });

  it("undoes the effect of a worker whose claim was taken over", async () => {
    const spot = await store.fresh();
    const c = await open(spot);
    await spot.query("CREATE TABLE effects (id INTEGER PRIMARY KEY)");
    const first = (await c.claim("job", "a", { lease: 1 }))!;
    const second = await eventually("the lease to end", () => c.claim("job", "b", { lease: "1m" }));
    const effect = (claim: Claim, id: number) => (tx: any) => {
      const text = `INSERT INTO effects (id) VALUES (${id})`;
      if (store.dialect === "sqlite") {
        tx.run(text);
        return c.within(tx).complete(claim) as unknown;
      }
      return tx.query(text).then(() => c.within(tx).complete(claim));
    };
    await expect(c.transaction(effect(first, 1))).rejects.toThrow(SupersededError);
    expect(await spot.query("SELECT id FROM effects")).toEqual([]);
    await c.transaction(effect(second, 2));
    expect(await spot.query("SELECT id FROM effects")).toEqual([{ id: 2 }]);
  });

  it("refuses a key that is taken without waiting for whoever writes", async () => {
    const spot = await store.fresh();
    const c = await open(spot);
    const hasty = await open(spot, { timeout: 100 });
    await c.claim("good", "a");
    await c.claim("short", "a", { lease: 1 });
    const busy = await spot.openTransaction();
    await busy.query(
      store.dialect === "postgres"
        ? `INSERT INTO ${spot.options.schema}.claim (name, state) VALUES ('x', 'pending')`
        : "INSERT INTO tenure_claim (name, state) VALUES ('x', 'pending')",
    );
    expect(await c.claim("good", "b")).toBe(false);
    expect(await c.claim("good", "b", { lease: "1m" })).toBeNull();
    if (store.dialect === "sqlite") {
      // What is free is written, and has to wait.
      const waiting = hasty.claim("short", "b", { lease: "1m" });
      await expect(waiting).rejects.toThrow(/another connection/);
    }
    await busy.rollback();
    await eventually("the lease to end", () => c.claim("short", "b", { lease: "1m" }));
    await c.close();
    await expect(c.claim("good", "b")).rejects.toThrow(/the store is closed/);
  });

  // On SQLite nobody else is in a transaction that writes.
  const passesOver = async (): Promise<void> => {
    const spot = await store.fresh();
    const c = await open(spot, { timeout: "3s" });
    for (const key of ["a", "b", "c"]) await c.add(key);
    const other = await spot.openTransaction();
    expect((await (c.within(other.tx).next("x") as Promise<Claim>)).key).toBe("a");
    expect((await c.next("y"))?.key).toBe("b");
    await other.rollback();
    expect((await c.next("z"))?.key).toBe("a");
  };
  if (store.dialect !== "sqlite") it("passes over keys that others are claiming", passesOver);

  // Somebody claims the key in a transaction, and rolls it back when that time has passed.
  const waitsLonger = async (): Promise<void> => {
    const spot = await store.fresh();
    const [postgres, mysql] = ["extract(epoch FROM clock_timestamp())", "UNIX_TIMESTAMP(NOW(6))"];
    const clock = store.dialect === "mysql" ? mysql : postgres;
    const nowMs = async (): Promise<number> =>
      Number((await spot.query(`SELECT floor(${clock} * 1000) AS ms`))[0]!["ms"]);
    const c = await open(spot);
    for (const isOwn of [false, true]) {
      const other = await spot.openTransaction();
      const mine = await spot.openTransaction();
      await (c.within(other.tx).claim(`job ${isOwn}`, "other") as Promise<unknown>);
      const calls = isOwn ? c.within(mine.tx) : c;
      const lease = 100;
      const waiting = calls.claim(`job ${isOwn}`, "me", { lease }) as Promise<Claim>;
      const fromMs = await nowMs();
      await until(async () => (await nowMs()) > fromMs + 5 * lease);
      const overMs = await nowMs();
      await other.rollback();
      const claim = await waiting;
      expect(Number(claim.token / 1000n)).toBeGreaterThanOrEqual(overMs);
      await mine.commit();
      expect(await c.inspect(`job ${isOwn}`)).toMatchObject({ token: claim.token, owner: "me" });
    }
  };
  const waits = "answers no claim that was over while it waited for one that was undone";
  if (store.dialect !== "sqlite") it(waits, waitsLonger);

  it("claims rows of a table of the caller's own by the database's clock", async () => {
    const spot = await store.fresh();
    const types = { sqlite: "INTEGER", postgres: "timestamptz", mysql: "DATETIME(6)" };
    const quote = spot.dialect === "mysql" ? "`" : '"';
    const table = `my ${"'"}jobs; --`;
    await spot.query(`CREATE TABLE ${quote}${table}${quote} (id INTEGER PRIMARY KEY,
      holder VARCHAR(80), held_until ${types[spot.dialect]}, token BIGINT NOT NULL DEFAULT 0)`);
    await spot.query(`INSERT INTO ${quote}${table}${quote} (id) VALUES (1), (2)`);
    const jobs = jobStatements({ dialect: spot.dialect, table, token: "token" });
    const all = (): Promise<object[]> =>
      spot.query(`SELECT id, holder, held_until, token FROM ${quote}${table}${quote} ORDER BY id`);
    /** Whether the statement changed anything. */
    const ran = async ({ text, values }: ReturnType<typeof jobs.take>): Promise<boolean> => {
      const before = JSON.stringify(await all());
      await spot.query(text.replaceAll(/\$\d+/g, "?"), values);
      return JSON.stringify(await all()) !== before;
    };
    const key = { id: 1 };
    expect(await ran(jobs.take({ key, holder: "h'1", lease: "400ms" }))).toBe(true);
    expect(await ran(jobs.take({ key, holder: "h2", lease: "1m" }))).toBe(false);
    expect(await ran(jobs.extend({ key, holder: "h2", lease: "1m" }))).toBe(false);
    expect(await ran(jobs.extend({ key, holder: "h'1", lease: "500ms" }))).toBe(true);
    await eventually("the lease to end", async () =>
      (await ran(jobs.take({ key, holder: "h2", lease: "1m" }))) ? true : null,
    );
    expect(await ran(jobs.release({ key, holder: "h'1" }))).toBe(false);
    expect(await ran(jobs.release({ key, holder: "h2" }))).toBe(true);
    expect(await ran(jobs.take({ key, holder: "h3", lease: "1m" }))).toBe(true);
    expect(await all()).toMatchObject([
      { id: 1, holder: "h3" },
      { id: 2, holder: null, held_until: null },
    ]);
  });
});

describe("statements for a table of the caller's own", () => {
  it("refuse what cannot be a name or a key", () => {
    for (const table of ["", "a.", "a\0", 5]) {
      expect(() => jobStatements({ dialect: "postgres", table: table as never })).toThrow(
        TypeError,
      );
    }
    const jobs = jobStatements({ dialect: "mysql", table: "a`b.c" });
    expect(jobs.release({ key: { id: "x" }, holder: "h" }).text).toContain("`a``b`.`c`");
    for (const key of [{}, null, [], { id: undefined }, { id: null }]) {
      expect(() => jobs.release({ key: key as never, holder: "h" })).toThrow(/^key/);
    }
    expect(() => jobs.take({ key: { id: 1 }, holder: "h", lease: 0 })).toThrow(/^lease must be/);
    expect(() => jobStatements({ dialect: "oracle" as never, table: "t" })).toThrow(
      /^dialect must/,
    );
  });
});

describeOn(redisProgram, "claims on Redis", () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(async () => {
    await server?.dispose();
  });

  let n = 0;
  for (const kind of ["by URL", "over a client"]) {
    describe(kind, () => {
      claimsSuite(async () => {
        const prefix = `p${++n}:`;
        return async (options) => {
          const client = new Redis(server.port);
          onTestFinished(() => client.disconnect());
          const target = kind === "by URL" ? (server.url as `redis://${string}`) : client;
          const c = await claims(target, { prefix, ...options });
          onTestFinished(() => c.close());
          return c;
        };
      });
    });
  }

  it("tells a wrong prefix, and a server that is not there", async () => {
    const url = server.url as `redis://${string}`;
    await expect(claims(url, { prefix: "{x}" })).rejects.toThrow(/^prefix must be/);
    await expect(claims(url, { schema: "x" } as never)).rejects.toThrow(/^schema must be left out/);
    await expect(claims("redis://user:secret@127.0.0.1:1")).rejects.toMatchObject({
      family: "unavailable",
      message: expect.not.stringContaining("secret"),
    });
  });
});
