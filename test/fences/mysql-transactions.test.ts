import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";
import { createPool, type Pool } from "mysql2/promise";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { mysql } from "../../src/backends/mysql/open.js";
import type { Grant } from "../../src/core/backend.js";
import {
  ArgumentTypeError,
  LeaseLostError,
  OutcomeUnknownError,
  StaleTokenError,
  SupersededError,
  UnavailableError,
} from "../../src/core/errors.js";
import type { FencingToken, TokenBearer } from "../../src/core/token.js";
import { createMysqlFence } from "../../src/fences/mysql/index.js";
import { fenceSchemaStatements, mysqlFence, mysqlParts } from "../../src/fences/mysql/open.js";
import { describeOn } from "../servers/find.js";
import { mariadbProgram, startMariadb, type MariadbServer } from "../servers/mariadb.js";
import { bearer } from "./bearers.js";

/** A lease with so much time left. */
function leaseFor(ms: number, token: number): TokenBearer {
  const until = performance.now() + ms;
  return bearer(token, { remaining: () => Math.max(0, until - performance.now()) });
}

describeOn(mariadbProgram, "transactions of the MySQL fence", () => {
  let server: MariadbServer;
  let pool: Pool;
  let url: string;

  beforeAll(async () => void (server = await startMariadb()));
  afterAll(() => server.dispose());
  beforeEach(async () => {
    await server.query("CREATE OR REPLACE DATABASE app");
    url = server.url.replace(/\/test$/, "/app");
    await server.query("CREATE TABLE app.account (owner VARCHAR(9) PRIMARY KEY, balance INT)");
    await server.query("INSERT INTO app.account VALUES ('a', 5)");
    pool = createPool({ uri: url, connectionLimit: 5 });
    await mysqlFence(pool).install({ table: "account", resource: "owner" });
  });
  afterEach(() => pool.end());

  const add = "UPDATE account SET balance = balance + 1";
  const balance = async (): Promise<unknown> =>
    (await server.query<{ balance: number }>("SELECT balance FROM app.account"))[0]?.balance;
  /** Resolves once a transaction waits for a lock in the server. */
  async function somebodyWaits(): Promise<void> {
    const text = "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
    // The server makes this table anew only for one who has not read it for a tenth of a second.
    while ((await server.query(text)).length === 0) {
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
  }

  describe("within the caller's transaction", () => {
    it("lets it write while the work runs, and leaves nothing on the connection", async () => {
      const fence = mysqlFence(pool);
      const handle = await fence.arm(bearer(5), "a");
      const client = await pool.getConnection();
      const settings = "SELECT @@wait_timeout AS w, @@innodb_lock_wait_timeout AS l";
      const [before] = await client.query(settings);
      await client.query("BEGIN");
      await fence.within(client, handle, () => client.query(add));
      await expect(client.query(add)).rejects.toMatchObject({ sqlState: "TN010" });
      await fence.within((text, values) => client.query(text, values), handle, async () => {
        await client.query(add);
      });
      expect((await client.query(settings))[0]).toEqual(before);
      await client.query("COMMIT");
      await expect(client.query(add)).rejects.toMatchObject({ sqlState: "TN010" });
      client.release();
      await handle.write((tx) => tx.query(add));
      expect(await balance()).toBe(8);
    });

    it("refuses a stale or superseded handle, a pool, and a strange handle", async () => {
      const fence = mysqlFence(pool);
      const client = await pool.getConnection();
      const same = bearer(5);
      const first = await fence.arm(same, "a");
      await fence.arm(same, "a");
      const within = async (): Promise<unknown> => {
        await client.query("BEGIN");
        try {
          return await fence.within(client, first, () => client.query(add));
        } finally {
          await client.query("ROLLBACK");
        }
      };
      await expect(within()).rejects.toThrow(SupersededError);
      await fence.arm(bearer(6), "a");
      await expect(within()).rejects.toThrow(StaleTokenError);
      for (const given of [pool, 7, null, {}] as never[]) {
        await expect(fence.within(given, first, () => 1)).rejects.toThrow(ArgumentTypeError);
      }
      // Nothing holds the mark until the end of what is no transaction.
      const later = await fence.arm(bearer(7), "a");
      const run = (text: string, values: unknown[]): Promise<unknown> => client.query(text, values);
      for (const given of [client, run]) {
        await expect(fence.within(given, later, () => client.query(add))).rejects.toThrow(
          "transaction must be in a transaction: BEGIN first",
        );
      }
      const strange = await mysqlFence(pool).arm(bearer(6), "b");
      await expect(fence.within(client, strange, () => 1)).rejects.toThrow(/armed by this fence/);
      client.release();
      expect(await balance()).toBe(5);
    });

    it("keeps the successor out until its end, and the handle from reading past it", async () => {
      const fence = mysqlFence(pool);
      const handle = await fence.arm(bearer(5), "a");
      const client = await pool.getConnection();
      await client.query("BEGIN");
      await fence.within(client, handle, () => client.query(add));
      const read = handle.read((tx) => tx.query("SELECT balance FROM account"));
      await somebodyWaits();
      await client.query("COMMIT");
      client.release();
      expect(await read).toEqual([{ balance: 6 }]);
      await fence.arm(bearer(6), "a");
    });
  });

  describe("time", () => {
    it("ends a write whose lease is over, and lets the successor in", async () => {
      const fence = mysqlFence(pool);
      const slow = await fence.arm(leaseFor(600, 5), "a");
      let kept: { query(text: string): Promise<unknown> } | undefined;
      const writing = slow.write(async (tx) => {
        await tx.query(add);
        kept = tx;
        await new Promise(() => undefined);
      });
      await expect(writing).rejects.toThrow(/its time of \d+ ms was over; it was rolled back/);
      const next = await fence.arm(bearer(6), "a");
      await next.write((tx) => tx.query(add));
      await expect(kept?.query(add)).rejects.toThrow(/was over/);
      expect(await balance()).toBe(6);
      const late = bearer(7, { remaining: () => 0 });
      const refused = fence.arm(late, "a");
      await expect(refused).rejects.toThrow(/no time left: it was given back, or is over/);
      await expect(refused).rejects.toMatchObject({ code: "TENURE_LEASE_LOST" });
    });

    it("waits no longer than that for the mark, nor for a connection of the pool", async () => {
      const fence = mysqlFence(pool);
      await fence.arm(bearer(5, { holder: "h" }), "a");
      const client = await pool.getConnection();
      await client.query("BEGIN");
      await client.query("CALL tenure_fence_write_1('a', 5, 'h', 1)");
      const blocked = fence.arm(leaseFor(500, 6), "a");
      await expect(blocked).rejects.toBeInstanceOf(UnavailableError);
      await client.query("ROLLBACK");
      client.release();
      const all = await Promise.all([1, 2, 3, 4, 5].map(() => pool.getConnection()));
      const starved = fence.arm(leaseFor(200, 7), "a");
      await expect(starved).rejects.toThrow(/no free connection/);
      for (const one of all) one.release();
      expect(await fence.mark("a")).toMatchObject({ token: 5n });
    });

    it("frozen-in-transaction: a stopped holder blocks its successor for its time only", async () => {
      const folder = mkdtempSync(path.join(import.meta.dirname, "../../node_modules/.tenure-my-"));
      const outfile = path.join(folder, "child.mjs");
      buildSync({
        entryPoints: [fileURLToPath(import.meta.resolve("./mysql-child.ts"))], outfile, bundle: true,
        platform: "node", format: "esm", target: "node20", external: ["mysql2"],
        logLevel: "silent",
      });
      const leftMs = 2_500;
      const holder = spawn(process.execPath, [outfile, url, String(leftMs)], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      try {
        const lines = createInterface({ input: holder.stdout })[Symbol.asyncIterator]();
        expect((await lines.next()).value).toBe('"inside"');
        holder.kill("SIGSTOP");
        let idle: { at: string; ms: number } | undefined;
        while (idle === undefined) {
          // As above: the table of transactions is not made anew for one who reads it too often.
          await new Promise((resolve) => setTimeout(resolve, 150));
          [idle] = await server.query<{ at: string; ms: number }>(
            `SELECT CAST(UTC_TIMESTAMP(6) AS CHAR) AS at, p.time_ms AS ms
              FROM information_schema.processlist AS p
              JOIN information_schema.innodb_trx AS t ON t.trx_mysql_thread_id = p.id
              WHERE p.command = 'Sleep'`,
          );
        }
        const fence = mysqlFence(pool);
        const next = await fence.arm(bearer(6), "a");
        const [row] = await server.query<{ ms: number }>(
          "SELECT TIMESTAMPDIFF(MICROSECOND, ?, UTC_TIMESTAMP(6)) / 1000 AS ms",
          [idle.at],
        );
        // From the server's account of when it last heard of the holder; the rest: arming.
        expect(Number(idle.ms) + Number(row!.ms)).toBeLessThan(leftMs + 1_500);
        await next.write((tx) => tx.query(add));
        holder.kill("SIGCONT");
        expect((await lines.next()).value).toMatch(/Error/);
        expect(await balance()).toBe(6);
      } finally {
        holder.kill("SIGKILL");
        rmSync(folder, { recursive: true });
      }
    });
  });

  describe("outcomes", () => {
    it("own-late-write: a COMMIT answered by the connection's end is unknown; the handle arms again", async () => {
      const parts = mysqlParts(pool);
      const ended = (errno: number): Error =>
        Object.assign(new Error("the session has ended"), { errno, sqlState: "HY000" });
      const answers = [
        new Error("Connection lost: The server closed the connection."),
        ...[1053, 1317, 1927, 4031].map(ended),
      ];
      let lost: Error | undefined;
      const { database } = parts;
      const begin: typeof database.begin = async (work, texts, limits) => {
        const result = await database.begin(work, texts, limits);
        if (lost !== undefined) throw lost;
        return result;
      };
      const fence = createMysqlFence({ ...parts, database: { begin } });
      const handle = await fence.arm(bearer(5), "a");
      for (const [i, answer] of answers.entries()) {
        lost = answer;
        await expect(handle.write((tx) => tx.query(add))).rejects.toThrow(OutcomeUnknownError);
        lost = undefined;
        const rows = await handle.read((tx) => tx.query("SELECT balance FROM account"));
        expect(rows).toEqual([{ balance: 6 + i }]);
        expect(handle.arm).toBe(2 + i);
      }
    });

    it("nothing happened where the session was ended inside the work", async () => {
      const handle = await mysqlFence(pool).arm(bearer(5), "a");
      const writing = handle.write(async (tx) => {
        await tx.query(add);
        const [row] = await tx.query<{ id: number }>("SELECT CONNECTION_ID() AS id");
        await server.query(`KILL CONNECTION ${row!.id}`);
        await tx.query(add);
      });
      await expect(writing).rejects.toThrow();
      await handle.write((tx) => tx.query(add));
      expect(await balance()).toBe(6);
    });

    it("commits nothing over a statement that failed and that nobody awaited", async () => {
      const handle = await mysqlFence(pool).arm(bearer(5), "a");
      const writing = handle.write((tx) => {
        void tx.query(add);
        void tx.query("UPDATE account SET nothing = 1");
      });
      await expect(writing).rejects.toThrow(/nobody awaited it: Unknown column/);
      expect(await balance()).toBe(5);
    });

    it("check-not-atomic: reads one state without a lock, and can write nothing", async () => {
      const fence = mysqlFence(pool);
      const old = await fence.arm(bearer(5), "a");
      const seen = await old.read(async (tx) => {
        const armed = await fence.arm(bearer(6), "a");
        await armed.write((newer) => newer.query(add));
        return await tx.query("SELECT balance FROM account");
      });
      expect(seen).toEqual([{ balance: 5 }]);
      await expect(old.read(() => 1)).rejects.toThrow(StaleTokenError);
      const next = await fence.arm(bearer(7), "a");
      await expect(next.read((tx) => tx.query(add))).rejects.toMatchObject({ errno: 1792 });
    });
  });

  it("held check: keeps the lease's row, and holds up no renewal of a thousand", async () => {
    const backend = await mysql(pool);
    const call = { signal: new AbortController().signal, timeoutMs: 20_000 };
    await backend.open?.(call);
    const grants: Grant<FencingToken>[] = [];
    for (let i = 0; i < 1_000; i++) {
      const request = { name: `many-${i}`, holder: `h${i}`, ttlMs: 60_000 };
      const answer = await backend.acquire(request, call);
      if ("grant" in answer) grants.push(answer.grant);
    }
    const grant = grants[7]!;
    const lease = { ...bearer(1), ...grant, storeId: backend.storeId };
    const fence = mysqlFence(pool);
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
    const late = fence.held(lease, (tx) => tx.query(add));
    await expect(late).rejects.toBeInstanceOf(LeaseLostError);
    await expect(late).rejects.not.toThrow(/leaseSchema/);
    const elsewhere = fence.held({ ...lease, storeId: "another" }, (tx) => tx.query(add));
    await expect(elsewhere).rejects.toThrow(/own database keeps the leases of .*leaseSchema/);
    expect(await balance()).toBe(6);
    // A user that may not read whose leases these are.
    await server.addUser("worker", "SELECT, UPDATE, DELETE ON app.tenure_lease");
    const workers = createPool({ uri: server.urlFor("worker", "secret", "app") });
    const unread = mysqlFence(workers).held(lease, () => 1);
    await expect(unread).rejects.toBeInstanceOf(LeaseLostError);
    await expect(unread).rejects.toMatchObject({ cause: { errno: 1142 } });
    await workers.end();
    await backend.close();
  });

  describe("set-up", () => {
    it("is done by twenty starters at once, in a schema of their choice", async () => {
      await server.query("DROP DATABASE IF EXISTS fresh");
      const pools = Array.from({ length: 20 }, () => createPool({ uri: url, connectionLimit: 1 }));
      await Promise.all(
        pools.map((one, i) => mysqlFence(one, { schema: "fresh" }).arm(bearer(5), `r${i}`)),
      );
      await Promise.all(pools.map((one) => one.end()));
      const rows = await server.query("SELECT COUNT(*) AS n FROM fresh.tenure_fence_mark");
      expect(Number((rows[0] as { n: unknown }).n)).toBe(20);
    });

    it("tells missing tables, a newer version and a missing permission apart", async () => {
      await server.query("CREATE OR REPLACE DATABASE bare");
      const bare = createPool({ uri: url.replace(/app$/, "bare"), connectionLimit: 1 });
      let token = 5;
      const arm = (of: Pool, migrate: boolean): Promise<unknown> =>
        mysqlFence(of, { migrate }).arm(bearer(token++), "a");
      await expect(arm(bare, false)).rejects.toThrow(/fenceSchemaStatements\(\)/);
      await server.query("DROP USER IF EXISTS clerk@'127.0.0.1'");
      await server.addUser("clerk", "SELECT ON bare.*");
      const clerk = createPool({ uri: server.urlFor("clerk", "secret", "bare") });
      await expect(arm(clerk, true)).rejects.toThrow(/no permission to make them/);
      for (const text of [...fenceSchemaStatements(), ...fenceSchemaStatements()]) {
        await bare.query(text);
      }
      await arm(bare, false);
      await expect(arm(clerk, true)).rejects.toMatchObject({ retryable: false });
      await bare.query("UPDATE tenure_fence_version SET version = 99");
      await expect(arm(bare, true)).rejects.toThrow(/version 99, this release of Tenure knows 1/);
      await clerk.end();
      await bare.end();
    });

    it.each([
      [{ schema: "" }, "schema"],
      [{ schema: "mysql" }, "schema"],
      [{ leaseSchema: 7 as never }, "leaseSchema"],
      [{ migrate: 1 as never }, "migrate"],
      [{ transactionMs: -1 }, "transactionMs"],
    ])("refuses wrong options %o before any I/O", (options, option) => {
      expect(() => mysqlFence(pool, options)).toThrow(expect.objectContaining({ option }));
      expect(() => mysqlFence({} as never)).toThrow(ArgumentTypeError);
    });
  });
});
