import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { postgres, schemaSql } from "../../../src/backends/postgres/open.js";
import { msUntil } from "../../../src/backends/postgres/schema.js";
import type { TenureEvent } from "../../../src/core/events.js";
import { platform } from "../../../src/platform/index.js";
import { describeOn } from "../../servers/find.js";
import { postgresProgram, startPostgres, type PostgresServer } from "../../servers/postgres.js";
import { call, freshSchema, openOn, take } from "./rig.js";

/** The renewal as the first release had it: it tells nobody that a lease was shortened. */
const firstRenewal = (s: string): string => `CREATE OR REPLACE FUNCTION ${s}.renew(p_leases text)
RETURNS TABLE (
  i bigint, renewed boolean, mine boolean, live boolean,
  holder text, token text, ttl_ms text, left_ms text, info text
) LANGUAGE sql AS $tenure$
  WITH asked AS MATERIALIZED (
    SELECT a.n, a.h, a.t, a.d, a.i
    FROM ROWS FROM (json_to_recordset(p_leases::json) AS (n text, h text, t bigint, d bigint))
      WITH ORDINALITY AS a (n, h, t, d, i)
  ), locked AS MATERIALIZED (
    SELECT l.name, a.i, a.d
    FROM ${s}.lease AS l JOIN asked AS a ON l.name = a.n AND l.holder = a.h AND l.token = a.t
    WHERE l.expires > clock_timestamp()
    ORDER BY l.name
    FOR NO KEY UPDATE OF l SKIP LOCKED
  ), done AS (
    UPDATE ${s}.lease AS l
    SET expires = clock_timestamp() + k.d * interval '1 millisecond', ttl_ms = k.d
    FROM locked AS k WHERE l.name = k.name
    RETURNING k.i
  )
  SELECT a.i, done.i IS NOT NULL, l.holder = a.h AND l.token = a.t, l.expires > clock_timestamp(),
    l.holder, l.token::text, l.ttl_ms::text,
    ${msUntil("l.expires")}, l.info
  FROM asked AS a
  LEFT JOIN done ON done.i = a.i
  LEFT JOIN ${s}.lease AS l ON l.name = a.n
$tenure$;`;

describeOn(postgresProgram, "functions of an older release", () => {
  let server: PostgresServer;
  beforeAll(async () => void (server = await startPostgres({ max_connections: 120 })));
  afterAll(() => server.dispose());

  /** A schema as the first release left it. */
  async function oldSchema(): Promise<string> {
    const schema = freshSchema();
    await server.query(schemaSql({ schema }));
    await server.query(`COMMENT ON FUNCTION ${schema}.renew(text) IS NULL`);
    await server.query(firstRenewal(schema));
    return schema;
  }

  const renewal = async (schema: string): Promise<string> => {
    const text = "SELECT prosrc FROM pg_proc WHERE oid = to_regprocedure($1)";
    const [row] = await server.query<{ prosrc: string }>(text, [`${schema}.renew(text)`]);
    return row!.prosrc;
  };
  const TOLD = /pg_notify/;

  it("are replaced by twenty starters at once, under those that use them", async () => {
    const schema = await oldSchema();
    const older = await openOn(server.url, { schema, migrate: false });
    const grant = await take(older, "x");
    expect(await renewal(schema)).not.toMatch(TOLD);
    const opened = await Promise.all(
      Array.from({ length: 20 }, () => openOn(server.url, { schema })),
    );
    expect(await renewal(schema)).toMatch(TOLD);
    expect(await older.renew([grant], call())).toEqual(["renewed"]);
    expect(await opened[0]!.renew([grant], call())).toEqual(["renewed"]);
    expect((await take(opened[1]!, "y")).token).toBeGreaterThan(0n);
    expect(new Set(opened.map(({ storeId }) => storeId))).toEqual(new Set([older.storeId]));
  });

  it("are used, and that is told, where they must not or cannot be replaced", async () => {
    const schema = await oldSchema();
    const role = `r${randomUUID().replaceAll("-", "")}`;
    await server.query(`CREATE ROLE ${role} LOGIN PASSWORD 'secret'`);
    await server.query(`GRANT USAGE ON SCHEMA ${schema} TO ${role}`);
    await server.query(
      `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema} TO ${role}`,
    );
    for (const [url, migrate] of [
      [server.url, false],
      [server.urlFor(role), true],
    ] as const) {
      const events: TenureEvent[] = [];
      const publish = (event: TenureEvent): void => void events.push(event);
      const runtime = { ...platform(), events: { publish, wants: () => true } };
      const backend = await postgres(url, { schema, migrate, runtime });
      onTestFinished(() => backend.close());
      await backend.open!(call());
      const message: unknown = expect.stringMatching(/functions.*older release.*tenure migrate/);
      expect(events).toMatchObject([{ type: "warning", backend: "postgres", message }]);
      const grant = await take(backend, `x ${migrate}`);
      expect(await backend.renew([grant], call())).toEqual(["renewed"]);
    }
    expect(await renewal(schema)).not.toMatch(TOLD);
  });

  it("that are missing are made, or asked for", async () => {
    const schema = await oldSchema();
    await server.query(`DROP FUNCTION ${schema}.renew(text)`);
    const strict = await postgres(server.url, { schema, migrate: false });
    onTestFinished(() => strict.close());
    await expect(strict.open!(call())).rejects.toThrow(/missing or old; run what/);
    await openOn(server.url, { schema });
    expect(await renewal(schema)).toMatch(TOLD);
  });

  it("do not come back: those of a newer release are left", async () => {
    const schema = freshSchema();
    await openOn(server.url, { schema });
    await server.query(`COMMENT ON FUNCTION ${schema}.renew(text) IS 'Tenure, revision 999'`);
    await server.query(firstRenewal(schema));
    await server.query(schemaSql({ schema }));
    const backend = await openOn(server.url, { schema });
    expect(await renewal(schema)).not.toMatch(TOLD);
    expect(await backend.renew([await take(backend, "x")], call())).toEqual(["renewed"]);
  });
});
