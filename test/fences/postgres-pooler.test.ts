import { Client, Pool } from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { OutcomeUnknownError, StaleTokenError } from "../../src/core/errors.js";
import { postgresFence, type SqlTx } from "../../src/fences/postgres/open.js";
import { describeOn } from "../servers/find.js";
import { pgbouncerProgram, startPgBouncer, type PgBouncer } from "../servers/pgbouncer.js";
import { startPostgres, type PostgresServer } from "../servers/postgres.js";
import { bearer } from "./bearers.js";

describeOn(pgbouncerProgram, "the Postgres fence through a pooler", () => {
  let server: PostgresServer;
  let pooler: PgBouncer;
  /** Two programs whose transactions share one session of the server. */
  let pool: Pool;
  let other: Client;

  beforeAll(async () => {
    server = await startPostgres();
    pooler = await startPgBouncer(server, { default_pool_size: 1 });
  });
  afterAll(async () => {
    await pooler.dispose();
    await server.dispose();
  });
  beforeEach(async () => {
    await server.query("DROP SCHEMA IF EXISTS tenure CASCADE");
    await server.query("DROP TABLE IF EXISTS account");
    await server.query("CREATE TABLE account (owner text PRIMARY KEY, balance integer)");
    await server.query("INSERT INTO account VALUES ('a', 5)");
    pool = new Pool({ connectionString: pooler.url, max: 2 });
    pool.on("error", () => undefined);
    // A pool of `pg` ends a connection whose statement failed, and the pooler then the session.
    other = new Client({ connectionString: pooler.url });
    await other.connect();
    await postgresFence(pool).install({ table: "account", resource: "owner" });
  });
  afterEach(async () => {
    await pool.end();
    await other.end();
  });

  const add = "UPDATE account SET balance = balance + 1";
  const balance = async (): Promise<unknown> =>
    (await server.query<{ balance: number }>("SELECT balance FROM account"))[0]?.balance;
  const session = "SELECT pg_backend_pid() AS pid";

  /** What the next client of the session finds: no proof, and none of the fence's settings. */
  async function nothingIsLeft(pid: unknown): Promise<void> {
    await expect(other.query(add)).rejects.toMatchObject({ code: "TN010" });
    await expect(other.query("TRUNCATE account")).rejects.toMatchObject({ code: "TN010" });
    const { rows } = await other.query<{ pid: number }>(`${session},
      current_setting('statement_timeout') AS statement, current_setting('lock_timeout') AS lock,
      current_setting('idle_in_transaction_session_timeout') AS idle,
      current_setting('transaction_isolation') AS isolation,
      current_setting('transaction_read_only') AS readonly`);
    const isolation = "read committed";
    expect(rows).toEqual([
      { pid, statement: "0", lock: "0", idle: "0", isolation, readonly: "off" },
    ]);
  }

  it("leaves no proof to the next client of a session, however a write ended", async () => {
    const handle = await postgresFence(pool).arm(bearer(5), "a");
    let pid: unknown;
    await handle.write(async (tx) => {
      [{ pid }] = (await tx.query<{ pid: number }>(session)) as [{ pid: number }];
      await tx.query(add);
    });
    await nothingIsLeft(pid);
    const failing = handle.write(async (tx) => {
      await tx.query(add);
      throw new Error("of the work");
    });
    await expect(failing).rejects.toThrow("of the work");
    await nothingIsLeft(pid);
    await handle.read((tx) => tx.query("SELECT 1"));
    await nothingIsLeft(pid);
    expect(await balance()).toBe(6);
  });

  it("leaves no setting to it either, where the work ended the transaction", async () => {
    const handle = await postgresFence(pool).arm(bearer(5), "a");
    const { rows: [row] } = await other.query<{ pid: number }>(session);
    for (const text of ["COMMIT", "COMMIT; BEGIN", "ROLLBACK"]) {
      const end = ({ native }: SqlTx) => (native as Client).query(text);
      await expect(handle.read(end)).rejects.toThrow(OutcomeUnknownError);
      await nothingIsLeft(row?.pid);
      await expect(handle.write(end)).rejects.toThrow(OutcomeUnknownError);
      await nothingIsLeft(row?.pid);
    }
  });

  it("nor from a caller's own transaction, a savepoint, or a bypass", async () => {
    const fence = postgresFence(pool);
    const handle = await fence.arm(bearer(5), "a");
    const client = await pool.connect();
    const { rows: [row] } = await client.query<{ pid: number }>(session);
    for (const end of ["COMMIT", "ROLLBACK"]) {
      await client.query("BEGIN");
      await fence.within(client, handle);
      await client.query(add);
      await client.query(end);
      await nothingIsLeft(row?.pid);
    }
    await client.query("BEGIN");
    await client.query("SAVEPOINT before");
    await fence.within(client, handle);
    await client.query("ROLLBACK TO before");
    await expect(client.query(add)).rejects.toMatchObject({ code: "TN010" });
    await client.query("ROLLBACK");
    await nothingIsLeft(row?.pid);
    client.release();
    await fence.bypass("a load", (tx) => tx.query(add));
    await nothingIsLeft(row?.pid);
    expect(await balance()).toBe(7);
  });

  it("refuses the older holder", async () => {
    const old = await postgresFence(pool).arm(bearer(5), "a");
    const next = await postgresFence(pool).arm(bearer(6), "a");
    await next.write((tx) => tx.query(add));
    await expect(old.write((tx) => tx.query(add))).rejects.toThrow(StaleTokenError);
    await expect(old.read((tx) => tx.query("SELECT 1"))).rejects.toThrow(StaleTokenError);
    expect(await balance()).toBe(6);
  });

  it("a session that the server ends inside a write did nothing; the pooler brings another", async () => {
    const handle = await postgresFence(pool).arm(bearer(5), "a");
    const writing = handle.write(async (tx) => {
      await tx.query(add);
      await server.terminate("state = 'idle in transaction'");
      await tx.query(add);
    });
    await expect(writing).rejects.toThrow();
    await handle.write((tx) => tx.query(add));
    expect(await balance()).toBe(6);
  });
});
