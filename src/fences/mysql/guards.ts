/**
 * The triggers that make a table's fence unskippable, as far as MySQL and MariaDB let them.
 *
 * Every row that is written needs proof of its resource: the new one of an INSERT, both of an
 * UPDATE, the old one of a DELETE; REPLACE is a DELETE and an INSERT. Rows are looked at after the
 * write, when other triggers and generated columns have had their say. IGNORE does not weaken them.
 * No trigger fires for what a foreign key does by itself, nor for TRUNCATE.
 */
import { hexLiteral, quoteIdentifier } from "../../dialects/mysql.js";
import { PROOF, UNPROVEN_STATE } from "./schema.js";

/** A table under the fence. */
export interface GuardedTable {
  /** Number in `tenure_fence_table`, after which its triggers are called. */
  readonly id: number;
  readonly schema: string;
  readonly table: string;
  readonly column: string;
  readonly prefix: string;
}

/** A trigger. */
export interface Guard {
  readonly name: string;
  readonly event: "INSERT" | "UPDATE" | "DELETE";
  /** The statement that is run for each row. */
  readonly body: string;
}

/** The triggers that a table needs. `marks`: the mark table as SQL. */
export function guardsOf(marks: string, table: GuardedTable): readonly Guard[] {
  const [gone, come] = [resourceOf(table, "OLD"), resourceOf(table, "NEW")];
  // A row that stays with its resource is looked at once.
  const moved = `
  IF NOT (${gone} <=> ${come}) THEN${check(marks, come)}
  END IF;`;
  const checks: Readonly<Record<Guard["event"], string>> = {
    INSERT: check(marks, come),
    UPDATE: check(marks, gone) + moved,
    DELETE: check(marks, gone),
  };
  return (["INSERT", "UPDATE", "DELETE"] as const).map((event) => ({
    name: `tenure_fence_${event.toLowerCase()}_${table.id}`,
    event,
    body: `BEGIN
  DECLARE found INT DEFAULT 0;
  DECLARE why VARCHAR(128) CHARACTER SET utf8mb4 DEFAULT ${whyOf(table)};${checks[event]}
END`,
  }));
}

/** SQL of the resource that a row belongs to, byte by byte. */
function resourceOf({ column, prefix }: GuardedTable, row: string): string {
  const value = `${row}.${quoteIdentifier(column)}`;
  return `CONCAT(${hexLiteral(prefix)}, CAST(CONVERT(${value} USING utf8mb4) AS BINARY))`;
}

function check(marks: string, resource: string): string {
  return `
  SET found = 0;
  IF ${PROOF} IS NOT NULL THEN
    SELECT COUNT(*) INTO found FROM ${marks}
    WHERE resource IN (X'', ${resource}) AND writer = ${PROOF} AND connection = CONNECTION_ID()
      AND (until IS NULL OR until > UTC_TIMESTAMP(6))
    LOCK IN SHARE MODE;
  END IF;
  IF found = 0 THEN
    SIGNAL SQLSTATE '${UNPROVEN_STATE}' SET MESSAGE_TEXT = why;
  END IF;`;
}

/** The message, whose length the server limits. */
function whyOf({ table }: GuardedTable): string {
  const message = `tenure: table ${table} is fenced: this transaction is not the armed holder's`;
  return `CONVERT(${hexLiteral([...message].slice(0, 128).join(""))} USING utf8mb4)`;
}

/** Statement that makes a trigger. */
export function guardSql({ schema, table }: GuardedTable, { name, event, body }: Guard): string {
  const s = quoteIdentifier(schema);
  return `CREATE TRIGGER ${s}.${name} AFTER ${event} ON ${s}.${quoteIdentifier(table)}
FOR EACH ROW ${body}`;
}

/** Statement that removes it, where it is there. */
export function unguardSql({ schema }: GuardedTable, { name }: Guard): string {
  return `DROP TRIGGER IF EXISTS ${quoteIdentifier(schema)}.${name}`;
}
