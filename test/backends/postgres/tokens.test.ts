import { afterAll, beforeAll, expect, it } from "vitest";
import type { Grant } from "../../../src/core/backend.js";
import { schemaSql } from "../../../src/backends/postgres/open.js";
import { describeOn } from "../../servers/find.js";
import { postgresProgram, startPostgres, type PostgresServer } from "../../servers/postgres.js";
import { blocked, call, freshSchema, openOn, poolOn, request, take, until } from "./rig.js";

describeOn(postgresProgram, "tokens of lease rows", () => {
  let server: PostgresServer;
  beforeAll(async () => void (server = await startPostgres()));
  afterAll(() => server.dispose());

  it("rise in order of grant while 40 contenders take and free one name (case 32)", async () => {
    const schema = freshSchema();
    const backend = await openOn(server.url, { schema });
    // The store itself writes down in which order rows came to be, and that no two overlapped.
    await server.query(`CREATE TABLE ${schema}.log (n bigserial, token bigint)`);
    await server.query(`CREATE FUNCTION ${schema}.note() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN INSERT INTO ${schema}.log (token) VALUES (new.token); RETURN new; END'`);
    await server.query(`CREATE TRIGGER note AFTER INSERT ON ${schema}.lease
      FOR EACH ROW EXECUTE FUNCTION ${schema}.note()`);
    const granted: Grant[] = [];
    await Promise.all(
      Array.from({ length: 40 }, async () => {
        while (granted.length < 100) {
          const answer = await backend.acquire(request("one"), call());
          if (!("grant" in answer)) continue;
          granted.push(answer.grant);
          // Some are never given back, and somebody deletes their row.
          if (granted.length % 3 === 0) await server.query(`DELETE FROM ${schema}.lease`);
          else await backend.release([answer.grant], call());
        }
      }),
    );
    const log = await server.query<{ token: string }>(`SELECT token FROM ${schema}.log ORDER BY n`);
    const tokens = log.map(({ token }) => BigInt(token));
    expect(tokens.length).toBeGreaterThan(99);
    expect(tokens).toEqual(tokens.toSorted((a, b) => (a < b ? -1 : 1)));
    expect(new Set(tokens).size).toBe(tokens.length);
    expect(new Set(granted.map(({ token }) => token)).size).toBe(granted.length);
  });

  it("are not those from before the wait, when a sweep lets a waiting insert through", async () => {
    const schema = freshSchema();
    const backend = await openOn(server.url, { schema });
    const pool = poolOn(server);
    // A: somebody else's sweep has deleted the row and not committed.
    const first = await take(backend, "swept", { ttlMs: 50 });
    await new Promise((resolve) => setTimeout(resolve, 60));
    const sweep = await pool.connect();
    await sweep.query("BEGIN");
    await sweep.query(`DELETE FROM ${schema}.lease WHERE name = 'swept'`);
    // B waits for it. Meanwhile other names of the same counter are granted.
    const waiting = backend.acquire(request("swept"), call());
    await blocked(server, 1);
    const others = await Promise.all(
      Array.from({ length: 20 }, (_, i) => take(backend, `other ${i}`)),
    );
    expect(others).toHaveLength(20);
    await server.query(`UPDATE ${schema}.counter SET token = token + 1000000000`);
    const raised = await server.query<{ least: string }>(
      `SELECT min(token) AS least FROM ${schema}.counter`,
    );
    await sweep.query("COMMIT");
    sweep.release();
    const answer = await waiting;
    if (!("grant" in answer)) throw new Error("refused");
    expect(answer.grant.token).toBeGreaterThan(first.token);
    expect(answer.grant.token).toBeGreaterThan(BigInt(raised[0]!.least));
  });

  it("of two who met an expired lease at once, one is granted and the other refused (case 28)", async () => {
    const schema = freshSchema();
    const backend = await openOn(server.url, { schema });
    const old = await take(backend, "x", { ttlMs: 60 });
    await until("it has expired", async () => (await backend.inspect("x", call())) === null);
    const person = await poolOn(server).connect();
    await person.query(`BEGIN; SELECT 1 FROM "${schema}".counter FOR UPDATE`);
    // Both have seen the expired row: one waits for the counter, the other for the row.
    const both = [1, 2].map(async () => backend.acquire(request("x"), call(20_000)));
    await blocked(server, 2);
    await person.query("ROLLBACK");
    person.release();
    const answers = await Promise.all(both);
    const grants = answers.flatMap((answer) => ("grant" in answer ? [answer.grant] : []));
    expect(grants).toHaveLength(1);
    expect(grants[0]!.token).toBeGreaterThan(old.token);
    expect((await backend.inspect("x", call()))?.token).toBe(grants[0]!.token);
    expect(await backend.renew(grants, call())).toEqual(["renewed"]);
  });

  it("of another name are not held up by a transaction that checks an expired lease", async () => {
    const schema = freshSchema();
    const backend = await openOn(server.url, { schema });
    const old = await take(backend, "checked", { ttlMs: 50 });
    const { sql, values } = backend.proof(old);
    const checking = await poolOn(server).connect();
    await checking.query("BEGIN");
    expect((await checking.query(sql, [...values])).rows).toHaveLength(1);
    await new Promise((resolve) => setTimeout(resolve, 60));
    // All names share one counter now: still nobody else waits.
    const body = schemaSql({ schema }).replaceAll("WHERE c.slot =", "WHERE c.slot = 0 * ");
    await server.query(body);
    const successor = backend.acquire(request("checked"), call(2_000));
    await blocked(server, 1);
    const others = await Promise.all(["a", "b", "c"].map((name) => take(backend, name)));
    expect(others).toHaveLength(3);
    // A wait that is too long is contention, and not an error.
    expect(await successor).toEqual({ held: { why: "held" } });
    await checking.query("COMMIT");
    checking.release();
    expect((await take(backend, "checked")).token).toBeGreaterThan(old.token);
  });

  it("rise when tables are made anew, and are refused loudly when counters are gone", async () => {
    const schema = freshSchema();
    const backend = await openOn(server.url, { schema });
    const first = await take(backend, "again");
    await server.query(`DROP SCHEMA ${schema} CASCADE`);
    await server.query(schemaSql({ schema }));
    expect((await take(backend, "again")).token).toBeGreaterThan(first.token);
    await server.query(`DELETE FROM ${schema}.counter`);
    await expect(take(backend, "lost")).rejects.toThrow(/migrate.*a token counter was deleted/);
    await server.query(schemaSql({ schema }));
    expect((await take(backend, "lost")).token).toBeGreaterThan(first.token);
  });

  it("need no storage per name: rows that nobody gave back are swept (case 33)", async () => {
    const schema = freshSchema();
    const backend = await openOn(server.url, { schema });
    const count = async (table: string): Promise<number> => {
      const rows = await server.query<{ n: number }>(
        `SELECT count(*)::int AS n FROM ${schema}.${table}`,
      );
      return rows[0]!.n;
    };
    for (let i = 0; i < 1_500; i++) await take(backend, `left ${i}`, { ttlMs: 50 });
    for (let i = 0; i < 1_000; i++) {
      await backend.release([await take(backend, `freed ${i}`)], call());
    }
    expect(await count("lease")).toBeLessThan(600);
    expect(await count("counter")).toBe(1024);
  });
});
