/** Puts tables under the fence, takes them from it, and says what is covered. */
import { ArgumentTypeError } from "../../core/errors.js";
import { checkName } from "../../core/names.js";
import type { Connection } from "./connection.js";
import { foreignKeysOff, type Marks } from "./marks.js";
import { quoteName, quoteText, rows, triggerName, triggersOf, type FencedTable } from "./triggers.js";

/** Which table to fence, and how its rows say to which resource they belong. */
export interface InstallOptions {
  readonly table: string;
  /** Column with the resource's name, or with the part of it after `prefix`. */
  readonly resource: string;
  /** Default none: the column's text is the whole name. */
  readonly prefix?: string;
}

/** What `audit` says of a file. */
export interface FenceAudit {
  /** Tables under the fence. Covered as long as `faults` is empty. */
  readonly tables: readonly (FencedTable & { readonly faults: readonly string[] })[];
  /** Tables of the file that anybody may write. */
  readonly uncovered: readonly string[];
  /** What can still get round the fence, here and now. */
  readonly ways: readonly string[];
  /** Rebases, bypasses, installations, oldest first. */
  readonly log: readonly AuditEntry[];
}

/** One entry of the audit log. */
export interface AuditEntry {
  /** UTC, by the clock of the machine that did it. */
  readonly at: string;
  readonly event: string;
  readonly subject: string;
  readonly detail: string;
}

/** @throws TypeError for wrong options, a missing table or column, a view, a virtual table. */
export function install(connection: Connection, marks: Marks, options: InstallOptions): void {
  const fenced = check(connection, options);
  drop(connection, fenced.table);
  for (const { sql } of triggersOf(connection, fenced)) connection.exec(sql);
  connection
    .prepare("INSERT INTO main.tenure_fence_table (name, resource_column, prefix) VALUES (?, ?, ?)")
    .run(fenced.table, fenced.column, fenced.prefix);
  marks.audit("install", fenced.table, `by column ${fenced.column}, prefix ${fenced.prefix}`);
}

/** @throws TypeError when the table is not under the fence. */
export function uninstall(connection: Connection, marks: Marks, table: string): void {
  const name = tableName(connection, table);
  if (!drop(connection, name)) throw new ArgumentTypeError("table", table, "a fenced table");
  marks.audit("uninstall", name, "");
}

/** What is covered, what is not, and what gets round it. */
export function audit(connection: Connection): FenceAudit {
  const fenced = fencedTables(connection);
  const names = new Set(fenced.map(({ table }) => table));
  return {
    tables: fenced.map((table) => ({ ...table, faults: faultsOf(connection, table) })),
    uncovered: tables(connection)
      .map(({ name }) => name)
      .filter((name) => !names.has(name)),
    ways: WAYS,
    log: rows<AuditEntry>(
      connection,
      "SELECT at, event, subject, detail FROM main.tenure_fence_audit ORDER BY id",
    ),
  };
}

const WAYS: readonly string[] = [
  "DROP TRIGGER, DROP TABLE and ALTER TABLE by anyone who can write the file",
  "a connection that turns triggers off (SQLITE_DBCONFIG_ENABLE_TRIGGER, or .dbconfig in sqlite3)",
  "a transaction that writes a proof by hand, copied from the mark, and deletes it again",
  "writable_schema, incremental blob writes, restoring or replacing the file",
  "unique indexes made after the table was fenced, for REPLACE only: install again",
];

function check(connection: Connection, options: InstallOptions): FencedTable {
  const table = tableName(connection, options.table);
  const found = tables(connection).find(({ name }) => name === table);
  if (found === undefined || found.type !== "table") {
    throw new ArgumentTypeError("table", options.table, "an ordinary table of the main database");
  }
  const wanted = checkName(options.resource, "resource").toLowerCase();
  const columns = rows<{ name: string }>(connection, `PRAGMA table_xinfo(${quoteName(table)})`);
  const column = columns.find(({ name }) => name.toLowerCase() === wanted)?.name;
  if (column === undefined) {
    throw new ArgumentTypeError("resource", options.resource, `a column of table ${table}`);
  }
  const prefix = options.prefix ?? "";
  if (prefix !== "") checkName(prefix, "prefix");
  const [setting] = rows<{ foreign_keys: bigint }>(connection, "PRAGMA foreign_keys");
  if (setting?.foreign_keys !== 1n) throw foreignKeysOff();
  return { table, column, prefix };
}

/** A table's name as SQLite has it: names differ in case only for us. */
function tableName(connection: Connection, table: string): string {
  const wanted = checkName(table, "table").toLowerCase();
  return tables(connection).find(({ name }) => name.toLowerCase() === wanted)?.name ?? table;
}

function tables(connection: Connection): readonly { name: string; type: string }[] {
  return rows<{ name: string; type: string }>(
    connection,
    `SELECT name, type FROM pragma_table_list WHERE schema = 'main' AND type <> 'shadow'
      AND type <> 'view' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
      AND name NOT LIKE 'tenure\\_%' ESCAPE '\\' ORDER BY name`,
  );
}

function fencedTables(connection: Connection): readonly FencedTable[] {
  return rows<FencedTable>(
    connection,
    `SELECT name AS "table", resource_column AS "column", prefix
      FROM main.tenure_fence_table ORDER BY name`,
  );
}

function faultsOf(connection: Connection, fenced: FencedTable): readonly string[] {
  const there = new Map(
    rows<{ name: string; sql: string; tbl_name: string }>(
      connection,
      "SELECT name, sql, tbl_name FROM main.sqlite_master WHERE type = 'trigger'",
    ).map((trigger) => [trigger.name, trigger]),
  );
  if (!tables(connection).some(({ name }) => name === fenced.table)) {
    return ["the table is gone or renamed"];
  }
  let wanted;
  try {
    wanted = triggersOf(connection, fenced);
  } catch (error) {
    return [(error as Error).message];
  }
  return wanted.flatMap(({ name, sql }) => {
    const found = there.get(name);
    if (found === undefined) return [`trigger ${name} is missing: install again`];
    return found.sql === sql ? [] : [`trigger ${name} is not up to date: install again`];
  });
}

/** Removes the triggers of a table; whether it was under the fence. */
function drop(connection: Connection, table: string): boolean {
  for (const when of ["before", "after"]) {
    for (const event of ["insert", "update", "delete"]) {
      const name = triggerName(when, event, table);
      connection.exec(`DROP TRIGGER IF EXISTS main.${quoteName(name)}`);
    }
  }
  const sql = `DELETE FROM main.tenure_fence_table WHERE name = ${quoteText(table)}`;
  return Number(connection.prepare(sql).run().changes) > 0;
}
