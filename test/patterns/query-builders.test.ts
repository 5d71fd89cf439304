/** Every pattern inside the transactions of Kysely and Drizzle, as the guide shows it. */
import { sql, type SQL } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { CompiledQuery, Kysely, PostgresDialect } from "kysely";
import { Pool } from "pg";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { cas } from "../../src/cas/open.js";
import { claims } from "../../src/claims/open.js";
import type { RunSql } from "../../src/fences/postgres/open.js";
import { idempotency } from "../../src/idempotency/open.js";
import { inbox } from "../../src/inbox/open.js";
import { outbox } from "../../src/outbox/open.js";
import { queue } from "../../src/queue/open.js";
import { reservations } from "../../src/reservations/open.js";
import { describeOn } from "../servers/find.js";
import { postgresProgram, startPostgres, type PostgresServer } from "../servers/postgres.js";

type Transact = (work: (run: RunSql) => Promise<void>) => Promise<void>;

/** A transaction of each query builder, as a function that runs one statement in it. */
const BUILDERS: Readonly<Record<string, (pool: Pool) => Transact>> = {
  Kysely: (pool) => {
    const db = new Kysely<object>({ dialect: new PostgresDialect({ pool }) });
    return (work) =>
      db.transaction().execute((trx) =>
        work((text, values) => trx.executeQuery(CompiledQuery.raw(text, values))),
      );
  },
  Drizzle: (pool) => {
    const inDrizzle = (tx: { execute(query: SQL): PromiseLike<unknown> }): RunSql => {
      return (text, values) => {
        const parts = text.split(/\$(\d+)/);
        const bound = parts.map((part, i) =>
          i % 2 === 0 ? sql.raw(part) : sql`${values[+part - 1]}`,
        );
        return tx.execute(sql.join(bound));
      };
    };
    return (work) => drizzle(pool).transaction((tx) => work(inDrizzle(tx)));
  },
};

describeOn(postgresProgram, "query builders", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(async () => {
    await server?.dispose();
  });

  it.each(Object.entries(BUILDERS))("%s: each pattern is committed, or not, with the rest", async (name, over) => {
    const pool = new Pool({ connectionString: server.url });
    onTestFinished(() => pool.end());
    const transact = over(pool);
    const schema = name.toLowerCase();
    const opened = await Promise.all([
      ...[cas(pool, { schema }), claims(pool, { schema }), idempotency(pool, { schema })],
      ...[inbox(pool, { schema }), outbox(pool, { schema }), queue(pool, { schema })],
      reservations(pool, { schema }),
    ] as const);
    onTestFinished(async () => void (await Promise.all(opened.map((one) => one.close()))));
    const [values, jobs, keys, events, messages, work, places] = opened as any;
    const all = async (run: RunSql): Promise<unknown[]> => [
      await values.within(run).write("v", { n: "it's $1" }, { version: null }),
      (await jobs.within(run).claim("job", "me", { lease: "1m" })) !== null,
      (await keys.within(run).once("key", { input: 1 }, () => "done")).result,
      await events.record(run, "event", "consumer"),
      (await messages.write(run, { key: "k", topic: "t", id: "m", payload: [1] })).written,
      (await work.add(run, { key: "k", id: "j", payload: "p" })).added,
      (await places.within(run).reserve("seat", "ann", { for: "1m", capacity: 2 })).state,
    ];
    const fresh = [expect.anything(), true, "done", true, true, true, "held"];
    const undone = transact(async (run) => {
      expect(await all(run)).toEqual(fresh);
      throw new Error("undone");
    });
    await expect(undone).rejects.toThrow("undone");
    await transact(async (run) => expect(await all(run)).toEqual(fresh));
    await transact(async (run) => {
      expect(await values.within(run).read("v")).toMatchObject({ value: { n: "it's $1" } });
      expect(await jobs.within(run).claim("job", "you", { lease: "1m" })).toBeNull();
      const again = await keys.within(run).once("key", { input: 1 }, () => "again");
      expect(again).toMatchObject({ result: "done", replayed: true });
      expect(await events.record(run, "event", "consumer")).toBe(false);
      expect(await messages.write(run, { key: "k", topic: "t", id: "m", payload: [1] }))
        .toMatchObject({ written: false });
      expect(await work.add(run, { key: "k", id: "j", payload: "p" })).toMatchObject({ added: false });
      expect(await places.within(run).reserve("seat", "bob", { for: "1m", quantity: 2 })).toBeNull();
    });
  });
});
