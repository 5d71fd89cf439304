import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";
import { Client, Pool } from "pg";
import postgres from "postgres";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import {
  OutcomeUnknownError,
  StaleTokenError,
  SupersededError,
  TokenScopeError,
  UnavailableError,
} from "../../src/core/errors.js";
import type { TokenBearer } from "../../src/core/token.js";
import { createPostgresFence } from "../../src/fences/postgres/index.js";
import { postgresFence, postgresParts } from "../../src/fences/postgres/open.js";
import { describeOn } from "../servers/find.js";
import { postgresProgram, startPostgres, type PostgresServer } from "../servers/postgres.js";
import { bearer } from "./bearers.js";

const child = fileURLToPath(import.meta.resolve("./postgres-child.ts"));

/** A lease with so much time left. */
function leaseFor(ms: number, token: number): TokenBearer {
  const until = performance.now() + ms;
  return bearer(token, { remaining: () => Math.max(0, until - performance.now()) });
}

/** A promise and its other end. */
function signal(): [Promise<void>, () => void] {
  let done: () => void = () => undefined;
  return [new Promise<void>((resolve) => (done = resolve)), () => done()];
}

describeOn(postgresProgram, "transactions of the Postgres fence", () => {
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

  describe("within the caller's transaction", () => {
    it("proves it, whichever library began it, until its end", async () => {
      const fence = postgresFence(pool);
      const handle = await fence.arm(bearer(5), "a");
      const client = await pool.connect();
      await client.query("BEGIN");
      await fence.within(client, handle);
      await client.query(add);
      await client.query("COMMIT");
      await expect(client.query(add)).rejects.toMatchObject({ code: "TN010" });
      client.release();

      const sql = postgres(server.url);
      await sql.begin(async (tx) => {
        await fence.within(tx, handle);
        await tx.unsafe(add);
        await fence.within((text, values) => tx.unsafe(text, values as never[]), handle);
        await tx.unsafe(add);
      });
      await expect(sql.unsafe(add)).rejects.toMatchObject({ code: "TN010" });
      await sql.end();
      await handle.write((tx) => tx.query(add));
      expect(await balance()).toBe(9);
      expect(await fence.mark("a")).toMatchObject({ arm: 1, n: 1 });
    });

    it("refuses a stale, superseded or foreign handle, and ends the transaction", async () => {
      const fence = postgresFence(pool);
      const client = await pool.connect();
      const refused = async (handle: Awaited<ReturnType<typeof fence.arm>>, kind: unknown) => {
        await client.query("BEGIN");
        await expect(fence.within(client, handle)).rejects.toThrow(kind);
        await expect(client.query("SELECT 1")).rejects.toMatchObject({ code: "25P02" });
        await client.query("ROLLBACK");
      };
      const same = bearer(5);
      const first = await fence.arm(same, "a");
      await fence.arm(same, "a");
      await refused(first, SupersededError);
      await fence.arm(bearer(6), "a");
      await refused(first, StaleTokenError);
      const moved = bearer(7, { storeId: "store-2" });
      await fence.rebase("a", { to: moved, reason: "moved" });
      await refused(first, TokenScopeError);
      client.release();
    });

    it("refuses what is no transaction, before anything is written", async () => {
      const fence = postgresFence(pool);
      const handle = await fence.arm(bearer(5), "a");
      const client = await pool.connect();
      for (const given of [pool, client, 7, null, {}] as never[]) {
        await expect(fence.within(given, handle)).rejects.toMatchObject({ option: "transaction" });
      }
      const sql = postgres(server.url, { max: 1 });
      const atOnce = fence.within(sql, handle);
      await expect(atOnce).rejects.toThrow(/what sql\.begin hands .* not sql itself/);
      await sql.end();
      await expect(fence.within(client, handle)).rejects.toThrow(/BEGIN first, got an object/);
      const strange = await postgresFence(pool).arm(bearer(6), "b");
      const within = fence.within(client, strange);
      await expect(within).rejects.toMatchObject({ option: "handle" });
      client.release();
    });

    it("lets the successor arm after its end, and the handle read what it wrote", async () => {
      const fence = postgresFence(pool);
      const handle = await fence.arm(bearer(5), "a");
      const client = await pool.connect();
      await client.query("BEGIN");
      await fence.within(client, handle);
      await client.query(add);
      // As if the answer to COMMIT were late: the handle must not read past it.
      const read = handle.read((tx) => tx.query("SELECT balance FROM account"));
      await somebodyWaits();
      await client.query("COMMIT");
      expect(await read).toEqual([{ balance: 6 }]);
      client.release();
      const next = await fence.arm(bearer(6), "a");
      expect(await next.read((tx) => tx.query("SELECT balance FROM account"))).toEqual([
        { balance: 6 },
      ]);
    });

    it("bounds how long it may stand idle, and does not raise the caller's own bound", async () => {
      const fence = postgresFence(pool);
      const shown = "SELECT setting::integer AS ms FROM pg_settings " +
        "WHERE name = 'idle_in_transaction_session_timeout'";
      const handle = await fence.arm(leaseFor(20_000, 5), "a");
      const client = await pool.connect();
      for (const [own, least, most] of [["0", 1, 20_000], ["700", 700, 700]] as const) {
        await client.query(`BEGIN; SET LOCAL idle_in_transaction_session_timeout = ${own}`);
        await fence.within(client, handle);
        const { rows: [row] } = await client.query<{ ms: number }>(shown);
        expect(row?.ms).toBeGreaterThanOrEqual(least);
        expect(row?.ms).toBeLessThanOrEqual(most);
        await client.query("ROLLBACK");
      }
      expect((await client.query(shown)).rows).toEqual([{ ms: 0 }]);
      client.release();
    });

    it("leaves a single client alone that is in its owner's transaction", async () => {
      const client = new Client({ connectionString: server.url });
      await client.connect();
      const fence = postgresFence(client);
      const handle = await fence.arm(bearer(5), "a");
      await client.query("BEGIN");
      await client.query("CREATE TEMPORARY TABLE mine (x integer)");
      await expect(handle.write((tx) => tx.query(add))).rejects.toThrow(/fence\.within/);
      await fence.within(client, handle);
      await client.query(add);
      await client.query("COMMIT");
      await handle.write((tx) => tx.query(add));
      expect(await balance()).toBe(7);
      await client.end();
    });
  });

  describe("time", () => {
    it("ends a write whose lease is over, and lets the successor in", async () => {
      const fence = postgresFence(pool);
      const slow = await fence.arm(leaseFor(400, 5), "a");
      let kept: { query(text: string): Promise<unknown> } | undefined;
      const writing = slow.write(async (tx) => {
        await tx.query(add);
        kept = tx;
        await new Promise(() => undefined);
      });
      await expect(writing).rejects.toThrow(/its time of \d+ ms was over; it was rolled back/);
      await expect(writing).rejects.toBeInstanceOf(UnavailableError);
      const next = await fence.arm(bearer(6), "a");
      await next.write((tx) => tx.query(add));
      await expect(kept?.query(add)).rejects.toThrow(/was over/);
      expect(await balance()).toBe(6);
    });

    it("begins nothing for a lease without time", async () => {
      const handle = await postgresFence(pool).arm(leaseFor(300, 5), "a");
      const over = await postgresFence(pool).arm(bearer(6, { remaining: () => 1_000 }), "b");
      expect(over.arm).toBe(1);
      const late = bearer(7, { remaining: () => 0 });
      const refused = postgresFence(pool).arm(late, "a");
      await expect(refused).rejects.toThrow(/no time left: it was given back, or is over/);
      await expect(refused).rejects.toMatchObject({ code: "TENURE_LEASE_LOST" });
      expect(await postgresFence(pool).mark("a")).toMatchObject({ token: handle.token });
    });

    it("waits no longer than that for the mark, nor for a connection of the pool", async () => {
      const fence = postgresFence(pool);
      await fence.arm(bearer(5, { holder: "h" }), "a");
      const client = await pool.connect();
      await client.query("BEGIN");
      await client.query("SELECT tenure.fence_write('a', 5, 'h', 1)");
      const blocked = fence.arm(leaseFor(300, 6), "a");
      await expect(blocked).rejects.toBeInstanceOf(UnavailableError);
      await client.query("ROLLBACK");
      client.release();
      const all = await Promise.all([1, 2, 3, 4, 5].map(() => pool.connect()));
      const starved = fence.arm(leaseFor(200, 7), "a");
      await expect(starved).rejects.toThrow(/no free connection/);
      for (const one of all) one.release();
      expect(await fence.mark("a")).toMatchObject({ token: 5n });
    });

    it("frozen-in-transaction: a stopped holder blocks its successor for its time only", async () => {
      const folder = mkdtempSync(path.join(import.meta.dirname, "../../node_modules/.tenure-pg-"));
      const outfile = path.join(folder, "child.mjs");
      buildSync({
        entryPoints: [child], outfile, bundle: true, platform: "node", format: "esm",
        target: "node20", external: ["pg", "postgres"], logLevel: "silent",
      });
      const leftMs = 1_500;
      const stdio = ["ignore", "pipe", "inherit"] as const;
      const holder = spawn(process.execPath, [outfile, server.url, String(leftMs)], {
        stdio: [...stdio],
      });
      try {
        const lines = createInterface({ input: holder.stdout })[Symbol.asyncIterator]();
        expect((await lines.next()).value).toBe('"inside"');
        holder.kill("SIGSTOP");
        const [idle] = await server.query<{ since: Date }>(
          "SELECT state_change AS since FROM pg_stat_activity WHERE state = 'idle in transaction'",
        );
        const fence = postgresFence(pool);
        const next = await fence.arm(bearer(6), "a");
        const [row] = await server.query<{ ms: string }>(
          "SELECT extract(epoch FROM clock_timestamp() - $1::timestamptz) * 1000 AS ms",
          [idle!.since],
        );
        // From the server's account of when it last heard of the holder; the rest: arming.
        expect(Number(row!.ms)).toBeLessThan(leftMs + 1_000);
        await next.write((tx) => tx.query(add));
        holder.kill("SIGCONT");
        expect((await lines.next()).value).toMatch(/Error|error/);
        expect(await balance()).toBe(6);
      } finally {
        holder.kill("SIGKILL");
        rmSync(folder, { recursive: true });
      }
    });

    it("tells a server that went silent inside the work from one that did at COMMIT", async () => {
      const fence = postgresFence(pool, { transactionMs: 700 });
      const handle = await fence.arm(bearer(5), "a");
      const inside = handle.write(async (tx) => {
        await tx.query(add);
        await server.freeze();
        await tx.query(add);
      });
      await expect(inside).rejects.toThrow(UnavailableError);
      await server.thaw();
      const atCommit = handle.write(async (tx) => {
        await tx.query(add);
        await server.freeze();
      });
      await expect(atCommit).rejects.toThrow(OutcomeUnknownError);
      await server.thaw();
      // Whatever became of it, the handle knows before it goes on.
      const rows = await handle.read((tx) => tx.query<{ balance: number }>("TABLE account"));
      expect(handle.arm).toBe(2);
      expect(await balance()).toBe(rows[0]?.balance);
      await handle.write((tx) => tx.query("UPDATE account SET balance = 20"));
      expect(await balance()).toBe(20);
    });
  });

  describe("outcomes", () => {
    it("own-late-write: a COMMIT answered by the connection's end is unknown; the handle arms again", async () => {
      const parts = postgresParts(pool);
      const ended = (code: string, severity: string): Error =>
        Object.assign(new Error("terminating connection"), { code, severity });
      const answers = [
        new Error("Connection terminated unexpectedly"),
        ended("57P01", "FATAL"), ended("57P02", "FATAL"), ended("25P03", "FATAL"),
        ended("XX000", "PANIC"), ended("57P01", "ФАТАЛЬНО"),
      ];
      let lost: Error | undefined;
      const { database } = parts;
      const begin: typeof database.begin = async (work, limits) => {
        const result = await database.begin(work, limits);
        if (lost !== undefined) throw lost;
        return result;
      };
      const fence = createPostgresFence({ ...parts, database: { begin } });
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
      const fence = postgresFence(pool);
      const handle = await fence.arm(bearer(5), "a");
      const writing = handle.write(async (tx) => {
        await tx.query(add);
        await server.terminate("state = 'idle in transaction'");
        await tx.query(add);
      });
      await expect(writing).rejects.toThrow(/terminat|not queryable/);
      await handle.write((tx) => tx.query(add));
      expect(handle.arm).toBe(1);
      expect(await balance()).toBe(6);
    });

    it("commits nothing over a statement that failed and that nobody awaited", async () => {
      const fence = postgresFence(pool);
      const handle = await fence.arm(bearer(5), "a");
      const writing = handle.write((tx) => {
        void tx.query(add);
        void tx.query("UPDATE account SET balance = 'x'");
      });
      await expect(writing).rejects.toThrow(/nobody awaited it: invalid input syntax/);
      const swallowed = handle.write(async (tx) => {
        await tx.query(add);
        await tx.query("SELECT 1 / 0").catch(() => undefined);
      });
      await expect(swallowed).rejects.toThrow(UnavailableError);
      expect(await balance()).toBe(5);
      expect(handle.arm).toBe(1);
    });

    it("waits for work that is asynchronous, and lets reads write nothing", async () => {
      const fence = postgresFence(pool);
      const handle = await fence.arm(bearer(5), "a");
      const [go, release] = signal();
      const [inside, enter] = signal();
      const writing = handle.write(async (tx) => {
        enter();
        const [row] = await tx.query<{ balance: number }>("SELECT balance FROM account");
        await go;
        await tx.query("UPDATE account SET balance = $1", [row!.balance * 10]);
        return (tx.native as Client).query("SELECT 1 AS one").then(({ rows }) => rows);
      });
      await inside;
      const arming = fence.arm(bearer(6), "a");
      await somebodyWaits();
      release();
      expect(await writing).toEqual([{ one: 1 }]);
      const next = await arming;
      expect(await balance()).toBe(50);
      const strange = next.read((tx) => tx.query(add));
      await expect(strange).rejects.toMatchObject({ code: "25006" });
    });

    it("check-not-atomic: reads one state, the one in which the mark was looked at", async () => {
      const fence = postgresFence(pool);
      const old = await fence.arm(bearer(5), "a");
      const next = fence.resource("a");
      const seen = await old.read(async (tx) => {
        const armed = await next.arm(bearer(6));
        await armed.write((newer) => newer.query(add));
        return await tx.query("SELECT balance FROM account");
      });
      // A reader holds nobody up; and what it sees is from before the newer holder.
      expect(seen).toEqual([{ balance: 5 }]);
      await expect(old.read(() => 1)).rejects.toThrow(StaleTokenError);
    });
  });
});
