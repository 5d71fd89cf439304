/**
 * The triggers that make a table's fence unskippable.
 *
 * Every row that is written needs proof of its resource: the new one of an INSERT, both of an
 * UPDATE, the old one of a DELETE. New rows are looked at after the write, when a generated key is
 * known. REPLACE deletes rows without firing the DELETE trigger (unless `recursive_triggers` is
 * on), so whatever a new row would replace is looked for before the write. A DELETE without WHERE
 * runs row by row once there is a trigger. Foreign-key actions fire triggers too.
 */
import { GuaranteeError } from "../../core/errors.js";
import type { Connection } from "./connection.js";

/** A table under the fence. */
export interface FencedTable {
  readonly table: string;
  /** Column that says to which resource a row belongs. */
  readonly column: string;
  /** Put before the column's text to make the resource's name. */
  readonly prefix: string;
}

/** A trigger by name, as `sqlite_master` has it. */
export interface Trigger {
  readonly name: string;
  readonly sql: string;
}

/** An SQL identifier. */
export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** An SQL text literal. */
export function quoteText(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** The triggers that a table needs, as its unique keys are now. */
export function triggersOf(connection: Connection, fenced: FencedTable): readonly Trigger[] {
  const { table, column } = fenced;
  const message = quoteText(
    `tenure: table ${table} is fenced by column ${column}: ` +
      `this transaction is not the armed holder's`,
  );
  const refuse = (when: string): string => `SELECT RAISE(ABORT, ${message}) WHERE ${when};`;
  const replaced = refuse(
    `EXISTS (SELECT 1 FROM ${quoteName(table)} AS there WHERE (${conflictOf(connection, table)})
    AND NOT ${proofOf("there", fenced)})`,
  );
  const newRow = refuse(`NOT ${proofOf("NEW", fenced)}`);
  const oldRow = refuse(`NOT ${proofOf("OLD", fenced)}`);
  const trigger = (when: string, event: string, body: string): Trigger => {
    const name = triggerName(when, event, table);
    const on = `${when} ${event} ON ${quoteName(table)}`;
    return { name, sql: `CREATE TRIGGER ${quoteName(name)} ${on} BEGIN\n  ${body}\nEND` };
  };
  return [
    trigger("BEFORE", "INSERT", replaced),
    trigger("AFTER", "INSERT", newRow),
    trigger("BEFORE", "UPDATE", `${oldRow}\n  ${replaced}`),
    trigger("AFTER", "UPDATE", newRow),
    trigger("BEFORE", "DELETE", oldRow),
  ];
}

/** Name of a trigger of the fence. */
export function triggerName(when: string, event: string, table: string): string {
  return `tenure_fence_${when.toLowerCase()}_${event.toLowerCase()}_${table}`;
}

function proofOf(row: string, { column, prefix }: FencedTable): string {
  const resource = `${quoteText(prefix)} || CAST(${row}.${quoteName(column)} AS TEXT)`;
  return `EXISTS (SELECT 1 FROM tenure_fence_proof AS proof
    LEFT JOIN tenure_fence_mark AS mark ON mark.resource = proof.resource
    WHERE proof.resource = ''
      OR proof.resource = (${resource}) COLLATE BINARY
        AND mark.token = proof.token AND mark.holder = proof.holder AND mark.arm = proof.arm)`;
}

/** Whether a row that is `there` has a unique key of the `NEW` one. */
function conflictOf(connection: Connection, table: string): string {
  const keys = uniqueKeys(connection, table);
  const conflicts = keys.map((key) =>
    key
      .map(({ name, coll }) => {
        const column = quoteName(name);
        return `there.${column} = NEW.${column} COLLATE ${quoteName(coll)}`;
      })
      .join(" AND "),
  );
  const rowid = rowidName(connection, table);
  if (rowid !== undefined) conflicts.unshift(`there.${rowid} = NEW.${rowid}`);
  return conflicts.map((conflict) => `(${conflict})`).join(" OR ") || "0";
}

interface KeyColumn {
  readonly name: string;
  readonly coll: string;
}

/** @throws GuaranteeError for a unique index whose conflicts cannot be found from here. */
function uniqueKeys(connection: Connection, table: string): readonly (readonly KeyColumn[])[] {
  interface Index {
    readonly name: string;
    readonly unique: bigint;
    readonly partial: bigint;
  }
  const indexes = rows<Index>(connection, `PRAGMA index_list(${quoteName(table)})`);
  return indexes
    .filter(({ unique }) => unique === 1n)
    .map(({ name, partial }) => {
      const parts = rows<{ name: string | null; coll: string; key: bigint }>(
        connection,
        `PRAGMA index_xinfo(${quoteName(name)})`,
      ).filter(({ key }) => key === 1n);
      return parts.map((part) => {
        if (part.name !== null && partial === 0n) return { name: part.name, coll: part.coll };
        throw new GuaranteeError(
          `table ${table} cannot be fenced: with its unique index ${name}, which is partial or ` +
            `on an expression, REPLACE could delete rows of other resources unseen`,
          { backend: "sqlite" },
        );
      });
    });
}

function hasRowid(connection: Connection, table: string): boolean {
  const [entry] = rows<{ wr: bigint }>(
    connection,
    `SELECT wr FROM pragma_table_list WHERE schema = 'main' AND name = ${quoteText(table)}`,
  );
  return entry?.wr === 0n;
}

/** The name by which the row id can be had, where there is one and columns have not hidden it. */
function rowidName(connection: Connection, table: string): string | undefined {
  if (!hasRowid(connection, table)) return undefined;
  const columns = rows<{ name: string }>(connection, `PRAGMA table_xinfo(${quoteName(table)})`);
  const taken = new Set(columns.map(({ name }) => name.toLowerCase()));
  return ["rowid", "_rowid_", "oid"].find((name) => !taken.has(name));
}

/** All rows of a query. */
export function rows<T>(connection: Connection, sql: string): readonly T[] {
  return connection.prepare(sql).all() as T[];
}
