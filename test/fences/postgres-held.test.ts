import { Pool } from "pg";
import {
  afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished,
} from "vitest";
import { connect } from "../../src/connect.js";
import { ArgumentTypeError, LeaseLostError } from "../../src/core/errors.js";
import type { Grant } from "../../src/core/backend.js";
import type { FencingToken } from "../../src/core/token.js";
import { postgres as postgresBackend } from "../../src/backends/postgres/open.js";
import { fenceSchemaSql, postgresFence } from "../../src/fences/postgres/open.js";
import { describeOn } from "../servers/find.js";
import { postgresProgram, startPostgres, type PostgresServer } from "../servers/postgres.js";
import { bearer } from "./bearers.js";

describeOn(postgresProgram, "held check and set-up of the Postgres fence", () => {
  let server: PostgresServer;
  let pool: Pool;

  beforeAll(async () => void (server = await startPostgres()));
  afterAll(() => server.dispose());
  beforeEach(async () => {
    await server.query("DROP SCHEMA IF EXISTS tenure CASCADE");
    await server.query("DROP TABLE IF EXISTS account");
    await server.query("CREATE TABLE account (owner text PRIMARY KEY, balance integer)");
    await server.query("INSERT INTO account VALUES ('a', 5)");
    pool = new Pool({ connectionString: server.url, max: 5 });
    pool.on("error", () => undefined);
    await postgresFence(pool).install({ table: "account", resource: "owner" });
  });
  afterEach(() => pool.end());

  const add = "UPDATE account SET balance = balance + 1";
  const balance = async (): Promise<unknown> =>
    (await server.query<{ balance: number }>("SELECT balance FROM account"))[0]?.balance;
  /** Resolves once somebody waits for a lock in the server. */
  async function somebodyWaits(): Promise<void> {
    const text = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    while ((await server.query(text)).length === 0);
  }

  describe("held check", () => {
    it("writes while the lease's row stands, and keeps it so, but holds up no renewal", async () => {
      const backend = await postgresBackend(pool);
      const call = { signal: new AbortController().signal, timeoutMs: 10_000 };
      await backend.open?.(call);
      const grants: Grant<FencingToken>[] = [];
      for (let i = 0; i < 1_000; i++) {
        const request = { name: `many-${i}`, holder: `h${i}`, ttlMs: 60_000 };
        const answer = await backend.acquire(request, call);
        if ("grant" in answer) grants.push(answer.grant);
      }
      const grant = grants[7]!;
      const lease = { ...bearer(1), ...grant, storeId: backend.storeId };
      const fence = postgresFence(pool);
      await fence.uninstall({ table: "account" });
      let broken: Promise<boolean> | undefined;
      await fence.held(lease, async (tx) => {
        const renewed = await backend.renew(grants, call);
        expect(renewed).toEqual(Array.from({ length: 1_000 }, () => "renewed"));
        broken = backend.break(lease.name, lease.token, call);
        await somebodyWaits();
        await tx.query(add);
      });
      expect(await broken).toBe(true);
      expect(await balance()).toBe(6);
      const late = fence.held(lease, (tx) => tx.query(add));
      await expect(late).rejects.toBeInstanceOf(LeaseLostError);
      expect(await balance()).toBe(6);
      await backend.close();
    });

    it("is refused for a lease that ended while it waited for the row", async () => {
      const backend = await postgresBackend(pool);
      const call = { signal: new AbortController().signal, timeoutMs: 10_000 };
      await backend.open?.(call);
      const fence = postgresFence(pool);
      await fence.uninstall({ table: "account" });
      const answer = await backend.acquire({ name: "n", holder: "h", ttlMs: 1_000 }, call);
      if (!("grant" in answer)) throw new Error("not granted");
      const locking = await pool.connect();
      await locking.query("BEGIN; SELECT FROM tenure.lease FOR UPDATE");
      const lease = { ...answer.grant, storeId: backend.storeId };
      const held = fence.held(lease, (tx) => tx.query(add));
      held.catch(() => undefined);
      await somebodyWaits();
      const ended = "SELECT FROM tenure.lease WHERE expires <= clock_timestamp()";
      while ((await server.query(ended)).length === 0);
      await locking.query("ROLLBACK");
      locking.release();
      await expect(held).rejects.toBeInstanceOf(LeaseLostError);
      expect(await balance()).toBe(5);
      await backend.close();
    });

    it("says where it looked, and whose leases are there, when they are another store's", async () => {
      const backend = await postgresBackend(pool, { schema: "locks" });
      await (await connect(await postgresBackend(pool))).close();
      const tenure = await connect(backend);
      onTestFinished(() => tenure.close());
      const lease = await tenure.acquire("here", { ttl: "60s" });
      const lost = postgresFence(pool).held(lease, (tx) => tx.query(add));
      await expect(lost).rejects.toThrow(LeaseLostError);
      const text = /the schema "tenure" keeps the leases of store .*leaseSchema/;
      await expect(lost).rejects.toThrow(text);
      const fence = postgresFence(pool, { leaseSchema: "locks" });
      await fence.uninstall({ table: "account" });
      await fence.held(lease, (tx) => tx.query(add));
      await lease.release();
      // As it travels to another process: the store decides, and no clock.
      const { name, token, holder, storeId } = lease;
      const late = fence.held({ name, token, holder, storeId }, (tx) => tx.query(add));
      await expect(late).rejects.toThrow(LeaseLostError);
      await expect(late).rejects.not.toThrow(/leaseSchema/);
    });

    it("tells a role that may not read whose leases these are of the loss all the same", async () => {
      const tenure = await connect(await postgresBackend(pool));
      onTestFinished(() => tenure.close());
      const lease = await tenure.acquire("here", { ttl: "60s" });
      await server.query(`CREATE ROLE worker; GRANT USAGE ON SCHEMA tenure TO worker`);
      await server.query("GRANT SELECT, UPDATE ON tenure.lease TO worker");
      const workers = new Pool({ connectionString: server.url, options: "-c role=worker" });
      onTestFinished(() => workers.end());
      const fence = postgresFence(workers);
      expect(await fence.held(lease, () => 1)).toBe(1);
      await lease.release();
      const { name, token, holder, storeId } = lease;
      const late = fence.held({ name, token, holder, storeId }, () => 1);
      await expect(late).rejects.toBeInstanceOf(LeaseLostError);
      await expect(late).rejects.toMatchObject({ cause: { code: "42501" } });
    });

    it("says where it looked for the leases when there are none", async () => {
      const fence = postgresFence(pool, { leaseSchema: "elsewhere" });
      const held = fence.held(bearer(5), (tx) => tx.query(add));
      await expect(held).rejects.toThrow(/table of Tenure is missing.*elsewhere/);
      expect(await balance()).toBe(5);
    });
  });

  describe("set-up", () => {
    it("is done by twenty starters at once", async () => {
      await server.query("DROP SCHEMA tenure CASCADE");
      const pools = Array.from({ length: 20 }, () =>
        new Pool({ connectionString: server.url, max: 1 }),
      );
      await Promise.all(
        pools.map((one, i) => postgresFence(one).arm(bearer(5), `resource-${i}`)),
      );
      await Promise.all(pools.map((one) => one.end()));
      const rows = await server.query("SELECT count(*)::integer AS n FROM tenure.fence_mark");
      expect(rows).toEqual([{ n: 20 }]);
    });

    it("makes by SQL what it would make by itself, and again without harm", async () => {
      await server.query("DROP SCHEMA tenure CASCADE");
      const fence = postgresFence(pool, { migrate: false });
      const arm = (): Promise<unknown> => fence.arm(bearer(5), "a");
      await expect(arm()).rejects.toMatchObject({
        message: expect.stringMatching(/fenceSchemaSql\(\)/) as string,
        retryable: false,
      });
      await server.query(fenceSchemaSql());
      await arm();
      await server.query(fenceSchemaSql());
      expect(await fence.mark("a")).toMatchObject({ token: 5n });
    });

    it("tells a newer version, a missing permission and a read-only server apart", async () => {
      await server.query("UPDATE tenure.fence_version SET version = 99");
      const arm = (of: Pool, schema = "tenure"): Promise<unknown> =>
        postgresFence(of, { schema }).arm(bearer(5), "a");
      await expect(arm(pool)).rejects.toThrow(/version 99, this release of Tenure knows 1/);
      await server.query("UPDATE tenure.fence_version SET version = 1");
      await server.query("DROP ROLE IF EXISTS clerk");
      await server.query("CREATE ROLE clerk LOGIN");
      const clerk = new Pool({ connectionString: server.urlFor("clerk") });
      await expect(arm(clerk, "elsewhere")).rejects.toThrow(/no permission to make them/);
      await expect(arm(clerk)).rejects.toMatchObject({ retryable: false });
      await clerk.end();
      const reader = new Pool({
        connectionString: server.url,
        options: "-c default_transaction_read_only=on",
      });
      await expect(arm(reader)).rejects.toThrow(/read-only/);
      await reader.end();
      expect(await postgresFence(pool).mark("a")).toBeNull();
    });

    it.each([
      [{ schema: "" }, "schema"],
      [{ schema: "pg_mine" }, "schema"],
      [{ schema: "a$b" }, "schema"],
      [{ schema: "x".repeat(64) }, "schema"],
      [{ leaseSchema: 7 as never }, "leaseSchema"],
      [{ migrate: 1 as never }, "migrate"],
      [{ transactionMs: 0 }, "transactionMs"],
      [{ onStale: "maybe" as never }, "onStale"],
    ])("refuses wrong options %o before any I/O", (options, option) => {
      expect(() => postgresFence(pool, options)).toThrow(expect.objectContaining({ option }));
    });

    it("refuses what is no client", () => {
      for (const given of [null, {}, "postgres://x", () => 1]) {
        expect(() => postgresFence(given as never)).toThrow(ArgumentTypeError);
      }
    });
  });
});
