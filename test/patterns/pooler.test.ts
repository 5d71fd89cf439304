/** Patterns behind a pooler that gives each transaction whichever session is free. */
import { Pool } from "pg";
import postgres from "postgres";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { cas } from "../../src/cas/open.js";
import { claims } from "../../src/claims/open.js";
import { UnavailableError } from "../../src/core/errors.js";
import { idempotency } from "../../src/idempotency/open.js";
import { inbox } from "../../src/inbox/open.js";
import { outbox } from "../../src/outbox/open.js";
import { queue } from "../../src/queue/open.js";
import { reservations } from "../../src/reservations/open.js";
import { rows } from "../../src/rows/open.js";
import { cronCoordinator } from "../../src/schedule/open.js";
import { describeOn } from "../servers/find.js";
import { pgbouncerProgram, startPgBouncer, type PgBouncer } from "../servers/pgbouncer.js";
import { startPostgres, type PostgresServer } from "../servers/postgres.js";
import { until } from "./until.js";

describeOn(pgbouncerProgram, "patterns behind a pooler", () => {
  let server: PostgresServer;
  /** Everybody's transactions share one session of the server. */
  let pooler: PgBouncer;

  beforeAll(async () => {
    server = await startPostgres();
    pooler = await startPgBouncer(server, { default_pool_size: 1 });
    await server.query("CREATE TABLE orders (id integer PRIMARY KEY, state text NOT NULL)");
  });
  afterAll(async () => {
    await pooler?.dispose();
    await server?.dispose();
  });

  const SETTINGS = `SELECT current_setting('statement_timeout') AS statement,
    current_setting('lock_timeout') AS lock,
    current_setting('idle_in_transaction_session_timeout') AS idle,
    current_setting('transaction_isolation') AS isolation,
    current_setting('transaction_read_only') AS read_only, pg_backend_pid() AS pid`;

  /** Another program, which gets the session next. */
  function neighbour(): { finds: () => Promise<unknown> } {
    const pool = new Pool({ connectionString: pooler.url, max: 1 });
    pool.on("error", () => undefined);
    onTestFinished(() => pool.end());
    return { finds: async () => (await pool.query(SETTINGS)).rows[0] };
  }

  /** A client of each library, beside the URL. */
  const targets = {
    "a URL": () => pooler.url,
    pg: () => {
      const pool = new Pool({ connectionString: pooler.url, max: 3 });
      pool.on("error", () => undefined);
      onTestFinished(() => pool.end());
      return pool;
    },
    postgres: () => {
      const sql = postgres(pooler.url, { max: 3, prepare: false, onnotice: () => undefined });
      onTestFinished(() => sql.end({ timeout: 1 }));
      return sql;
    },
  };

  it.each(Object.keys(targets) as (keyof typeof targets)[])(
    "work, and leave the session as it was: %s",
    async (name) => {
      const target: any = targets[name]();
      const { finds } = neighbour();
      const before = await finds();
      expect(before).toMatchObject({ statement: "0", lock: "0", idle: "0", read_only: "off" });
      const schema = `pooled_${Object.keys(targets).indexOf(name)}`;
      const open = async <P extends { close(): Promise<void> }>(
        factory: (target: any, options: { schema: string }) => Promise<P>,
      ): Promise<P> => {
        const pattern = await factory(target, { schema });
        onTestFinished(() => pattern.close());
        expect(await finds()).toEqual(before);
        return pattern;
      };
      const and = async <R>(answer: Promise<R>): Promise<R> => {
        const result = await answer;
        expect(await finds()).toEqual(before);
        return result;
      };

      const c = await open(claims);
      expect(await and(c.claim("a", "me"))).toBe(true);
      expect(await and(c.claim("a", "you"))).toBe(false);
      const claim = (await and(c.claim("b", "me", { lease: "1m" })))!;
      await and(c.complete(claim));
      expect(await c.inspect("b")).toMatchObject({ state: "done" });

      const r = await open(reservations);
      expect(await and(r.reserve("seat", "ann", { for: "1m" }))).toMatchObject({ holder: "ann" });
      expect(await and(r.reserve("seat", "bob", { for: "1m" }))).toBeNull();
      expect(await and(r.confirm("seat", "ann"))).toMatchObject({ state: "confirmed" });

      const q = await open(queue);
      for (const n of [1, 2, 3]) await and(q.add({ key: "k", payload: n }));
      for (const n of [1, 2, 3]) {
        const job = (await and(q.take()))!;
        expect(job.payload).toBe(n);
        await and(job.extend());
        await and(job.complete());
      }
      expect(await and(q.take())).toBeNull();

      const fires = await open(cronCoordinator);
      const fire = `report:2020-01-01T00:0${Object.keys(targets).indexOf(name)}:00.000Z`;
      expect(await and(fires.shouldRun(fire, 30_000))).toBe(true);
      expect(await and(fires.shouldRun(fire, 30_000))).toBe(false);
      await and(fires.onComplete(fire));

      const keys = await open(idempotency);
      const paid = await and(keys.once("pay", { input: 1 }, () => "paid"));
      expect(paid).toMatchObject({ result: "paid" });
      const events = await open(inbox);
      expect(await and(events.once("e", "c", () => "seen"))).toBeDefined();
      const values = await open(cas);
      expect(await and(values.write("k", { n: 1 }, { version: null }))).toMatchObject({});
      const box = await open(outbox);
      const message = { key: "k", topic: "t", payload: 1 };
      const writer = targets.pg();
      const client = await writer.connect();
      await client.query("BEGIN");
      await box.write(client, message);
      await client.query("COMMIT");
      client.release();
      const stop = new AbortController();
      const seen: unknown[] = [];
      const relaying = box.relay(({ payload }) => void seen.push(payload), { signal: stop.signal });
      await until(async () => (await box.stats()).published === 1);
      stop.abort();
      await and(relaying);
      expect(seen).toEqual([1]);
    },
  );

  it("a statement that fails, or whose lock is never free, leaves nothing either", async () => {
    const { finds } = neighbour();
    const before = await finds();
    const c = await claims(pooler.url, { schema: "failing", timeout: 300 });
    onTestFinished(() => c.close());
    // On a session of its own, beside the pooler.
    const other = new Pool({ connectionString: server.url, max: 1 });
    onTestFinished(() => other.end());
    await other.query("BEGIN");
    await other.query("INSERT INTO failing.claim (name, state) VALUES ('a', 'pending')");
    await expect(c.claim("a", "me")).rejects.toThrow(UnavailableError);
    expect(await finds()).toEqual(before);
    await other.query("ROLLBACK");
    const r = await rows(pooler.url, { timeout: 300 });
    onTestFinished(() => r.close());
    const work = r.transaction(async (tx: any) => {
      await tx.query("INSERT INTO orders VALUES (1, 'new')");
      await tx.query("SELECT 1 / 0");
    });
    await expect(work).rejects.toMatchObject({ code: "22012" });
    expect(await finds()).toEqual(before);
    expect(await server.query("SELECT 1 FROM orders")).toEqual([]);
  });
});
