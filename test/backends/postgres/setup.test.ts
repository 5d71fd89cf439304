import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import postgresJs from "postgres";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import {
  postgresAdvisory,
  schemaSql as advisorySql,
} from "../../../src/backends/postgres-advisory/open.js";
import { postgres, schemaSql } from "../../../src/backends/postgres/open.js";
import { connect } from "../../../src/connect.js";
import { UnavailableError } from "../../../src/core/errors.js";
import { describeOn } from "../../servers/find.js";
import { postgresProgram, startPostgres, type PostgresServer } from "../../servers/postgres.js";
import { call, freshSchema, openOn, poolOn, take, until } from "./rig.js";

const run = promisify(execFile);

describeOn(postgresProgram, "setting up", () => {
  let server: PostgresServer;
  beforeAll(async () => void (server = await startPostgres({ max_connections: 120 })));
  afterAll(() => server.dispose());

  it("works for twenty processes at once, with and without what was printed (case 39)", async () => {
    const schema = freshSchema();
    const folder = mkdtempSync(join(tmpdir(), "tenure-setup-"));
    try {
      const [rows, locks] = ["rows.sql", "locks.sql"].map((name) => join(folder, name));
      writeFileSync(rows!, schemaSql({ schema }));
      writeFileSync(locks!, advisorySql({ schema }));
      const psql = (file: string): Promise<unknown> =>
        run("psql", ["-d", server.url, "-qX", "-v", "ON_ERROR_STOP=1", "-f", file]);
      const backends = await Promise.all([
        ...Array.from({ length: 20 }, () => openOn(server.url, { schema })),
        ...Array.from({ length: 20 }, (_, i) => psql(i % 2 === 0 ? rows! : locks!)),
      ]);
      const opened = backends.slice(0, 20) as Awaited<ReturnType<typeof openOn>>[];
      expect(new Set(opened.map(({ storeId }) => storeId)).size).toBe(1);
      const grant = await take(opened[0]!, "x");
      expect((await opened[19]!.inspect("x", call()))?.token).toBe(grant.token);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("takes a schema of any name as it is", async () => {
    const schema = `we"ird'; DROP TABLE x; -- \\ é`;
    const backend = await openOn(server.url, { schema });
    const grant = await take(backend, "x");
    expect(await backend.renew([grant], call())).toEqual(["renewed"]);
    const again = await openOn(server.url, { schema, migrate: false });
    expect(again.storeId).toBe(backend.storeId);
    const { sql, values } = backend.proof(grant);
    expect(await server.query(sql, [...values])).toHaveLength(1);
  });

  it("keeps leases, tokens and id when it runs again", async () => {
    const schema = freshSchema();
    const backend = await openOn(server.url, { schema });
    const grant = await take(backend, "kept");
    await server.query(schemaSql({ schema }));
    expect(await backend.renew([grant], call())).toEqual(["renewed"]);
    expect((await openOn(server.url, { schema })).storeId).toBe(backend.storeId);
  });

  it("keeps two schemas apart", async () => {
    const [a, b] = [
      await openOn(server.url, { schema: freshSchema() }),
      await openOn(server.url, { schema: freshSchema() }),
    ];
    expect(a.storeId).not.toBe(b.storeId);
    await take(a, "same");
    await take(b, "same");
  });

  it("leaves no session behind when it fails, and the caller's pool as it was", async () => {
    await server.query("CREATE ROLE nobody LOGIN PASSWORD 'secret'");
    const pool = poolOn(server, { connectionString: server.urlFor("nobody"), max: 1 });
    const sql = postgresJs(server.urlFor("nobody"), { max: 1 });
    onTestFinished(() => sql.end());
    const sessions = async (): Promise<number> => {
      const count = "SELECT count(*)::int AS n FROM pg_stat_activity WHERE usename = 'nobody'";
      return (await server.query<{ n: number }>(count))[0]!.n;
    };
    const schema = freshSchema();
    for (const migrate of [true, false]) {
      const options = { schema, migrate };
      for (let tries = 0; tries < 3; tries++) {
        for (const backend of [
          await postgres(pool, options),
          await postgres(sql, options),
          await postgresAdvisory(sql, options),
          await postgresAdvisory(server.urlFor("nobody"), options),
        ]) {
          await expect(connect(backend)).rejects.toBeInstanceOf(UnavailableError);
        }
      }
    }
    await until("no session is left", async () => (await sessions()) === 0);
    expect((await pool.query("SELECT 1 AS one")).rows).toEqual([{ one: 1 }]);
    expect([...(await sql`SELECT 1 AS one`)]).toEqual([{ one: 1 }]);
  });

  it("can be tried again with the same backend", async () => {
    const schema = freshSchema();
    const backend = await postgres(poolOn(server), { schema, migrate: false });
    await expect(connect(backend)).rejects.toBeInstanceOf(UnavailableError);
    await server.query(schemaSql({ schema }));
    const tenure = await connect(backend);
    await (await tenure.acquire("a")).release();
    await tenure.close();
  });
});
