import { Readable } from "node:stream";
import { createPool, type Pool } from "mysql2/promise";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { GuaranteeError, StaleTokenError } from "../../src/core/errors.js";
import { createMysqlFence, type MysqlFence } from "../../src/fences/mysql/index.js";
import { mysqlParts } from "../../src/fences/mysql/open.js";
import { describeOn } from "../servers/find.js";
import { mariadbProgram, startMariadb, type MariadbServer } from "../servers/mariadb.js";
import { bearer } from "./bearers.js";
import { testRuntime } from "./runtime.js";

const REFUSED = /is fenced/;

describeOn(mariadbProgram, "unskippable MySQL fence", () => {
  let server: MariadbServer;
  /** One connection, so that what is left over on it would be found by the next statement. */
  let pool: Pool;
  /** Some other program's connections. */
  let other: Pool;
  let fence: MysqlFence;
  let events: ReturnType<typeof testRuntime>["events"];
  let count = 0;

  beforeAll(async () => void (server = await startMariadb()));
  afterAll(() => server.dispose());
  beforeEach(async () => {
    const app = `app${count++}`;
    await server.query(`CREATE SCHEMA ${app}`);
    const uri = server.url.replace(/\/test$/, `/${app}`);
    pool = createPool({ uri, connectionLimit: 1 });
    other = createPool({ uri, connectionLimit: 3, multipleStatements: true });
    const { runtime, events: published } = testRuntime();
    events = published;
    fence = createMysqlFence({ ...mysqlParts(pool), runtime }, { schema: `Fence ${app} 's` });
  });
  afterEach(async () => {
    await pool.end();
    await other.end();
  });

  const schema = (): string => `\`Fence app${count - 1} 's\``;
  const marks = (): string => `${schema()}.tenure_fence_mark`;

  async function accounts(): Promise<void> {
    await other.query(`CREATE TABLE account (id INT PRIMARY KEY, owner VARCHAR(50) NOT NULL,
      code VARCHAR(50) UNIQUE, balance INT) ENGINE = InnoDB`);
    await fence.install({ table: "account", resource: "owner" });
  }

  const write = async (resource: string, text: string, token = 5): Promise<unknown> => {
    const handle = await fence.arm(bearer(token, { holder: `h${token}` }), resource);
    return await handle.write((tx) => tx.query(text));
  };
  const all = async (text: string): Promise<unknown> => (await other.query(text))[0];
  const refused = async (text: string): Promise<void> => {
    await expect(other.query(text), text).rejects.toMatchObject({ sqlState: "TN010" });
  };

  it("refuses every kind of write that has no proof, with a SQLSTATE of its own", async () => {
    await accounts();
    await write("a", "INSERT INTO account VALUES (1, 'a', 'x', 10)");
    await other.query("CREATE VIEW seen AS SELECT * FROM account");
    for (const text of [
      "INSERT INTO account VALUES (2, 'a', 'y', 1)",
      "INSERT IGNORE INTO account VALUES (2, 'a', 'y', 1)",
      "INSERT INTO account SELECT 3, 'a', 'z', 1",
      "INSERT INTO account VALUES (1, 'a', 'x', 1) ON DUPLICATE KEY UPDATE balance = 99",
      "REPLACE INTO account VALUES (1, 'a', 'x', 99)",
      "UPDATE account SET balance = 99",
      "UPDATE IGNORE account SET owner = 'b'",
      "UPDATE account JOIN (SELECT 1 AS one) AS j SET balance = 9",
      "DELETE FROM account",
      "DELETE IGNORE FROM account WHERE id = 1",
      "DELETE account FROM account JOIN (SELECT 1 AS one) AS j",
      "UPDATE seen SET balance = 1",
    ]) {
      await refused(text);
    }
    const load = `LOAD DATA LOCAL INFILE 'rows' INTO TABLE account`;
    const loading = other.query({
      sql: load,
      infileStreamFactory: () => Readable.from([Buffer.from("8\ta\tu\t1\n")]),
    } as never);
    await expect(loading).rejects.toMatchObject({ sqlState: "TN010" });
    expect(await all("SELECT * FROM account")).toEqual([
      { id: 1, owner: "a", code: "x", balance: 10 },
    ]);
  });

  it("lets the armed handle do all of it, and checks the old and the new resource", async () => {
    await accounts();
    for (const text of [
      "INSERT INTO account VALUES (1, 'a', 'x', 10)",
      "INSERT INTO account VALUES (1, 'a', 'x', 1) ON DUPLICATE KEY UPDATE balance = 12",
      "REPLACE INTO account VALUES (1, 'a', 'x', 13)",
      "UPDATE account SET id = 5 WHERE owner = 'a'",
    ]) {
      await write("a", text);
    }
    await write("b", "INSERT INTO account VALUES (2, 'b', 'y', 20)");
    for (const text of [
      "UPDATE account SET owner = 'b' WHERE id = 5",
      "UPDATE account SET owner = 'a' WHERE id = 2",
      "UPDATE account SET balance = 0",
      "DELETE FROM account",
      "REPLACE INTO account VALUES (2, 'a', 'z', 1)",
      "REPLACE INTO account VALUES (7, 'a', 'y', 1)",
    ]) {
      await expect(write("a", text), text).rejects.toThrow(REFUSED);
    }
    expect(await all("SELECT id, balance FROM account ORDER BY id")).toEqual([
      { id: 2, balance: 20 },
      { id: 5, balance: 13 },
    ]);
  });

  describe("the proof", () => {
    it("is taken away with the transaction: nothing is left over on the connection", async () => {
      await accounts();
      const handle = await fence.arm(bearer(5), "a");
      const settings = `SELECT @@wait_timeout AS w, @@innodb_lock_wait_timeout AS l,
        @@max_statement_time AS s, @tenure_fence_proof AS p`;
      const [before] = await pool.query(settings);
      await handle.write((tx) => tx.query("INSERT INTO account VALUES (1, 'a', 'x', 10)"));
      expect((await pool.query(settings))[0]).toEqual(before);
      await expect(pool.query("UPDATE account SET balance = 11")).rejects.toThrow(REFUSED);
      const failed = handle.write(async (tx) => {
        await tx.query("UPDATE account SET balance = 12");
        throw new RangeError("no");
      });
      await expect(failed).rejects.toThrow(RangeError);
      expect((await pool.query(settings))[0]).toEqual(before);
      await expect(pool.query("UPDATE account SET balance = 13")).rejects.toThrow(REFUSED);
      expect(await all(`SELECT writer FROM ${marks()}`)).toEqual([{ writer: null }]);
      expect(await all("SELECT balance FROM account")).toEqual([{ balance: 10 }]);
    });

    it("cannot be made up: a stale token, a higher one, another holder, a variable", async () => {
      await accounts();
      await write("a", "INSERT INTO account VALUES (1, 'a', 'x', 10)", 6);
      const client = await other.getConnection();
      for (const [shown, why] of [
        ["'a', 5, 'h5', 1", /armed with a newer one: 6/],
        ["'a', 999, 'h999', 1", /armed with 6: arm first/],
        ["'a', 6, 'somebody', 1", /another holder has armed with the same token/],
        ["'a', 6, 'h6', 2", /has arming 1, not this one/],
        ["'a', 6, NULL, 1", /are needed/],
        ["'b', 6, 'h6', 1", /never armed/],
      ] as const) {
        await client.query("BEGIN");
        const proof = client.query(`CALL ${schema()}.tenure_fence_write_1(${shown})`);
        await expect(proof, shown).rejects.toMatchObject({
          sqlState: "TN011",
          message: expect.stringMatching(why) as string,
        });
        await client.query("SET @tenure_fence_proof = UUID()");
        await expect(client.query("UPDATE account SET balance = 0")).rejects.toThrow(REFUSED);
        await client.query("ROLLBACK");
      }
      client.destroy();
    });

    it("is given to the holder by any client, goes with a savepoint, and with an arming", async () => {
      await accounts();
      const handle = await fence.arm(bearer(5, { holder: "h" }), "a");
      const prove = `CALL ${schema()}.tenure_fence_write_1('a', 5, 'h', 1)`;
      const insert = "INSERT INTO account VALUES (1, 'a', 'x', 10)";
      const client = await other.getConnection();
      await client.query("BEGIN");
      await client.query("SAVEPOINT s");
      await client.query(prove);
      await client.query("ROLLBACK TO s");
      await expect(client.query(insert)).rejects.toThrow(REFUSED);
      await client.query(prove);
      await client.query(insert);
      await client.query(`CALL ${schema()}.tenure_fence_done_1('a')`);
      await client.query("COMMIT");
      await expect(client.query("DELETE FROM account")).rejects.toThrow(REFUSED);
      await handle.write((tx) => tx.query("UPDATE account SET balance = 11"));

      // Who forgets the second call can go on for a time, but not past the next arming.
      await client.query("BEGIN");
      await client.query(prove);
      await client.query("COMMIT");
      await client.query("UPDATE account SET balance = 12");
      await fence.arm(bearer(6), "a");
      await expect(client.query("UPDATE account SET balance = 13")).rejects.toThrow(REFUSED);
      client.destroy();
      expect((await fence.audit()).ways.join()).toContain("without tenure_fence_done");
    });

    it("is not given for words that end a transaction", async () => {
      await accounts();
      const handle = await fence.arm(bearer(5), "a");
      const ending = ["COMMIT", "BEGIN", "rollback", "CREATE TABLE x (y INT)", "TRUNCATE account"];
      for (const text of ending) {
        await expect(handle.write((tx) => tx.query(text)), text).rejects.toThrow(/transaction/);
      }
      await handle.write(async (tx) => {
        await tx.query("CREATE TEMPORARY TABLE mine (x INT)");
        await tx.query("DROP TEMPORARY TABLE mine");
      });
    });
  });

  it("refuses a handle that a newer holder has overtaken", async () => {
    await accounts();
    const old = await fence.arm(bearer(5), "a");
    await write("a", "INSERT INTO account VALUES (1, 'a', 'x', 10)", 6);
    const late = old.write((tx) => tx.query("UPDATE account SET balance = 0"));
    await expect(late).rejects.toThrow(StaleTokenError);
  });

  it("refuses a role that has rights on the table and none on the fence", async () => {
    await accounts();
    await write("a", "INSERT INTO account VALUES (1, 'a', 'x', 10)");
    await server.addUser(`clerk${count}`, `SELECT, INSERT, UPDATE, DELETE ON app${count - 1}.*`);
    const url = server.urlFor(`clerk${count}`, "secret", `app${count - 1}`);
    const clerk = createPool({ uri: url });
    const update = clerk.query("UPDATE account SET balance = 9");
    await expect(update).rejects.toMatchObject({ sqlState: "TN010" });
    await expect(clerk.query(`UPDATE ${marks()} SET writer = 'x'`)).rejects.toMatchObject({
      errno: 1142,
    });
    await clerk.end();
  });

  it("covers odd names, and columns of several types", async () => {
    const [table, column] = ["my `odd\" ta'ble;--", "co`l 'umn \\"];
    const quoted = `\`${table.replaceAll("`", "``")}\``;
    const col = `\`${column.replaceAll("`", "``")}\``;
    await other.query(`CREATE TABLE ${quoted} (${col} VARCHAR(90) PRIMARY KEY, \`select\` INT)`);
    await fence.install({ table, resource: column, prefix: "it's\\" });
    const name = "o'br\"ien é; DROP TABLE x";
    const handle = await fence.arm(bearer(5), `it's\\${name}`);
    await handle.write((tx) => tx.query(`INSERT INTO ${quoted} VALUES (?, 1)`, [name]));
    await refused(`UPDATE ${quoted} SET \`select\` = 2`);
    expect(await fence.audit()).toMatchObject({ tables: [{ table, column, faults: [] }] });
    await fence.uninstall({ table });
    await other.query(`UPDATE ${quoted} SET \`select\` = 2`);

    for (const [type, value, text] of [
      ["BIGINT AUTO_INCREMENT", "NULL", "1"],
      ["UUID", "'6F9619FF-8B86-D011-B42D-00C04FC964FF'", "6f9619ff-8b86-d011-b42d-00c04fc964ff"],
      ["DECIMAL(5, 1)", "7", "7.0"],
      ["ENUM ('red')", "'red'", "red"],
      ["VARCHAR(9) CHARACTER SET latin1", "'é'", "é"],
    ] as const) {
      await other.query(`CREATE OR REPLACE TABLE item (id ${type} PRIMARY KEY, v INT)`);
      await fence.install({ table: "item", resource: "id", prefix: "items/" });
      await write(`items/${text}`, `INSERT INTO item VALUES (${value}, 1)`);
      await expect(write("items/zz", "UPDATE item SET v = 2")).rejects.toThrow(REFUSED);
    }
  });

  it("keeps marks from being deleted or lowered by anybody", async () => {
    await accounts();
    await write("a", "INSERT INTO account VALUES (1, 'a', 'x', 10)");
    for (const text of [
      `DELETE FROM ${marks()}`,
      `UPDATE ${marks()} SET token = 4`,
      `UPDATE ${marks()} SET holder = 'z'`,
      `UPDATE ${marks()} SET n = 0`,
      `UPDATE ${marks()} SET resource = 'b'`,
      `REPLACE INTO ${marks()} (resource, store_id, lock_name, token, holder, arm, n, past)
        VALUES ('a', '', '', 1, '', 1, 0, '[]')`,
    ]) {
      await expect(other.query(text), text).rejects.toMatchObject({ sqlState: "TN012" });
    }
    expect(await fence.mark("a")).toMatchObject({ token: 5n, holder: "h5", n: 1 });
  });

  it("bypasses for one transaction, on the record", async () => {
    await accounts();
    await fence.bypass("load of 2024", async (tx) => {
      await tx.query("INSERT INTO account VALUES (1, 'a', 'x', 10), (2, 'b', 'y', 20)");
    });
    const failed = fence.bypass("a mistake", async (tx) => {
      await tx.query("DELETE FROM account");
      throw new RangeError("no");
    });
    await expect(failed).rejects.toThrow(RangeError);
    await expect(fence.bypass("", () => 1)).rejects.toMatchObject({ option: "reason" });
    await refused("DELETE FROM account");
    await expect(pool.query("DELETE FROM account")).rejects.toThrow(REFUSED);
    expect(await all("SELECT id FROM account")).toEqual([{ id: 1 }, { id: 2 }]);
    expect((await fence.audit()).log).toMatchObject([
      { event: "install", subject: `app${count - 1}.account` },
      { event: "bypass", detail: "load of 2024", role: expect.stringMatching(/^root@/) as string },
    ]);
    expect(events).toMatchObject([{ type: "bypassed", reason: "load of 2024" }]);
  });

  describe("audit", () => {
    it("tells what is covered, what is not, and what changed since", async () => {
      await accounts();
      await other.query("CREATE TABLE cache (x INT)");
      const before = await fence.audit();
      expect(before.tables).toMatchObject([{ table: "account", column: "owner", faults: [] }]);
      expect(before.uncovered).toEqual(["cache"]);
      await other.query("DROP TRIGGER tenure_fence_delete_1");
      await other.query(`CREATE OR REPLACE TRIGGER tenure_fence_update_1 AFTER UPDATE ON account
        FOR EACH ROW SET @x = 1`);
      expect((await fence.audit()).tables[0]?.faults).toEqual([
        "trigger tenure_fence_update_1 is not ours: install again",
        "trigger tenure_fence_delete_1 is missing: install again",
      ]);
      await fence.install({ table: "account", resource: "owner" });
      expect((await fence.audit()).tables[0]?.faults).toEqual([]);
      await other.query("DROP TABLE account");
      expect((await fence.audit()).tables[0]?.faults).toHaveLength(1);
    });

    it("names ways round that do work: TRUNCATE, cascades, a proof by hand", async () => {
      await other.query(`CREATE TABLE bank (id INT PRIMARY KEY);
        CREATE TABLE account (owner VARCHAR(9) PRIMARY KEY, bank INT,
          CONSTRAINT at_bank FOREIGN KEY (bank) REFERENCES bank (id) ON DELETE CASCADE);
        INSERT INTO bank VALUES (1)`);
      await fence.install({ table: "account", resource: "owner" });
      const rows = (): Promise<unknown> => all("SELECT owner FROM account");
      await write("a", "INSERT INTO account VALUES ('a', 1)");
      await other.query("DELETE FROM bank");
      expect(await rows()).toEqual([]);
      const audit = await fence.audit();
      expect(audit.tables[0]?.faults).toEqual([
        "foreign key at_bank changes rows without any trigger: use RESTRICT",
      ]);
      await write("a", "INSERT INTO account VALUES ('a', NULL)");
      await other.query("TRUNCATE account");
      expect(await rows()).toEqual([]);
      await other.query(`BEGIN; SET @tenure_fence_proof = 'x';
        UPDATE ${marks()} SET writer = 'x', connection = CONNECTION_ID(), until = NULL;
        INSERT INTO account VALUES ('a', NULL); COMMIT`);
      expect(await rows()).toEqual([{ owner: "a" }]);
      for (const way of ["TRUNCATE", "CASCADE", "by hand", "DROP TRIGGER"]) {
        expect(audit.ways.join()).toContain(way);
      }
    });
  });

  it("refuses to install what it cannot cover, naming it, and leaves nothing behind", async () => {
    await other.query(`CREATE TABLE t (r VARCHAR(9), d DATE, f DOUBLE, b BLOB);
      CREATE VIEW v AS SELECT * FROM t; CREATE TABLE m (r VARCHAR(9)) ENGINE = MyISAM`);
    const install = (table: string, resource = "r"): Promise<void> =>
      fence.install({ table, resource });
    for (const table of ["nothing", "v"]) {
      await expect(install(table), table).rejects.toMatchObject({ option: "table" });
    }
    await expect(install("m")).rejects.toThrow(GuaranteeError);
    for (const column of ["x", "d", "f", "b"]) {
      await expect(install("t", column), column).rejects.toMatchObject({ option: "resource" });
    }
    expect(await fence.audit()).toMatchObject({ tables: [], log: [] });
    await install("t");
    await install("t");
    await expect(fence.uninstall({ table: "nothing" })).rejects.toMatchObject({ option: "table" });
  });
});
