import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { GuaranteeError, OutcomeUnknownError, StaleTokenError } from "../../src/core/errors.js";
import { createSqliteFence, type SqliteFence } from "../../src/fences/sqlite/index.js";
import { sqliteParts } from "../../src/fences/sqlite/open.js";
import { bearer } from "./bearers.js";
import { testRuntime } from "./runtime.js";

/** The command line of SQLite, where it is installed. */
const SHELL = "sqlite3";
const REFUSED = /is fenced by column/;

describe("unskippable SQLite fence", () => {
  let root: string;
  let file: string;
  /** Some other program's connection. */
  let other: InstanceType<typeof Database>;
  let fence: SqliteFence;
  let events: ReturnType<typeof testRuntime>["events"];

  beforeEach(() => {
    root = mkdtempSync(path.join(tmpdir(), "tenure-fence-"));
    file = path.join(root, "app.db");
    other = new Database(file);
    other.pragma("journal_mode = WAL");
    const { runtime, events: published } = testRuntime();
    events = published;
    fence = createSqliteFence({ ...sqliteParts(file), runtime });
  });
  afterEach(async () => {
    await fence.close();
    other.close();
    rmSync(root, { recursive: true });
  });

  async function accounts(extra = ""): Promise<void> {
    other.exec(`CREATE TABLE account (
      id INTEGER PRIMARY KEY, owner TEXT NOT NULL, code TEXT UNIQUE, balance INTEGER) ${extra}`);
    await fence.install({ table: "account", resource: "owner" });
  }

  const write = async (resource: string, sql: string, token = 5): Promise<unknown> => {
    const handle = await fence.arm(bearer(token, { holder: `h${token}` }), resource);
    return await handle.write((tx) => tx.run(sql));
  };
  const all = (sql: string): unknown[] => other.prepare(sql).all();

  it("refuses every write that has no proof, from whatever connection", async () => {
    await accounts();
    await write("a", "INSERT INTO account VALUES (1, 'a', 'x', 10)");
    for (const sql of [
      "INSERT INTO account VALUES (2, 'a', 'y', 1)",
      "INSERT INTO account (owner) VALUES ('a')",
      "INSERT INTO account SELECT 3, 'a', 'z', 1",
      "INSERT OR IGNORE INTO account VALUES (2, 'a', 'y', 1)",
      "INSERT OR FAIL INTO account VALUES (2, 'a', 'y', 1)",
      "INSERT OR REPLACE INTO account VALUES (1, 'a', 'x', 99)",
      "REPLACE INTO account VALUES (1, 'b', 'x', 99)",
      "INSERT INTO account VALUES (1, 'a', 'x', 1) ON CONFLICT DO UPDATE SET balance = 99",
      "INSERT INTO account VALUES (1, 'a', 'x', 1) ON CONFLICT DO NOTHING",
      "UPDATE account SET balance = 99",
      "UPDATE OR IGNORE account SET balance = 99",
      "UPDATE account SET owner = 'b'",
      "UPDATE account SET rowid = 7",
      "DELETE FROM account",
      "DELETE FROM account WHERE id = 1",
      "DELETE FROM account WHERE id = 1 RETURNING *",
    ]) {
      expect(() => other.exec(sql), sql).toThrow(REFUSED);
    }
    expect(all("SELECT * FROM account")).toEqual([{ id: 1, owner: "a", code: "x", balance: 10 }]);
  });

  it("unfenced-side-path: refuses the sqlite3 command line, in words that say why", async () => {
    await accounts();
    await write("a", "INSERT INTO account VALUES (1, 'a', 'x', 10)");
    const shell = spawnSync(SHELL, [file, "UPDATE account SET balance = 99"], {
      encoding: "utf8",
    });
    // Without the program, its library is what `other` stands for.
    if (shell.error === undefined) {
      expect(shell.status).not.toBe(0);
      expect(shell.stderr).toContain(
        "tenure: table account is fenced by column owner: this transaction is not the armed",
      );
    }
    expect(() => other.exec("UPDATE account SET balance = 99")).toThrow(REFUSED);
  });

  it("lets the armed handle do all of it", async () => {
    await accounts();
    for (const sql of [
      "INSERT INTO account VALUES (1, 'a', 'x', 10)",
      "INSERT INTO account (owner, balance) VALUES ('a', 1)",
      "INSERT OR REPLACE INTO account VALUES (1, 'a', 'y', 11)",
      "INSERT INTO account VALUES (1, 'a', 'y', 1) ON CONFLICT DO UPDATE SET balance = 12",
      "UPDATE account SET balance = balance + 1 WHERE owner = 'a'",
      "UPDATE account SET id = 5 WHERE id = 1",
      "DELETE FROM account WHERE id = 2",
    ]) {
      await write("a", sql);
    }
    expect(all("SELECT * FROM account")).toEqual([{ id: 5, owner: "a", code: "y", balance: 13 }]);
    await write("a", "DELETE FROM account");
    expect(all("SELECT * FROM account")).toEqual([]);
  });

  it("checks the old and the new resource, and what REPLACE would delete", async () => {
    await accounts();
    await write("a", "INSERT INTO account VALUES (1, 'a', 'x', 10)");
    await write("b", "INSERT INTO account VALUES (2, 'b', 'y', 20)");
    for (const sql of [
      "UPDATE account SET owner = 'b' WHERE id = 1",
      "UPDATE account SET owner = 'a' WHERE id = 2",
      "UPDATE account SET balance = 0",
      "DELETE FROM account",
      "REPLACE INTO account VALUES (2, 'a', 'z', 1)",
      "REPLACE INTO account VALUES (3, 'a', 'y', 1)",
      "REPLACE INTO account (rowid, owner) VALUES (2, 'a')",
      "UPDATE OR REPLACE account SET id = 2 WHERE id = 1",
      "UPDATE OR REPLACE account SET code = 'y' WHERE id = 1",
      "INSERT INTO account VALUES (1, NULL, 'w', 10)",
    ]) {
      await expect(write("a", sql), sql).rejects.toThrow(/is fenced by column|NOT NULL/);
    }
    expect(all("SELECT id, owner FROM account")).toEqual([
      { id: 1, owner: "a" },
      { id: 2, owner: "b" },
    ]);
  });

  it("checks replaced rows with recursive triggers on as well", async () => {
    await accounts();
    await write("b", "INSERT INTO account VALUES (2, 'b', 'y', 20)");
    other.pragma("recursive_triggers = ON");
    expect(() => other.exec("REPLACE INTO account VALUES (2, 'a', 'y', 1)")).toThrow(REFUSED);
  });

  it("refuses a handle that a newer holder has overtaken", async () => {
    await accounts();
    const old = await fence.arm(bearer(5), "a");
    await write("a", "INSERT INTO account VALUES (1, 'a', 'x', 10)", 6);
    const late = old.write((tx) => tx.run("UPDATE account SET balance = 0"));
    await expect(late).rejects.toThrow(StaleTokenError);
  });

  it("covers foreign-key actions from a table that is not fenced", async () => {
    other.exec(`CREATE TABLE bank (id INTEGER PRIMARY KEY);
      CREATE TABLE account (owner TEXT PRIMARY KEY,
        bank INTEGER REFERENCES bank ON DELETE CASCADE ON UPDATE SET NULL);
      INSERT INTO bank VALUES (1)`);
    await fence.install({ table: "account", resource: "owner" });
    await write("a", "INSERT INTO account VALUES ('a', 1)");
    expect(() => other.exec("DELETE FROM bank")).toThrow(REFUSED);
    expect(() => other.exec("UPDATE bank SET id = 2")).toThrow(REFUSED);
    expect(all("SELECT * FROM account")).toEqual([{ owner: "a", bank: 1 }]);
  });

  it.each([
    ["WITHOUT ROWID", `CREATE TABLE "t" ("r" TEXT, k INTEGER, v, PRIMARY KEY (k)) WITHOUT ROWID`],
    ["STRICT", `CREATE TABLE "t" ("r" TEXT, k INTEGER PRIMARY KEY, v INTEGER) STRICT`],
    ["a hidden rowid", `CREATE TABLE "t" ("r" TEXT, k INTEGER, v INTEGER, rowid TEXT, UNIQUE (k))`],
    ["a collation", `CREATE TABLE "t" ("r" TEXT COLLATE NOCASE, k INTEGER UNIQUE, v INTEGER)`],
  ])("covers a table with %s", async (_, create) => {
    other.exec(create);
    await fence.install({ table: "t", resource: "r" });
    await write("a", "INSERT INTO t (r, k, v) VALUES ('a', 1, 1)");
    await write("b", "INSERT INTO t (r, k, v) VALUES ('b', 2, 2)");
    await expect(write("a", "REPLACE INTO t (r, k, v) VALUES ('a', 2, 0)")).rejects.toThrow(REFUSED);
    await expect(write("a", "INSERT INTO t (r, k) VALUES ('A', 3)")).rejects.toThrow(REFUSED);
    for (const sql of ["UPDATE t SET v = 9", "DELETE FROM t", "REPLACE INTO t (k, r) VALUES (1, 'a')"]) {
      expect(() => other.exec(sql), sql).toThrow(REFUSED);
    }
    await write("a", "REPLACE INTO t (r, k, v) VALUES ('a', 1, 5)");
    expect(all("SELECT k, v FROM t ORDER BY k")).toEqual([{ k: 1, v: 5 }, { k: 2, v: 2 }]);
  });

  it("covers odd names of tables, columns and resources", async () => {
    const [table, column] = [`my "odd" ta'ble;--`, `co"l 'umn`];
    const quoted = table.replaceAll('"', '""');
    const col = column.replaceAll('"', '""');
    other.exec(`CREATE TABLE "${quoted}" ("${col}" TEXT PRIMARY KEY, "select" INTEGER)`);
    await fence.install({ table, resource: column });
    const name = `o'br"ien; DROP TABLE x`;
    const handle = await fence.arm(bearer(5), name);
    await handle.write((tx) => tx.run(`INSERT INTO "${quoted}" VALUES (?, ?)`, name, 1));
    expect(() => other.exec(`UPDATE "${quoted}" SET "select" = 2`)).toThrow(REFUSED);
    expect(await fence.audit()).toMatchObject({ tables: [{ table, column, faults: [] }] });
    await fence.uninstall({ table });
    other.exec(`UPDATE "${quoted}" SET "select" = 2`);
  });

  it("takes a number with a prefix as the resource, and a key that SQLite makes", async () => {
    other.exec("CREATE TABLE item (id INTEGER PRIMARY KEY, v)");
    await fence.install({ table: "ITEM", resource: "ID", prefix: "items/" });
    await write("items/1", "INSERT INTO item (v) VALUES (7)");
    await expect(write("items/1", "INSERT INTO item (v) VALUES (8)")).rejects.toThrow(REFUSED);
    await write("items/2", "INSERT INTO item (v) VALUES (8)");
    await write("items/10", "INSERT INTO item VALUES ('10', 9)");
    expect(all("SELECT id FROM item")).toEqual([{ id: 1 }, { id: 2 }, { id: 10 }]);
  });

  it("lives with the application's own triggers", async () => {
    await accounts();
    other.exec(`CREATE TABLE log (what TEXT);
      CREATE TRIGGER noted AFTER UPDATE ON account BEGIN INSERT INTO log VALUES (NEW.owner); END;
      CREATE TRIGGER touched AFTER INSERT ON log BEGIN
        UPDATE account SET balance = -1 WHERE owner = 'b'; END`);
    await write("a", "INSERT INTO account VALUES (1, 'a', 'x', 10)");
    await write("a", "UPDATE account SET balance = 11");
    await write("b", "INSERT INTO account VALUES (2, 'b', 'y', 20)");
    // What the application's trigger does to another resource needs proof like everything else.
    await expect(write("a", "UPDATE account SET balance = 12 WHERE id = 1")).rejects.toThrow(REFUSED);
    expect(() => other.exec("INSERT INTO log VALUES ('x')")).toThrow(REFUSED);
  });

  describe("the proof", () => {
    it("does not survive the transaction, nor an end of it inside the work", async () => {
      await accounts();
      await fence.close();
      const own = new Database(file);
      fence = createSqliteFence(sqliteParts(own));
      const handle = await fence.arm(bearer(5), "a");
      await handle.write((tx) => tx.run("INSERT INTO account VALUES (1, 'a', 'x', 10)"));
      expect(() => own.exec("UPDATE account SET balance = 11")).toThrow(REFUSED);
      // The same connection can be used inside the work, being in the same transaction.
      await handle.write(() => own.exec("UPDATE account SET balance = 12"));
      await expect(handle.write(() => own.exec("COMMIT"))).rejects.toThrow(/FOREIGN KEY/);
      expect(() => own.exec("UPDATE account SET balance = 13")).toThrow(REFUSED);
      const torn = handle.write(() => {
        own.exec("ROLLBACK");
        own.exec("CREATE TABLE outside (x)");
      });
      await expect(torn).rejects.toThrow(OutcomeUnknownError);
      await handle.write((tx) => tx.run("UPDATE account SET balance = 14"));
      expect(handle.arm).toBe(2);
      expect(all("SELECT balance FROM account")).toEqual([{ balance: 14 }]);
      expect(all("SELECT * FROM tenure_fence_proof")).toEqual([]);
      own.close();
    });

    it("cannot be left behind by another program, with foreign keys on or off", async () => {
      await accounts();
      await write("a", "INSERT INTO account VALUES (1, 'a', 'x', 10)");
      const forge = `INSERT INTO tenure_fence_proof (resource, token, holder, arm)
        SELECT resource, token, holder, arm FROM tenure_fence_mark`;
      expect(() => other.exec(forge)).toThrow(/FOREIGN KEY/);
      other.pragma("foreign_keys = OFF");
      expect(() => other.exec(forge)).toThrow(/needs PRAGMA foreign_keys/);
      other.pragma("foreign_keys = ON");
      const wrong = forge.replace("SELECT resource, token", "SELECT resource, token - 1");
      expect(() => other.exec(wrong)).toThrow(/not the armed holder/);
    });

    it("is not given for words that begin or end a transaction", async () => {
      await accounts();
      const handle = await fence.arm(bearer(5), "a");
      for (const sql of ["COMMIT", " end transaction", "BEGIN", "rollback", "ROLLBACK;"]) {
        await expect(handle.write((tx) => tx.run(sql)), sql).rejects.toThrow(TypeError);
        await expect(handle.write((tx) => tx.exec(sql)), sql).rejects.toThrow(TypeError);
      }
      const hidden = "INSERT INTO account VALUES (9, 'a', 'q', 1); COMMIT; DELETE FROM account";
      await expect(handle.write((tx) => tx.exec(hidden))).rejects.toThrow(TypeError);
      await handle.write((tx) => {
        tx.run("SAVEPOINT s");
        tx.run("INSERT INTO account VALUES (1, 'a', 'x', 10)");
        tx.run("ROLLBACK TO s");
        tx.run("RELEASE s");
      });
      expect(all("SELECT * FROM account")).toEqual([]);
    });
  });

  it("keeps marks from being deleted, replaced or lowered by anybody", async () => {
    await accounts();
    await write("a", "INSERT INTO account VALUES (1, 'a', 'x', 10)");
    for (const sql of [
      "DELETE FROM tenure_fence_mark",
      "UPDATE tenure_fence_mark SET token = 4",
      "UPDATE tenure_fence_mark SET holder = 'z'",
      "UPDATE tenure_fence_mark SET n = 0",
      "UPDATE tenure_fence_mark SET resource = 'b'",
      "REPLACE INTO tenure_fence_mark VALUES ('a', 's', 'l', 1, 'h', 1, 0, '[]')",
    ]) {
      expect(() => other.exec(sql), sql).toThrow(/tenure: a mark/);
    }
    expect(await fence.mark("a")).toMatchObject({ token: 5n, holder: "h5", n: 1 });
  });

  it("bypasses for one transaction, on the record", async () => {
    await accounts();
    await fence.bypass("load of 2024", (tx) => {
      tx.run("INSERT INTO account VALUES (1, 'a', 'x', 10), (2, 'b', 'y', 20)");
    });
    const failed = fence.bypass("a mistake", (tx) => {
      tx.run("DELETE FROM account");
      throw new RangeError("no");
    });
    await expect(failed).rejects.toThrow(RangeError);
    await expect(fence.bypass("slow", async () => undefined)).rejects.toThrow(TypeError);
    await expect(fence.bypass("", () => 1)).rejects.toMatchObject({ option: "reason" });
    expect(() => other.exec("DELETE FROM account")).toThrow(REFUSED);
    expect(all("SELECT count(*) AS n FROM account")).toEqual([{ n: 2 }]);
    const { log } = await fence.audit();
    expect(log).toMatchObject([
      { event: "install", subject: "account" },
      { event: "bypass", detail: "load of 2024" },
    ]);
    expect(events).toMatchObject([{ type: "bypassed", reason: "load of 2024" }]);
  });

  describe("audit", () => {
    it("tells what is covered, what is not, and what changed since", async () => {
      await accounts();
      other.exec("CREATE TABLE cache (x)");
      const before = await fence.audit();
      expect(before.tables).toEqual([
        { table: "account", column: "owner", prefix: "", faults: [] },
      ]);
      expect(before.uncovered).toEqual(["cache"]);
      expect(before.ways.length).toBeGreaterThan(0);

      other.exec("CREATE UNIQUE INDEX by_balance ON account (balance)");
      const [stale] = (await fence.audit()).tables;
      expect(stale?.faults).toEqual([
        expect.stringMatching(/before_insert_account is not up to date/),
        expect.stringMatching(/before_update_account is not up to date/),
      ]);
      await fence.install({ table: "account", resource: "owner" });
      expect((await fence.audit()).tables[0]?.faults).toEqual([]);

      other.exec("DROP TRIGGER tenure_fence_before_delete_account");
      const [hole] = (await fence.audit()).tables;
      expect(hole?.faults).toEqual([expect.stringContaining("is missing")]);
      other.exec("ALTER TABLE account RENAME TO konto");
      const [gone] = (await fence.audit()).tables;
      expect(gone?.faults).toEqual(["the table is gone or renamed"]);
    });

    it("names a way round it that does work: triggers turned off", async () => {
      await accounts();
      await write("a", "INSERT INTO account VALUES (1, 'a', 'x', 10)");
      try {
        execFileSync(SHELL, [file, ".dbconfig enable_trigger off", "DELETE FROM account"], {
          encoding: "utf8",
        });
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
        throw error;
      }
      expect(all("SELECT * FROM account")).toEqual([]);
      expect((await fence.audit()).ways.join()).toContain("turns triggers off");
    });
  });

  describe("install", () => {
    it("refuses what it cannot cover, naming it, and leaves nothing behind", async () => {
      other.exec(`CREATE TABLE t (r TEXT, e TEXT); CREATE VIEW v AS SELECT * FROM t;
        CREATE VIRTUAL TABLE search USING fts5 (r)`);
      const install = (table: string, resource = "r"): Promise<void> =>
        fence.install({ table, resource });
      await expect(install("nothing")).rejects.toMatchObject({ option: "table" });
      await expect(install("v")).rejects.toMatchObject({ option: "table" });
      await expect(install("search")).rejects.toMatchObject({ option: "table" });
      await expect(install("tenure_fence_mark", "resource")).rejects.toMatchObject({
        option: "table",
      });
      await expect(install("t", "x")).rejects.toMatchObject({ option: "resource" });
      for (const index of ["t (e) WHERE e > 1", "t (lower(e))"]) {
        other.exec(`CREATE UNIQUE INDEX i ON ${index}`);
        await expect(install("t")).rejects.toThrow(GuaranteeError);
        other.exec("DROP INDEX i");
      }
      expect(await fence.audit()).toMatchObject({ tables: [], log: [] });
      await install("t");
      await install("t");
      await expect(fence.uninstall({ table: "nothing" })).rejects.toMatchObject({
        option: "table",
      });
    });

    it("needs foreign keys on the fence's connection", async () => {
      const own = new Database(file);
      own.exec("CREATE TABLE t (r TEXT)");
      own.pragma("foreign_keys = OFF");
      const loose = createSqliteFence(sqliteParts(own));
      await expect(loose.install({ table: "t", resource: "r" })).rejects.toThrow(GuaranteeError);
      await fence.install({ table: "t", resource: "r" });
      const handle = await loose.arm(bearer(5), "a");
      const written = handle.write((tx) => tx.run("INSERT INTO t VALUES ('a')"));
      await expect(written).rejects.toThrow(/foreign_keys/);
      own.close();
    });
  });
});
