import { describe, expect, it } from "vitest";
import { StaleTokenError } from "../../src/core/errors.js";
import { describeOn } from "../servers/find.js";
import { postgresProgram } from "../servers/postgres.js";
import { bearer } from "./bearers.js";
import { accountsBench } from "./postgres-accounts.js";

const REFUSED = /is fenced/;

describeOn(postgresProgram, "unskippable Postgres fence", () => {
  const bench = accountsBench();
  const { fenceSchema, accounts, write, all, refused } = bench;

  it("refuses every kind of write that has no proof, with a SQLSTATE of its own", async () => {
    await accounts();
    await write("a", "INSERT INTO account VALUES (1, 'a', 'x', 10)");
    for (const text of [
      "INSERT INTO account VALUES (2, 'a', 'y', 1)",
      "INSERT INTO account SELECT 3, 'a', 'z', 1",
      "INSERT INTO account VALUES (1, 'a', 'x', 1) ON CONFLICT (id) DO UPDATE SET balance = 99",
      "UPDATE account SET balance = 99",
      "UPDATE account SET owner = 'b'",
      "UPDATE account SET balance = 9 FROM generate_series(1, 2)",
      "DELETE FROM account",
      "DELETE FROM account WHERE id = 1 RETURNING *",
      "TRUNCATE account",
      "MERGE INTO account AS a USING (VALUES (1)) AS v (id) ON a.id = v.id " +
        "WHEN MATCHED THEN UPDATE SET balance = 99",
      "MERGE INTO account AS a USING (VALUES (7)) AS v (id) ON a.id = v.id " +
        "WHEN NOT MATCHED THEN INSERT VALUES (7, 'a', 'w', 1)",
      "WITH gone AS (DELETE FROM account RETURNING *) SELECT count(*) FROM gone",
      "WITH come AS (INSERT INTO account VALUES (4, 'a', 'v', 1)) SELECT 1",
      "COPY account FROM PROGRAM 'printf ''8\\ta\\tu\\t1\\n'''",
      "DO $$ BEGIN UPDATE account SET balance = 99; END $$",
      "EXPLAIN ANALYZE DELETE FROM account",
    ]) {
      await refused(text);
    }
    // Writes nothing, and so needs no proof.
    await bench.other.query("INSERT INTO account VALUES (1, 'a', 'x', 1) ON CONFLICT DO NOTHING");
    expect(await all("SELECT * FROM account")).toEqual([
      { id: 1, owner: "a", code: "x", balance: 10 },
    ]);
  });

  it("unfenced-side-path: tells table, column and resource of a refused write", async () => {
    await accounts();
    await write("a", "INSERT INTO account VALUES (1, 'a', 'x', 10)");
    await expect(bench.other.query("UPDATE account SET balance = 9")).rejects.toMatchObject({
      message: expect.stringMatching(
        /^tenure: table app\d+\.account is fenced by column owner: this transaction is not/,
      ) as string,
      detail: "UPDATE of a row of resource a.",
      code: "TN010",
      table: "account",
      column: "owner",
    });
  });

  it("lets the armed handle do all of it", async () => {
    await accounts();
    for (const text of [
      "INSERT INTO account VALUES (1, 'a', 'x', 10)",
      "INSERT INTO account VALUES (2, 'a', 'y', 1)",
      "INSERT INTO account VALUES (1, 'a', 'x', 1) ON CONFLICT (id) DO UPDATE SET balance = 12",
      "UPDATE account SET balance = balance + 1 WHERE owner = 'a'",
      "UPDATE account SET id = 5 WHERE id = 1",
      "COPY account FROM PROGRAM 'printf ''8\\ta\\tu\\t1\\n'''",
      "DELETE FROM account WHERE id IN (2, 8)",
    ]) {
      await write("a", text);
    }
    expect(await all("SELECT * FROM account")).toEqual([
      { id: 5, owner: "a", code: "x", balance: 13 },
    ]);
  });

  it("checks the old and the new resource", async () => {
    await accounts();
    await write("a", "INSERT INTO account VALUES (1, 'a', 'x', 10)");
    await write("b", "INSERT INTO account VALUES (2, 'b', 'y', 20)");
    for (const text of [
      "UPDATE account SET owner = 'b' WHERE id = 1",
      "UPDATE account SET owner = 'a' WHERE id = 2",
      "UPDATE account SET balance = 0",
      "DELETE FROM account",
    ]) {
      await expect(write("a", text), text).rejects.toThrow(REFUSED);
    }
    expect(await all("SELECT id, owner, balance FROM account ORDER BY id")).toEqual([
      { id: 1, owner: "a", balance: 10 },
      { id: 2, owner: "b", balance: 20 },
    ]);
  });

  it("refuses a row of no resource at all", async () => {
    await bench.other.query("CREATE TABLE loose (owner text)");
    await bench.fence.install({ table: "loose", resource: "owner" });
    await expect(write("a", "INSERT INTO loose VALUES (NULL)")).rejects.toThrow(REFUSED);
  });

  describe("the proof", () => {
    it("is of its transaction: nothing is left over on the pooled connection", async () => {
      await accounts();
      const handle = await bench.fence.arm(bearer(5), "a");
      await handle.write((tx) => tx.query("INSERT INTO account VALUES (1, 'a', 'x', 10)"));
      const settings = "SELECT current_setting('statement_timeout') AS s, " +
        "current_setting('lock_timeout') AS l, " +
        "current_setting('idle_in_transaction_session_timeout') AS i";
      expect((await bench.pool.query(settings)).rows).toEqual([{ s: "0", l: "0", i: "0" }]);
      await expect(bench.pool.query("UPDATE account SET balance = 11")).rejects.toThrow(REFUSED);
      const failed = handle.write(async (tx) => {
        await tx.query("UPDATE account SET balance = 12");
        throw new RangeError("no");
      });
      await expect(failed).rejects.toThrow(RangeError);
      await expect(bench.pool.query("UPDATE account SET balance = 13")).rejects.toThrow(REFUSED);
      expect(await all("SELECT balance FROM account")).toEqual([{ balance: 10 }]);
    });

    it("is undone with its savepoint", async () => {
      await accounts();
      const handle = await bench.fence.arm(bearer(5, { holder: "h" }), "a");
      const client = await bench.other.connect();
      await client.query("BEGIN; SAVEPOINT s");
      await bench.fence.within(client, handle);
      await client.query("INSERT INTO account VALUES (1, 'a', 'x', 10)");
      await client.query("ROLLBACK TO s");
      const late = client.query("INSERT INTO account VALUES (1, 'a', 'x', 10)");
      await expect(late).rejects.toThrow(REFUSED);
      await client.query("ROLLBACK");
      client.release();
    });

    it("cannot be made up: a stale token, a higher one, another holder, a setting", async () => {
      await accounts();
      await write("a", "INSERT INTO account VALUES (1, 'a', 'x', 10)", 6);
      const client = await bench.other.connect();
      for (const [shown, why] of [
        ["'a', 5, 'h5', 1", /armed with token 6, which is newer/],
        ["'a', 999, 'h999', 1", /armed with token 6: arm first/],
        ["'a', 6, 'somebody', 1", /another holder with the same token/],
        ["'a', 6, 'h6', 2", /has arming 1, not this one/],
        ["'a', 6, NULL, 1", /needs token, holder and arming/],
        ["'b', 6, 'h6', 1", /was never armed/],
      ] as const) {
        await client.query("BEGIN");
        const proof = client.query(`SELECT ${fenceSchema()}.fence_write(${shown})`);
        await expect(proof, shown).rejects.toMatchObject({
          code: "TN011",
          message: expect.stringMatching(why) as string,
        });
        await client.query("ROLLBACK");
      }
      for (const setting of ["tenure.token", "tenure.fence"]) {
        await client.query(`SELECT set_config('${setting}', '6', false)`);
        await client.query("BEGIN");
        await client.query(`SELECT set_config('${setting}', '999', true)`);
        await expect(client.query("UPDATE account SET balance = 0")).rejects.toThrow(REFUSED);
        await client.query("ROLLBACK");
      }
      client.release(true);
    });

    it("is given to the holder by any client, for one transaction", async () => {
      await accounts();
      const handle = await bench.fence.arm(bearer(5, { holder: "h" }), "a");
      const proof = `SELECT ${fenceSchema()}.fence_write('a', 5, 'h', 1)`;
      const client = await bench.other.connect();
      // Outside a transaction the proof has ended with the statement.
      await client.query(proof);
      const insert = "INSERT INTO account VALUES (1, 'a', 'x', 10)";
      await expect(client.query(insert)).rejects.toThrow(REFUSED);
      await client.query("BEGIN");
      await client.query(proof);
      await client.query(insert);
      await client.query("COMMIT");
      await expect(client.query("DELETE FROM account")).rejects.toThrow(REFUSED);
      client.release();
      await handle.write((tx) => tx.query("UPDATE account SET balance = 11"));
    });

    it("does not come with a dump: a number that another cluster gives out again", async () => {
      await accounts();
      await write("a", "INSERT INTO account VALUES (1, 'a', 'x', 10)");
      const client = await bench.other.connect();
      await client.query("BEGIN");
      await client.query(`UPDATE ${fenceSchema()}.fence_mark
        SET writer = pg_current_xact_id(), written = now() - interval '1 day'`);
      await expect(client.query("DELETE FROM account")).rejects.toThrow(REFUSED);
      await client.query("ROLLBACK");
      client.release();
    });

    it("is not given for words that begin or end a transaction", async () => {
      await accounts();
      const handle = await bench.fence.arm(bearer(5), "a");
      for (const text of ["COMMIT", " end", "BEGIN", "rollback", "ROLLBACK;", "ABORT"]) {
        await expect(handle.write((tx) => tx.query(text)), text).rejects.toThrow(TypeError);
      }
      await handle.write(async (tx) => {
        await tx.query("SAVEPOINT s");
        await tx.query("INSERT INTO account VALUES (1, 'a', 'x', 10)");
        await tx.query("ROLLBACK TO s");
      });
      expect(await all("SELECT * FROM account")).toEqual([]);
    });
  });

  it("refuses a handle that a newer holder has overtaken", async () => {
    await accounts();
    const old = await bench.fence.arm(bearer(5), "a");
    await write("a", "INSERT INTO account VALUES (1, 'a', 'x', 10)", 6);
    const late = old.write((tx) => tx.query("UPDATE account SET balance = 0"));
    await expect(late).rejects.toThrow(StaleTokenError);
  });
});
