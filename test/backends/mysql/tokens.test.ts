import { afterAll, beforeAll, expect, it } from "vitest";
import { SCHEMA_STATEMENTS } from "../../../src/backends/mysql/schema.js";
import type { Grant } from "../../../src/core/backend.js";
import { describeOn } from "../../servers/find.js";
import { mariadbProgram, startMariadb, type MariadbServer } from "../../servers/mariadb.js";
import {
  blocked, call, freshSchema, openOn, poolOn, request, rows, take, transactionOn,
} from "./rig.js";

describeOn(mariadbProgram, "tokens of lease rows", () => {
  let server: MariadbServer;
  beforeAll(async () => void (server = await startMariadb()));
  afterAll(() => server.dispose());

  const remake = (schema: string): Promise<void> =>
    server.script([`USE ${schema}`, ...SCHEMA_STATEMENTS]);
  const total = async (schema: string, table: string): Promise<number> => {
    const [row] = await server.query<{ n: number }>(`SELECT COUNT(*) AS n FROM ${schema}.${table}`);
    return Number(row!.n);
  };

  it("rise in order of grant while 40 contenders take and free one name (case 32)", async () => {
    const schema = freshSchema();
    const backend = await openOn(server.url, { schema });
    // The store itself writes down in which order rows came to be.
    await server.query(
      `CREATE TABLE ${schema}.log (n BIGINT AUTO_INCREMENT PRIMARY KEY, token BIGINT)`,
    );
    await server.query(`CREATE TRIGGER ${schema}.note AFTER INSERT ON ${schema}.tenure_lease
      FOR EACH ROW INSERT INTO ${schema}.log (token) VALUES (NEW.token)`);
    const granted: Grant[] = [];
    await Promise.all(
      Array.from({ length: 40 }, async () => {
        while (granted.length < 100) {
          const answer = await backend.acquire(request("one"), call(20_000));
          if (!("grant" in answer)) continue;
          granted.push(answer.grant);
          // Some are never given back, and somebody deletes their row.
          if (granted.length % 3 === 0) await server.query(`DELETE FROM ${schema}.tenure_lease`);
          else await backend.release([answer.grant], call());
        }
      }),
    );
    const log = await server.query<{ token: string }>(
      `SELECT CAST(token AS CHAR) AS token FROM ${schema}.log ORDER BY n`,
    );
    const tokens = log.map(({ token }) => BigInt(token));
    expect(tokens.length).toBeGreaterThanOrEqual(granted.length);
    expect(tokens).toEqual(tokens.toSorted((a, b) => (a < b ? -1 : 1)));
    expect(new Set(tokens).size).toBe(tokens.length);
    expect(new Set(granted.map(({ token }) => token)).size).toBe(granted.length);
  });

  it("are not those from before the wait, when a sweep lets a waiting attempt through", async () => {
    const schema = freshSchema();
    const backend = await openOn(server.url, { schema });
    // A: somebody else's sweep has deleted the row and not committed.
    const first = await take(backend, "swept", { ttlMs: 50 });
    await new Promise((resolve) => setTimeout(resolve, 60));
    const sweep = await transactionOn(server);
    await sweep.query(`DELETE FROM ${schema}.tenure_lease WHERE name = 'swept'`);
    // B waits for it. Meanwhile other names are granted, and all counters move on.
    const waiting = backend.acquire(request("swept"), call(10_000));
    await blocked(server, 1);
    for (const name of ["a", "b", "c"]) await take(backend, name);
    await server.query(`UPDATE ${schema}.tenure_counter SET token = token + 1000000000`);
    const [raised] = await server.query<{ least: string }>(
      `SELECT CAST(MIN(token) AS CHAR) AS least FROM ${schema}.tenure_counter`,
    );
    await sweep.query("COMMIT");
    const answer = await waiting;
    if (!("grant" in answer)) throw new Error("refused");
    expect(answer.grant.token).toBeGreaterThan(first.token);
    expect(answer.grant.token).toBeGreaterThan(BigInt(raised!.least));
  });

  it("wait for one another in order: the second of two contenders is refused", async () => {
    const schema = freshSchema();
    const backend = await openOn(server.url, { schema });
    const counter = await transactionOn(server);
    await counter.query(`SELECT 1 FROM ${schema}.tenure_counter FOR UPDATE`);
    const both = ["x", "y"].map(async (holder) =>
      backend.acquire(request("free", { holder }), call(20_000)),
    );
    await blocked(server, 2);
    await counter.query("COMMIT");
    const answers = await Promise.all(both);
    const grants = answers.flatMap((answer) => ("grant" in answer ? [answer.grant] : []));
    const held = answers.flatMap((answer) => ("held" in answer ? [answer.held] : []));
    expect(grants).toHaveLength(1);
    expect(held).toMatchObject([{ holder: grants[0]!.holder, token: grants[0]!.token }]);
  });

  it("have a whole TTL after a wait for a lock, and never less than the holder counts", async () => {
    const schema = freshSchema();
    const backend = await openOn(server.url, { schema });
    const counter = await transactionOn(server);
    await counter.query(`SELECT 1 FROM ${schema}.tenure_counter FOR UPDATE`);
    const waiting = backend.acquire(request("waited", { ttlMs: 10_000 }), call(20_000));
    await blocked(server, 1);
    await new Promise((resolve) => setTimeout(resolve, 700));
    await counter.query("COMMIT");
    await waiting;
    expect((await backend.inspect("waited", call()))!.leftMs).toBeGreaterThan(9_500);
  });

  it("of another name are not held up by a transaction that checks an expired lease", async () => {
    const schema = freshSchema();
    const backend = await openOn(server.url, { schema });
    const old = await take(backend, "checked", { ttlMs: 50 });
    const { sql, values } = backend.proof(old);
    const checking = await transactionOn(server);
    expect(await rows(checking, sql, values)).toHaveLength(1);
    await new Promise((resolve) => setTimeout(resolve, 60));
    // Contention, at once, and not an error.
    expect(await backend.acquire(request("checked"), call())).toEqual({ held: { why: "held" } });
    await server.query(`CALL ${schema}.tenure_sweep_1()`);
    expect(await rows(checking, sql, values)).toHaveLength(1);
    for (let i = 0; i < 50; i++) await take(backend, `other ${i}`);
    await checking.query("COMMIT");
    expect((await take(backend, "checked")).token).toBeGreaterThan(old.token);
  });

  it("rise when tables are made anew, and are refused loudly when counters are gone", async () => {
    const schema = freshSchema();
    const backend = await openOn(server.url, { schema });
    const first = await take(backend, "again");
    await server.query(`DROP SCHEMA ${schema}`);
    await server.query(`CREATE SCHEMA ${schema}`);
    await remake(schema);
    expect((await take(backend, "again")).token).toBeGreaterThan(first.token);
    await server.query(`DELETE FROM ${schema}.tenure_counter`);
    await expect(take(backend, "lost")).rejects.toThrow(/migrate.*a token counter was deleted/);
    await remake(schema);
    expect((await take(backend, "lost")).token).toBeGreaterThan(first.token);
  });

  it("stay whole beyond 2^53, whatever the caller's pool makes of numbers (case 31)", async () => {
    const schema = freshSchema();
    const pool = poolOn(server, { decimalNumbers: true, rowsAsArray: true, charset: "latin1" });
    const backend = await openOn(pool, { schema });
    await server.query(`UPDATE ${schema}.tenure_counter SET token = 9007199254740990`);
    const tokens: bigint[] = [];
    for (let i = 0; i < 4; i++) {
      const grant = await take(backend, "é", { holderInfo: { host: "ü" } });
      expect(await backend.inspect("é", call())).toMatchObject({
        token: grant.token,
        holderInfo: { host: "ü" },
      });
      expect(await backend.renew([grant], call())).toEqual(["renewed"]);
      expect(await backend.release([grant], call())).toEqual(["released"]);
      tokens.push(BigInt(JSON.parse(JSON.stringify(String(grant.token))) as string));
    }
    expect(tokens).toEqual(tokens.toSorted((a, b) => (a < b ? -1 : 1)));
    expect(new Set(tokens).size).toBe(4);
  });

  it("need no storage per name: rows that nobody gave back are swept (case 33)", async () => {
    const schema = freshSchema();
    const backend = await openOn(server.url, { schema });
    const some = async (prefix: string, ttlMs: number): Promise<void> => {
      // Ten connections serve them, and none gives up.
      const asked = Array.from({ length: 600 }, (_, i) => request(`${prefix} ${i}`, { ttlMs }));
      await Promise.all(asked.map(async (one) => backend.acquire(one, call(60_000))));
    };
    await some("left", 50);
    await some("more", 50);
    await new Promise((resolve) => setTimeout(resolve, 60));
    await some("last", 60_000);
    // The last sweep may be under way.
    await backend.close();
    expect(await total(schema, "tenure_lease")).toBeLessThan(1_400);
    await server.query(`CALL ${schema}.tenure_sweep_1()`);
    await server.query(`CALL ${schema}.tenure_sweep_1()`);
    await server.query(`CALL ${schema}.tenure_sweep_1()`);
    expect(await total(schema, "tenure_lease")).toBe(600);
    expect(await total(schema, "tenure_counter")).toBe(1024);
  });
});
