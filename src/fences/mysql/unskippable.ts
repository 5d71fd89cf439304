/** Puts tables under the fence, takes them from it, and says what is covered. */
import { ArgumentTypeError, GuaranteeError } from "../../core/errors.js";
import type { FenceAudit, FencedTable, InstallOptions } from "../sql-tables.js";
import type { Row, SqlTransaction } from "../sql-work.js";
import { guardSql, guardsOf, unguardSql, type GuardedTable } from "./guards.js";
import type { Marks } from "./marks.js";
import { BYTES, fromHex, quoteIdentifier, toHex } from "../../dialects/mysql.js";

const TYPES: readonly string[] = [
  "char", "varchar", "tinytext", "text", "mediumtext", "longtext", "tinyint", "smallint",
  "mediumint", "int", "bigint", "decimal", "uuid", "enum",
];

/**
 * Each trigger is a statement that commits by itself, on a table that is locked meanwhile. When one
 * fails, those that were made are removed.
 *
 * @throws TypeError for a missing table or column, a view, a table without transactions.
 */
export async function install(
  transaction: SqlTransaction,
  marks: Marks,
  options: InstallOptions,
): Promise<void> {
  const { table, schema } = await findTable(transaction, options);
  const { column, prefix } = await checkColumn(transaction, { schema, table }, options);
  const before = await fencedTables(transaction, marks);
  await transaction.query(
    `INSERT INTO ${marks.schema}tenure_fence_table
      (table_schema, table_name, resource_column, prefix) VALUES (?, ?, ?, ${BYTES})
      ON DUPLICATE KEY UPDATE resource_column = VALUES(resource_column), prefix = VALUES(prefix)`,
    [schema, table, column, toHex(prefix)],
  );
  const fenced = (await fencedTables(transaction, marks)).find(isTable(schema, table))!;
  const guards = guardsOf(await markTable(transaction, marks), fenced);
  const on = `${quoteIdentifier(schema)}.${quoteIdentifier(table)}`;
  await transaction.query(`LOCK TABLES ${on} WRITE`);
  try {
    for (const guard of guards) {
      await transaction.query(unguardSql(fenced, guard));
      await transaction.query(guardSql(fenced, guard));
    }
  } catch (error) {
    for (const guard of guards) await transaction.query(unguardSql(fenced, guard));
    await transaction.query("UNLOCK TABLES");
    await forget(transaction, marks, fenced.id);
    throw error;
  } finally {
    await transaction.query("UNLOCK TABLES");
  }
  const again = before.some(isTable(schema, table)) ? "again, " : "";
  const detail = `${again}by column ${column}, prefix ${prefix}`;
  await marks.audit(transaction, "install", `${schema}.${table}`, detail);
}

/** @throws TypeError when the table is not under the fence. */
export async function uninstall(
  transaction: SqlTransaction,
  marks: Marks,
  options: Pick<InstallOptions, "table" | "schema">,
): Promise<void> {
  const schema = options.schema ?? (await ownSchema(transaction));
  const entry = (await fencedTables(transaction, marks)).find(isTable(schema, options.table));
  if (entry === undefined) throw new ArgumentTypeError("table", options.table, "a fenced table");
  for (const guard of guardsOf(await markTable(transaction, marks), entry)) {
    await transaction.query(unguardSql(entry, guard));
  }
  await forget(transaction, marks, entry.id);
  await marks.audit(transaction, "uninstall", `${schema}.${options.table}`, "");
}

/** What is covered, what is not, and what gets round it. */
export async function audit(transaction: SqlTransaction, marks: Marks): Promise<FenceAudit> {
  const fenced = await fencedTables(transaction, marks);
  const tables: FencedTable[] = [];
  for (const entry of fenced) {
    const { schema, table, column, prefix } = entry;
    const faults = await faultsOf(transaction, marks, entry);
    tables.push({ schema, table, column, prefix, faults });
  }
  const { rows } = await transaction.query(
    `SELECT table_schema AS s, table_name AS t FROM information_schema.tables
      WHERE table_schema = DATABASE() AND table_type = 'BASE TABLE'
        AND table_name NOT LIKE 'tenure\\_%' ORDER BY table_name`,
  );
  const { rows: log } = await transaction.query(
    `SELECT DATE_FORMAT(at, '%Y-%m-%dT%H:%i:%s.%fZ') AS at, event, HEX(subject) AS subject,
      HEX(detail) AS detail, HEX(role) AS role FROM ${marks.schema}tenure_fence_audit ORDER BY id`,
  );
  return {
    tables,
    uncovered: rows
      .filter((row) => !fenced.some(isTable(String(row["s"]), String(row["t"]))))
      .map((row) => String(row["t"])),
    ways: WAYS,
    log: log.map((row) => ({
      at: String(row["at"]),
      event: String(row["event"]),
      subject: fromHex(row["subject"]),
      detail: fromHex(row["detail"]),
      role: fromHex(row["role"]),
    })),
  };
}

const WAYS: readonly string[] = [
  "TRUNCATE, DROP TABLE, CREATE OR REPLACE TABLE and ALTER TABLE, EXCHANGE PARTITION too, by " +
    "whoever has the right DROP or ALTER: no trigger fires",
  "foreign keys of a fenced table with CASCADE or SET NULL: no trigger fires for what they do " +
    "(each is a fault of its table)",
  "DROP TRIGGER by whoever has the right TRIGGER",
  "roles that may write tenure_fence_mark: a mark raised, or a proof written, by hand",
  "whoever may arm: a token that no lock store handed out is believed when it is armed",
  "a client that calls tenure_fence_write and commits without tenure_fence_done: its session " +
    "may write that resource for 30 s more, as long as nobody else arms",
  "replication: a replica applies rows without triggers; writes made on a replica are not " +
    "checked against its primary's marks",
  "restoring a backup, or a replica promoted without the last commits: older marks",
];

async function faultsOf(
  transaction: SqlTransaction,
  marks: Marks,
  entry: GuardedTable,
): Promise<string[]> {
  const { schema, table } = entry;
  try {
    const options = { schema, table, resource: entry.column };
    await checkColumn(transaction, await findTable(transaction, options), options);
  } catch (error) {
    if (!(error instanceof ArgumentTypeError) && !(error instanceof GuaranteeError)) throw error;
    return [`${error.message}: install again`];
  }
  const { rows } = await transaction.query(
    `SELECT trigger_name AS name, action_timing AS timing, event_manipulation AS event,
      action_statement AS body FROM information_schema.triggers
      WHERE event_object_schema = ? AND event_object_table = ?`,
    [schema, table],
  );
  const there = new Map(rows.map((row) => [String(row["name"]), row]));
  const faults = guardsOf(await markTable(transaction, marks), entry).flatMap((guard) => {
    const found = there.get(guard.name);
    if (found === undefined) return [`trigger ${guard.name} is missing: install again`];
    const same = found["event"] === guard.event && found["timing"] === "AFTER";
    return same && found["body"] === guard.body
      ? []
      : [`trigger ${guard.name} is not ours: install again`];
  });
  const { rows: keys } = await transaction.query(
    `SELECT constraint_name AS name FROM information_schema.referential_constraints
      WHERE constraint_schema = ? AND table_name = ?
        AND (delete_rule IN ('CASCADE', 'SET NULL') OR update_rule IN ('CASCADE', 'SET NULL'))`,
    [schema, table],
  );
  const cascades = keys.map(
    (row) => `foreign key ${String(row["name"])} changes rows without any trigger: use RESTRICT`,
  );
  return [...faults, ...cascades];
}

async function findTable(
  transaction: SqlTransaction,
  options: Pick<InstallOptions, "table" | "schema">,
): Promise<{ readonly schema: string; readonly table: string }> {
  const schema = options.schema ?? (await ownSchema(transaction));
  const { rows: [row] } = await transaction.query(
    `SELECT table_schema AS s, table_name AS t, engine, table_type AS type
      FROM information_schema.tables WHERE table_schema = ? AND table_name = ?`,
    [schema, options.table],
  );
  const name = String(row?.["t"]);
  if (row === undefined || row["type"] !== "BASE TABLE" || name.startsWith("tenure_fence_")) {
    throw new ArgumentTypeError("table", options.table, `an ordinary table of schema ${schema}`);
  }
  if (row["engine"] !== "InnoDB") {
    throw new GuaranteeError(
      `table ${name} cannot be fenced: its engine ${String(row["engine"])} has no transactions`,
      { backend: "mysql" },
    );
  }
  return { schema: String(row["s"]), table: name };
}

async function checkColumn(
  transaction: SqlTransaction,
  { schema, table }: { readonly schema: string; readonly table: string },
  options: Pick<InstallOptions, "resource" | "prefix">,
): Promise<{ readonly column: string; readonly prefix: string }> {
  const { rows: [row] } = await transaction.query(
    `SELECT column_name AS name, data_type AS type FROM information_schema.columns
      WHERE table_schema = ? AND table_name = ? AND column_name = ?`,
    [schema, table, options.resource],
  );
  if (row === undefined) {
    throw new ArgumentTypeError("resource", options.resource, `a column of table ${table}`);
  }
  if (!TYPES.includes(String(row["type"]))) {
    const must = `of a type with one text form (text, int, uuid …), not ${String(row["type"])}`;
    throw new ArgumentTypeError("resource", options.resource, must);
  }
  return { column: String(row["name"]), prefix: options.prefix ?? "" };
}

async function ownSchema(transaction: SqlTransaction): Promise<string> {
  const { rows: [row] } = await transaction.query("SELECT DATABASE() AS name");
  if (typeof row?.["name"] === "string") return row["name"];
  throw new ArgumentTypeError("schema", undefined, "named, since the connection has none");
}

/** The mark table with its schema: triggers run in the schema of their table. */
async function markTable(transaction: SqlTransaction, marks: Marks): Promise<string> {
  const own = marks.schema === "" ? `${quoteIdentifier(await ownSchema(transaction))}.` : "";
  return `${own}${marks.schema}tenure_fence_mark`;
}

async function fencedTables(
  transaction: SqlTransaction,
  marks: Marks,
): Promise<readonly GuardedTable[]> {
  const { rows } = await transaction.query(
    `SELECT id, table_schema, table_name, resource_column, HEX(prefix) AS prefix
      FROM ${marks.schema}tenure_fence_table ORDER BY id`,
  );
  return rows.map((row: Row) => ({
    id: Number(row["id"]),
    schema: String(row["table_schema"]),
    table: String(row["table_name"]),
    column: String(row["resource_column"]),
    prefix: fromHex(row["prefix"]),
  }));
}

function isTable(schema: string, table: string): (entry: GuardedTable) => boolean {
  return (entry) => entry.schema === schema && entry.table === table;
}

async function forget(transaction: SqlTransaction, marks: Marks, id: number): Promise<void> {
  await transaction.query(`DELETE FROM ${marks.schema}tenure_fence_table WHERE id = ?`, [id]);
}
