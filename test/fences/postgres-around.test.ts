import { Pool } from "pg";
import { describe, expect, it } from "vitest";
import { schemaSql as leaseSql } from "../../src/backends/postgres/schema.js";
import { schemaSql as advisorySql } from "../../src/backends/postgres-advisory/schema.js";
import { CAS_TABLES } from "../../src/cas/tables.js";
import { CLAIM_TABLES } from "../../src/claims/tables.js";
import { ArgumentTypeError } from "../../src/core/errors.js";
import { fenceSchemaSql } from "../../src/fences/postgres/open.js";
import { IDEMPOTENCY_TABLES } from "../../src/idempotency/tables.js";
import { INBOX_TABLES } from "../../src/inbox/tables.js";
import { OUTBOX_TABLES } from "../../src/outbox/tables.js";
import { QUEUE_TABLES } from "../../src/queue/tables.js";
import { RESERVATION_TABLES } from "../../src/reservations/tables.js";
import { SCHEDULE_TABLES } from "../../src/schedule/tables.js";
import { tablesSql, type TablePlan } from "../../src/sql/tables.js";
import { describeOn } from "../servers/find.js";
import { postgresProgram } from "../servers/postgres.js";
import { bearer } from "./bearers.js";
import { accountsBench } from "./postgres-accounts.js";

/** Where Tenure has tables beside the fence's. */
const OWN = { schema: "tenure_elsewhere" };
const PLANS: readonly TablePlan[] = [
  ...[CAS_TABLES, CLAIM_TABLES, IDEMPOTENCY_TABLES, INBOX_TABLES, OUTBOX_TABLES, QUEUE_TABLES],
  ...[RESERVATION_TABLES, SCHEDULE_TABLES],
];
const REFUSED = /is fenced/;

describeOn(postgresProgram, "around the unskippable Postgres fence", () => {
  const bench = accountsBench();
  const { fenceSchema, accounts, write, all, refused } = bench;

  describe("ways in beside the table's own name", () => {
    it("foreign-key actions from a table that is not fenced", async () => {
      await bench.other.query(`CREATE TABLE bank (id integer PRIMARY KEY);
        CREATE TABLE account (owner text PRIMARY KEY,
          bank integer REFERENCES bank ON DELETE CASCADE ON UPDATE SET NULL);
        INSERT INTO bank VALUES (1)`);
      await bench.fence.install({ table: "account", resource: "owner" });
      await write("a", "INSERT INTO account VALUES ('a', 1)");
      await refused("DELETE FROM bank");
      await refused("UPDATE bank SET id = 2");
      await refused("TRUNCATE bank CASCADE");
      await write("a", "DELETE FROM bank");
      expect(await all("SELECT * FROM account")).toEqual([]);
    });

    it("views, rules, and triggers of the application", async () => {
      await accounts();
      await bench.other.query(`CREATE VIEW seen AS SELECT * FROM account;
        CREATE TABLE note (what text);
        CREATE RULE noted AS ON INSERT TO note DO ALSO UPDATE account SET balance = -1;
        CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN NEW.owner := 'b'; RETURN NEW; END $$;
        CREATE TRIGGER zz_touch BEFORE UPDATE OF code ON account
          FOR EACH ROW EXECUTE FUNCTION touch()`);
      await write("a", "INSERT INTO seen VALUES (1, 'a', 'x', 10)");
      await refused("UPDATE seen SET balance = 1");
      await refused("INSERT INTO note VALUES ('x')");
      // What the application's trigger makes of the row is what is checked.
      await expect(write("a", "UPDATE account SET code = 'y'")).rejects.toThrow(REFUSED);
      expect(await all("SELECT owner, balance FROM account")).toEqual([{ owner: "a", balance: 10 }]);
    });

    it("partitions, made before and after, and rows that move between them", async () => {
      await bench.other.query(`CREATE TABLE event (owner text, n integer) PARTITION BY LIST (n);
        CREATE TABLE event_1 PARTITION OF event FOR VALUES IN (1)`);
      await bench.fence.install({ table: "event", resource: "owner" });
      await bench.other.query("CREATE TABLE event_2 PARTITION OF event FOR VALUES IN (2)");
      await write("a", "INSERT INTO event VALUES ('a', 1)");
      await write("a", "UPDATE event SET n = 2");
      await write("a", "INSERT INTO event_1 VALUES ('a', 1)");
      for (const text of [
        "INSERT INTO event VALUES ('a', 1)", "INSERT INTO event_2 VALUES ('a', 2)",
        "UPDATE event SET n = 1", "DELETE FROM event_1", "DELETE FROM event_2", "TRUNCATE event",
        "TRUNCATE event_1", "SET session_replication_role = replica; DELETE FROM event_2",
      ]) {
        await refused(text);
      }
      const [faulty] = (await bench.fence.audit()).tables;
      expect(faulty?.faults).toEqual([
        expect.stringMatching(/tenure_fence_truncate of app\d+\.event_2 is missing/),
      ]);
      await bench.fence.install({ table: "event", resource: "owner" });
      expect((await bench.fence.audit()).tables[0]?.faults).toEqual([]);
      await refused("TRUNCATE event_2");
    });

    it("tables that inherit the old way", async () => {
      await bench.other.query("CREATE TABLE base (owner text); CREATE TABLE heir () INHERITS (base)");
      await bench.fence.install({ table: "base", resource: "owner" });
      await write("a", "INSERT INTO heir VALUES ('a')");
      for (const text of ["UPDATE base SET owner = 'a'", "DELETE FROM heir", "TRUNCATE heir"]) {
        await refused(text);
      }
    });

    it("session_replication_role, which turns other triggers off", async () => {
      await accounts();
      await write("a", "INSERT INTO account VALUES (1, 'a', 'x', 10)");
      await refused("SET session_replication_role = replica; DELETE FROM account");
      await refused("SET session_replication_role = replica; TRUNCATE account");
    });

    it("a role that has rights on the table and none on the fence", async () => {
      await accounts();
      await write("a", "INSERT INTO account VALUES (1, 'a', 'x', 10)");
      const role = `clerk${bench.count}`;
      await bench.server.query(`CREATE ROLE ${role} LOGIN`);
      await bench.other.query(`GRANT USAGE ON SCHEMA app${bench.count - 1} TO ${role};
        GRANT ALL ON account TO ${role}`);
      const clerk = new Pool({ connectionString: bench.server.urlFor(role) });
      const text = `UPDATE app${bench.count - 1}.account SET balance = 9`;
      await expect(clerk.query(text)).rejects.toMatchObject({ code: "TN010" });
      const forge = `UPDATE ${fenceSchema()}.fence_mark SET writer = pg_current_xact_id()`;
      await expect(clerk.query(forge)).rejects.toMatchObject({ code: "42501" });
      await bench.other.query(`GRANT USAGE ON SCHEMA ${fenceSchema()} TO ${role}`);
      const bypass = `SELECT ${fenceSchema()}.fence_bypass('mine')`;
      await expect(clerk.query(bypass)).rejects.toMatchObject({ code: "42501" });
      const client = await clerk.connect();
      await client.query("BEGIN");
      await client.query(`SELECT ${fenceSchema()}.fence_write('a', 5, 'h5', 1)`);
      await client.query(text);
      await client.query("COMMIT");
      client.release();
      await clerk.end();
    });
  });

  it("covers odd names of schemas, tables, columns and resources", async () => {
    const [table, column] = [`my "odd".ta'ble;--$tenure$`, `co"l 'umn $tenure$ \\`];
    const quoted = `"${table.replaceAll('"', '""')}"`;
    const col = `"${column.replaceAll('"', '""')}"`;
    await bench.other.query(`CREATE TABLE ${quoted} (${col} text PRIMARY KEY, "select" integer)`);
    await bench.fence.install({ table, resource: column, prefix: `it's\\` });
    const name = `o'br"ien; DROP TABLE x`;
    const handle = await bench.fence.arm(bearer(5), `it's\\${name}`);
    await handle.write((tx) => tx.query(`INSERT INTO ${quoted} VALUES ($1, 1)`, [name]));
    await refused(`UPDATE ${quoted} SET "select" = 2`);
    expect(await bench.fence.audit()).toMatchObject({ tables: [{ table, column, faults: [] }] });
    await bench.fence.uninstall({ table });
    await bench.other.query(`UPDATE ${quoted} SET "select" = 2`);
    expect((await bench.fence.audit()).tables).toEqual([]);
  });

  it.each([
    ["integer GENERATED ALWAYS AS IDENTITY", "DEFAULT", "1"],
    ["uuid", "'6F9619FF-8B86-D011-B42D-00C04FC964FF'", "6f9619ff-8b86-d011-b42d-00c04fc964ff"],
    ["varchar(10)", "'a'", "a"],
    ["numeric", "7.0", "7.0"],
    ["colour", "'red'", "red"],
    ["short", "'s'", "s"],
  ])("takes a column of type %s with a prefix as the resource", async (type, value, text) => {
    await bench.other.query(`CREATE TYPE colour AS ENUM ('red'); CREATE DOMAIN short AS text;
      CREATE TABLE item (id ${type} PRIMARY KEY, v integer)`);
    await bench.fence.install({ table: "item", resource: "id", prefix: "items/" });
    await write(`items/${text}`, `INSERT INTO item VALUES (${value}, 1)`);
    const strange = write("items/zz", `UPDATE item SET v = 2`);
    await expect(strange).rejects.toThrow(REFUSED);
    await write(`items/${text}`, "UPDATE item SET v = 2");
  });

  it("keeps marks from being deleted, replaced or lowered by anybody", async () => {
    await accounts();
    await write("a", "INSERT INTO account VALUES (1, 'a', 'x', 10)");
    const mark = `${fenceSchema()}.fence_mark`;
    for (const text of [
      `DELETE FROM ${mark}`,
      `TRUNCATE ${mark}`,
      `UPDATE ${mark} SET token = 4`,
      `UPDATE ${mark} SET holder = 'z'`,
      `UPDATE ${mark} SET n = 0`,
      `UPDATE ${mark} SET resource = 'b'`,
      `SET session_replication_role = replica; DELETE FROM ${mark}`,
    ]) {
      await expect(bench.other.query(text), text).rejects.toMatchObject({ code: "TN012" });
    }
    expect(await bench.fence.mark("a")).toMatchObject({ token: 5n, holder: "h5", n: 1 });
  });

  it("bypasses for one transaction, on the record", async () => {
    await accounts();
    await bench.fence.bypass("load of 2024", async (tx) => {
      await tx.query("TRUNCATE account");
      await tx.query("INSERT INTO account VALUES (1, 'a', 'x', 10), (2, 'b', 'y', 20)");
    });
    const failed = bench.fence.bypass("a mistake", async (tx) => {
      await tx.query("DELETE FROM account");
      throw new RangeError("no");
    });
    await expect(failed).rejects.toThrow(RangeError);
    await expect(bench.fence.bypass("", () => 1)).rejects.toMatchObject({ option: "reason" });
    await refused("DELETE FROM account");
    await expect(bench.pool.query("DELETE FROM account")).rejects.toThrow(REFUSED);
    expect(await all("SELECT count(*)::integer AS n FROM account")).toEqual([{ n: 2 }]);
    const { log } = await bench.fence.audit();
    expect(log).toMatchObject([
      { event: "install", subject: expect.stringMatching(/^app\d+\.account$/) as string },
      { event: "bypass", detail: "load of 2024", role: "postgres" },
    ]);
    expect(bench.events).toMatchObject([{ type: "bypassed", reason: "load of 2024" }]);
  });

  describe("audit", () => {
    const faults = async (): Promise<readonly string[] | undefined> =>
      (await bench.fence.audit()).tables[0]?.faults;

    it("tells what is covered, what is not, and what changed since", async () => {
      await accounts();
      await bench.other.query("CREATE TABLE cache (x integer)");
      // Those of Tenure are nobody else's, in whatever schema; those with their names may be.
      for (const plan of PLANS) await bench.other.query(tablesSql(plan, "postgres", OWN));
      await bench.other.query(leaseSql(OWN));
      await bench.other.query(advisorySql(OWN));
      await bench.other.query(fenceSchemaSql(OWN));
      await bench.other.query("CREATE TABLE lease (x integer)");
      // One pattern's tables are there, and the application's own under another's name.
      await bench.other.query(tablesSql(CAS_TABLES, "postgres", { schema: "beside" }));
      await bench.other.query("CREATE TABLE beside.reservation (id integer, held_until bigint)");
      const before = await bench.fence.audit();
      expect(before.uncovered.filter((name) => name.startsWith(OWN.schema))).toEqual([]);
      expect(before.uncovered).toContain(`app${bench.count - 1}.lease`);
      const beside = before.uncovered.filter((name) => name.startsWith("beside."));
      expect(beside).toEqual(["beside.reservation"]);
      expect(before.tables).toMatchObject([
        { table: "account", column: "owner", prefix: "", faults: [] },
      ]);
      const app = `app${bench.count - 1}`;
      expect(before.uncovered).toContain(`${app}.cache`);
      expect(before.uncovered).not.toContain(`${app}.account`);
      expect(before.ways.join("\n")).toContain("superusers (postgres)");

      await bench.other.query("ALTER TABLE account DISABLE TRIGGER tenure_fence_row");
      expect(await faults()).toEqual([expect.stringMatching(/tenure_fence_row .* is disabled/)]);
      await bench.other.query("ALTER TABLE account ENABLE TRIGGER tenure_fence_row");
      expect(await faults()).toEqual([expect.stringMatching(/is not always on/)]);
      await bench.other.query("DROP TRIGGER tenure_fence_truncate ON account");
      expect(await faults()).toContainEqual(expect.stringMatching(/truncate .* is missing/));
      await bench.other.query(`CREATE OR REPLACE FUNCTION ${fenceSchema()}.fence_guard_1()
        RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$`);
      expect(await faults()).toContainEqual(expect.stringMatching(/function .* is not ours/));
      await bench.fence.install({ table: "account", resource: "owner" });
      expect(await faults()).toEqual([]);

      await bench.other.query("ALTER TABLE account RENAME TO konto");
      expect((await bench.fence.audit()).tables).toMatchObject([{ table: "konto", faults: [] }]);
      await bench.other.query("ALTER TABLE konto RENAME COLUMN owner TO besitzer");
      expect(await faults()).toEqual([expect.stringMatching(/must be a column of table/)]);
      await bench.other.query("DROP TABLE konto");
      const [gone] = (await bench.fence.audit()).tables;
      expect(gone?.faults).toEqual(["the table is gone"]);
      await bench.fence.uninstall({ table: gone!.table });
      expect((await bench.fence.audit()).tables).toEqual([]);
    });

    it("names ways round that do work, for an owner", async () => {
      await accounts();
      await write("a", "INSERT INTO account VALUES (1, 'a', 'x', 10)");
      await bench.other.query("ALTER TABLE account ALTER balance TYPE bigint USING 99");
      await bench.other.query(`BEGIN; ALTER TABLE account DISABLE TRIGGER ALL;
        INSERT INTO account VALUES (2, 'a', 'y', 1);
        ALTER TABLE account ENABLE TRIGGER ALL; COMMIT`);
      await bench.other.query(`BEGIN;
        UPDATE ${fenceSchema()}.fence_mark SET writer = pg_current_xact_id(), written = now();
        INSERT INTO account VALUES (3, 'a', 'z', 1); COMMIT`);
      expect(await all("SELECT id, balance::integer FROM account ORDER BY id")).toEqual([
        { id: 1, balance: 99 },
        { id: 2, balance: 1 },
        { id: 3, balance: 1 },
      ]);
      await bench.other.query(`CREATE TABLE part (owner text) PARTITION BY LIST (owner);
        CREATE TABLE part_a (owner text); INSERT INTO part_a VALUES ('a')`);
      await bench.fence.install({ table: "part", resource: "owner" });
      await bench.other.query("ALTER TABLE part ATTACH PARTITION part_a FOR VALUES IN ('a')");
      await refused("DELETE FROM part_a");
      await bench.other.query("ALTER TABLE part DETACH PARTITION part_a; DELETE FROM part_a");
      const ways = (await bench.fence.audit()).ways.join("\n");
      for (const way of ["DISABLE TRIGGER", "ATTACH or DETACH", "USING", "by hand"]) {
        expect(ways).toContain(way);
      }
    });
  });

  it("refuses to install what it cannot cover, naming it, and leaves nothing behind", async () => {
    await bench.other.query(`CREATE TABLE t (r text, d date, f float8, b bytea);
      CREATE VIEW v AS SELECT * FROM t; CREATE MATERIALIZED VIEW m AS SELECT * FROM t`);
    const install = (table: string, resource = "r"): Promise<void> =>
      bench.fence.install({ table, resource });
    for (const table of ["nothing", "v", "m", "pg_class", "nowhere.t"]) {
      await expect(install(table), table).rejects.toMatchObject({ option: "table" });
    }
    for (const column of ["x", "d", "f", "b", "R", "ctid"]) {
      await expect(install("t", column), column).rejects.toMatchObject({ option: "resource" });
    }
    const mark = { schema: `Fence "${bench.count - 1}" 's`, table: "fence_mark", resource: "resource" };
    await expect(bench.fence.install(mark)).rejects.toThrow(ArgumentTypeError);
    await expect(install("")).rejects.toThrow(RangeError);
    expect(await bench.fence.audit()).toMatchObject({ tables: [], log: [] });
    await install(`app${bench.count - 1}.t`);
    await install("t");
    await expect(bench.fence.uninstall({ table: "nothing" })).rejects.toMatchObject({ option: "table" });
  });
});
