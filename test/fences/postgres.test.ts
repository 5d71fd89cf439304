import { Client, Pool } from "pg";
import postgres from "postgres";
import { afterAll, beforeAll, describe } from "vitest";
import { Marks } from "../../src/fences/postgres/marks.js";
import type { PostgresParts } from "../../src/fences/postgres/client.js";
import { postgresParts } from "../../src/fences/postgres/open.js";
import { Setup } from "../../src/fences/postgres/setup.js";
import { postgresTransactions } from "../../src/fences/postgres/transactions.js";
import { sqlStore } from "../../src/fences/sql-store.js";
import type { SqlTx } from "../../src/fences/sql-work.js";
import { describeOn } from "../servers/find.js";
import { pgbouncerProgram, startPgBouncer } from "../servers/pgbouncer.js";
import { postgresProgram, startPostgres, type PostgresServer } from "../servers/postgres.js";
import type { OpenSubject } from "./benches.js";
import { fenceSuite } from "./suite.js";

interface Opened {
  readonly parts: PostgresParts;
  end(): Promise<void>;
}

describeOn(postgresProgram, "the Postgres fence", () => {
  let server: PostgresServer;
  let count = 0;
  beforeAll(async () => void (server = await startPostgres()));
  afterAll(() => server.dispose());

  /** The rules over one way to connect. */
  function rules(name: string, connect: (server: PostgresServer) => Promise<Opened>): void {
    let opened: Opened;
    beforeAll(async () => void (opened = await connect(server)));
    afterAll(() => opened.end());
    fenceSuite<SqlTx, SqlTx>({ name, work: "async", open: () => openSubject(opened.parts) });
  }

  async function openSubject(parts: PostgresParts): Promise<OpenSubject<SqlTx, SqlTx>> {
    const schema = `fence${count++}`;
    const table = `${schema}.account`;
    const transactions = postgresTransactions(parts, 5_000);
    const setup = new Setup(transactions, parts.faults, { schema, migrate: true });
    await setup.ready();
    await server.query(`CREATE TABLE ${table} (id text PRIMARY KEY, value integer)`);
    const upsert = (change: string): string =>
      `INSERT INTO ${table} AS a VALUES ($1, $2)
        ON CONFLICT (id) DO UPDATE SET value = ${change} RETURNING value`;
    return {
      store: sqlStore({
        kind: "postgres", transactions, setup, marks: new Marks(schema), unsettled: new Set(),
      }),
      get: async (tx, id) => {
        const text = `SELECT value FROM ${table} WHERE id = $1`;
        return (await tx.query<{ value: number }>(text, [id]))[0]?.value;
      },
      put: (tx, id, value) => void tx.query(upsert("excluded.value"), [id, value]),
      add: async (tx, id, amount) => {
        const text = upsert("a.value + excluded.value");
        return (await tx.query<{ value: number }>(text, [id, amount]))[0]!.value;
      },
      loseMark: async (resource) => {
        await server.query(`DROP TRIGGER fence_mark_row ON ${schema}.fence_mark`);
        await server.query(`DELETE FROM ${schema}.fence_mark WHERE resource = $1`, [resource]);
      },
      close: async () => undefined,
    };
  }

  const overPool = (url: string): Opened => {
    const pool = new Pool({ connectionString: url });
    return { parts: postgresParts(pool), end: () => pool.end() };
  };

  describe("over a pool of pg", () =>
    rules("postgres fence, a pool of pg", async ({ url }) => overPool(url)));

  describe("over a client of pg", () =>
    rules("postgres fence, a client of pg", async ({ url }) => {
      const client = new Client({ connectionString: url });
      await client.connect();
      return { parts: postgresParts(client), end: () => client.end() };
    }));

  describe("over postgres", () =>
    rules("postgres fence, postgres", async ({ url }) => {
      const sql = postgres(url, { onnotice: () => undefined });
      return { parts: postgresParts(sql), end: () => sql.end() };
    }));

  describeOn(pgbouncerProgram, "through a pooler", () =>
    rules("postgres fence, a pool of pg through a pooler", async (behind) => {
      const pooler = await startPgBouncer(behind);
      const { parts, end } = overPool(pooler.url);
      return { parts, end: () => end().then(() => pooler.dispose()) };
    }));
});
