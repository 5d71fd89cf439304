import { createHash } from "node:crypto";
import { Client, Pool } from "pg";
import postgresJs from "postgres";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { postgresAdvisory, withAdvisoryXactLock, type PostgresAdvisoryOptions } from "../../../src/backends/postgres-advisory/open.js";
import { Locks } from "../../../src/backends/postgres-advisory/locks.js";
import { connect } from "../../../src/connect.js";
import type { Backend } from "../../../src/core/backend.js";
import { ArgumentTypeError, GuaranteeError, LeaseLostError, NotAcquiredError } from "../../../src/core/errors.js";
import type { Tenure } from "../../../src/core/tenure.js";
import { faultProxy } from "../../../src/testing/fault-proxy.js";
import { describeOn } from "../../servers/find.js";
import { pgbouncerProgram, startPgBouncer } from "../../servers/pgbouncer.js";
import { postgresProgram, startPostgres, type PostgresServer } from "../../servers/postgres.js";
import { call, until } from "../postgres/rig.js";

/** The key of a name, computed as the documentation says. */
const keyOf = (name: string): bigint =>
  createHash("sha256").update(name, "utf8").digest().readBigInt64BE(0);

describeOn(postgresProgram, "session locks", () => {
  let server: PostgresServer;
  beforeAll(async () => void (server = await startPostgres()));
  afterAll(() => server.dispose());

  async function tenureOn(target: any, options: PostgresAdvisoryOptions = {}): Promise<Tenure> {
    const tenure = await connect(await postgresAdvisory(target, options));
    onTestFinished(() => tenure.close().catch(() => undefined));
    return tenure;
  }

  async function clientOn(): Promise<Client> {
    const client = new Client({ connectionString: server.url });
    await client.connect();
    onTestFinished(() => client.end());
    return client;
  }

  const locksOf = async (name: string): Promise<number> => {
    const key = keyOf(name);
    const [row] = await server.query<{ n: number }>(
      `SELECT count(*)::int AS n FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1
       AND classid = $1::bigint::oid AND objid = $2::bigint::oid`,
      [String(BigInt.asUintN(32, key >> 32n)), String(BigInt.asUintN(32, key))],
    );
    return row!.n;
  };

  it("are taken where a sweep had the lock for a moment, and refused where it is held on", async () => {
    const answers: object[][] = [[], [], [{ granted: true, token: "7", ttl_ms: "1000" }]];
    const acquire = async (rows: object[][]): Promise<unknown> => {
      const sessions = { find: () => ({}), query: async () => ({ rows: rows.shift() ?? [] }) };
      const locks = new Locks({ sessions, statements: {} } as never);
      return locks.acquire({ name: "n", holder: "h", ttlMs: 1_000, session: "1" });
    };
    expect(await acquire(answers)).toMatchObject({ grant: { token: 7n } });
    expect(await acquire([])).toEqual({ held: { why: "held" } });
  });

  it("lock the number that is published for a name", async () => {
    expect(keyOf("report:daily")).toBe(35641150926926140n);
    expect(keyOf("é")).toBe(5375421630974772051n);
    const tenure = await tenureOn(server.url);
    for (const name of ["report:daily", "é", "a'b", "\u{1f600}"]) {
      const lease = (await tenure.tryAcquire(name))!;
      expect(await locksOf(name), name).toBe(1);
      const stranger = await clientOn();
      const { rows } = await stranger.query("SELECT pg_try_advisory_lock($1::bigint) AS got", [
        String(keyOf(name)),
      ]);
      expect(rows).toEqual([{ got: false }]);
      await lease.release();
      expect(await locksOf(name), name).toBe(0);
    }
  });

  it("do not stack: a repeat is the same grant, and one release frees it", async () => {
    const backend: Backend = await postgresAdvisory(server.url);
    onTestFinished(() => backend.close());
    await backend.open!(call());
    const { id } = await backend.sessions!.open(10_000, call());
    const wish = { name: "stacked", holder: "h1", ttlMs: 10_000, session: id };
    const answers = [await backend.acquire(wish, call()), await backend.acquire(wish, call())];
    expect(answers[1]).toEqual(answers[0]);
    const other = await backend.acquire({ ...wish, holder: "h2" }, call());
    expect(other).toMatchObject({ held: { holder: "h1" } });
    expect(await backend.release([{ name: "stacked", holder: "h1" }], call())).toEqual(["released"]);
    expect(await locksOf("stacked")).toBe(0);
  });

  it("are told lost when the server ends the session (cases 5, 15; scenario 29)", async () => {
    const tenure = await tenureOn(server.url);
    const other = await tenureOn(server.url);
    const lease = await tenure.acquire("ended", { ttl: "900ms" });
    await server.query(
      `SELECT pg_terminate_backend(pid, 5000) FROM tenure.advisory_lease WHERE name = 'ended'`,
    );
    const next = await other.acquire("ended", { wait: "5s" });
    expect(next.token).toBeGreaterThan(lease.token);
    await until("the holder is told", async () => lease.signal.aborted);
    expect(lease.signal.reason).toBeInstanceOf(LeaseLostError);
    expect(lease.state).toBe("lost");
    // It goes on, in a session of its own again.
    await next.release();
    await (await tenure.acquire("ended", { ttl: "900ms", wait: "5s" })).release();
  });

  it("are freed by the server when their holder falls silent (scenario 10)", async () => {
    const proxy = await faultProxy({ port: server.port });
    onTestFinished(() => proxy.close());
    const url = server.url.replace(`:${server.port}`, `:${proxy.port}`);
    const tenure = await tenureOn(url);
    const other = await tenureOn(server.url);
    const lease = await tenure.acquire("silent", { ttl: "1s" });
    // Its packets vanish, and no connection is closed.
    proxy.silence();
    const next = await other.acquire("silent", { wait: "10s" });
    expect(next.token).toBeGreaterThan(lease.token);
    expect(lease.remaining()).toBe(0);
    expect(lease.state).toBe("lost");
    await proxy.heal();
  });

  it("are kept by renewals for longer than the session may be idle", async () => {
    const tenure = await tenureOn(server.url);
    const other = await tenureOn(server.url);
    const lease = await tenure.acquire("kept", { ttl: "500ms" });
    await expect(other.acquire("kept", { wait: "1500ms" })).rejects.toThrow(NotAcquiredError);
    expect(lease.state).toBe("held");
  });

  it("are lost when their row is deleted, and the next grant has a token of its own", async () => {
    const tenure = await tenureOn(server.url);
    const lease = await tenure.acquire("row", { ttl: "30s", renew: false });
    await server.query("DELETE FROM tenure.advisory_lease WHERE name = 'row'");
    await expect(lease.renew()).rejects.toThrow(LeaseLostError);
    const next = await tenure.acquire("row", { ttl: "30s", wait: "5s" });
    expect(next.token).toBeGreaterThan(lease.token);
  });

  it("refuse a pool, and take single clients of both libraries", async () => {
    const pool = new Pool({ connectionString: server.url });
    await expect(postgresAdvisory(pool)).rejects.toThrow(ArgumentTypeError);
    await pool.end();
    const many = postgresJs(server.url, { max: 5 });
    await expect(postgresAdvisory(many)).rejects.toThrow(/client must be a single conn/);
    await many.end();
    const one = postgresJs(server.url, { max: 1 });
    onTestFinished(() => one.end());
    for (const client of [new Client({ connectionString: server.url }), one]) {
      const tenure = await tenureOn(client);
      const lease = await tenure.acquire("single");
      await lease.renew();
      expect(await lease.release()).toBe("released");
    }
  });

  it("are opened by URL", async () => {
    const tenure = await connect(server.url.replace("postgres:", "postgres+advisory:"));
    expect(tenure.manifest.backend).toBe("postgres-advisory");
    await (await tenure.acquire("url")).release();
    await tenure.close();
    const rows = await connect(server.url);
    expect(rows.manifest.backend).toBe("postgres");
    expect(rows.storeId).not.toBe(tenure.storeId);
    await rows.close();
  });

  it("of a broken lease end with their session, which was that of others too", async () => {
    const tenure = await tenureOn(server.url);
    const other = await tenureOn(server.url);
    const lease = await tenure.acquire("broken", { ttl: "30s", renew: false });
    const beside = await tenure.acquire("beside", { ttl: "30s", renew: false });
    expect(await other.break("broken", { token: lease.token - 1n, reason: "test" })).toBe(false);
    expect(await other.break("broken", { token: lease.token, reason: "test" })).toBe(true);
    expect((await other.tryAcquire("broken"))!.token).toBeGreaterThan(lease.token);
    await expect(beside.renew()).rejects.toThrow(LeaseLostError);
  });

  describe("in a caller's transaction", () => {
    it("exclude one another until the transaction ends, and session locks of the name", async () => {
      const [a, b] = [await clientOn(), await clientOn()];
      const tenure = await tenureOn(server.url);
      await a.query("BEGIN");
      expect(await withAdvisoryXactLock(a, "tx", async () => 42)).toBe(42);
      expect(await tenure.tryAcquire("tx")).toBeNull();
      await b.query("BEGIN");
      await b.query("SET LOCAL lock_timeout = '50ms'");
      await expect(withAdvisoryXactLock(b, "tx", async () => 0)).rejects.toThrow(NotAcquiredError);
      await b.query("ROLLBACK");
      await a.query("COMMIT");
      expect(await locksOf("tx")).toBe(0);
      await (await tenure.acquire("tx")).release();
    });

    it("work with a transaction of postgres, and refuse to run outside of one", async () => {
      const sql = postgresJs(server.url, { max: 2 });
      onTestFinished(() => sql.end());
      const done = await sql.begin((tx) => withAdvisoryXactLock(tx, "tx", async () => "x"));
      expect(done).toBe("x");
      let ran = false;
      const work = async (): Promise<void> => void (ran = true);
      const outside = await clientOn();
      await expect(withAdvisoryXactLock(outside, "tx", work)).rejects.toThrow(GuaranteeError);
      await expect(withAdvisoryXactLock(sql, "tx", work)).rejects.toThrow(GuaranteeError);
      expect(ran).toBe(false);
      await expect(withAdvisoryXactLock({} as never, "tx", work)).rejects.toThrow(/^transaction must/);
      await expect(withAdvisoryXactLock(outside, "", work)).rejects.toThrow(/^name must/);
    });
  });
});

describeOn(pgbouncerProgram, "session locks behind a pooler", () => {
  it("are refused at the start, whichever library; the lock of a transaction works (case 38)", async () => {
    const server = await startPostgres();
    const pooler = await startPgBouncer(server);
    try {
      for (const library of ["pg", "postgres"] as const) {
        const backend = await postgresAdvisory(pooler.url, { library });
        const refusal = await connect(backend).catch((error: unknown) => error);
        expect(refusal).toBeInstanceOf(GuaranteeError);
        expect(String(refusal)).toMatch(/a pooler stands between/);
        await expect(connect(backend)).rejects.toThrow(/is closed/);
      }
      const client = new Client({ connectionString: pooler.url });
      await client.connect();
      await client.query("BEGIN");
      expect(await withAdvisoryXactLock(client, "x", async () => 1)).toBe(1);
      await client.query("COMMIT");
      await client.end();
    } finally {
      await pooler.dispose();
      await server.dispose();
    }
  });
});
