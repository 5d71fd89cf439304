/**
 * The triggers that make a table's fence unskippable.
 *
 * Every row that is written needs proof of its resource: the new one of an INSERT, both of an
 * UPDATE, the old one of a DELETE. Rows are looked at after the write, when other triggers and
 * generated columns have had their say. The triggers fire ALWAYS, so that no setting of a session
 * turns them off. Partitions have them by inheritance, also those made later; only TRUNCATE of a
 * partition by its own name has to be guarded on each, and tables that inherit the old way.
 */
import { AS_OWNER, UNPROVEN_STATE } from "./schema.js";
import { quoteIdentifier, quoteLiteral } from "../../dialects/postgres.js";

/** A table under the fence, as the server knows it. */
export interface GuardedTable {
  /** Number of the table in `fence_table`, after which its function is called. */
  readonly id: number;
  readonly column: string;
  readonly prefix: string;
}

/** A table of the family: the fenced one, its partitions, and whoever inherits from it. */
export interface Relative {
  /** As SQL. */
  readonly name: string;
  /** Whether it gets row triggers from its parent. */
  readonly isPartition: boolean;
  /** Whether it can be truncated: a foreign table has its own server. */
  readonly isLocal: boolean;
}

/** Triggers by name, with what `pg_trigger.tgtype` says of them. */
export const ROW_TRIGGER = "tenure_fence_row";
/** AFTER, of each row: INSERT, UPDATE, DELETE. */
export const ROW_TRIGGER_TYPE = 29;
export const TRUNCATE_TRIGGER = "tenure_fence_truncate";
/** BEFORE, of the statement: TRUNCATE. */
export const TRUNCATE_TRIGGER_TYPE = 34;

/** Name of the function that looks at the rows of a table. */
export function guardName({ id }: GuardedTable): string {
  return `fence_guard_${id}`;
}

/** Body of that function. */
export function guardBody(s: string, { column, prefix }: GuardedTable): string {
  const resource = (row: string): string =>
    `${quoteLiteral(prefix)} || ${row}.${quoteIdentifier(column)}::text`;
  const check = (variable: string): string => `
    IF NOT EXISTS (SELECT FROM ${s}.fence_mark AS m
      WHERE m.resource = ${variable} AND m.writer = mine AND m.written = now())
    AND NOT EXISTS (SELECT FROM ${s}.fence_audit AS a WHERE a.bypass = mine AND a.at = now())
    THEN
      RAISE EXCEPTION USING
        ERRCODE = '${UNPROVEN_STATE}', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
        COLUMN = ${quoteLiteral(column)},
        MESSAGE = format('tenure: table %s is fenced by column %I: this transaction is not the '
          'armed holder''s', TG_RELID::regclass, ${quoteLiteral(column)}),
        DETAIL = format('%s of a row of resource %s.', TG_OP, coalesce(${variable}, 'null')),
        HINT = 'Write through the fence, or begin with ${s.replaceAll("'", "''")}.fence_write(…).';
    END IF;`;
  return `
DECLARE
  mine xid8 := pg_current_xact_id();
  gone text COLLATE "C";
  come text COLLATE "C";
BEGIN
  IF TG_OP <> 'INSERT' THEN
    gone := ${resource("OLD")};${check("gone")}
  END IF;
  IF TG_OP <> 'DELETE' THEN
    come := ${resource("NEW")};
    IF TG_OP = 'UPDATE' AND come = gone THEN
      RETURN NULL;
    END IF;${check("come")}
  END IF;
  RETURN NULL;
END
`;
}

/** Makes the function and the triggers, in place of those that are there. */
export function guardSql(s: string, table: GuardedTable, family: readonly Relative[]): string {
  const name = `${s}.${guardName(table)}`;
  const trigger = (on: string, trigger: string, what: string): string => `
DROP TRIGGER IF EXISTS ${trigger} ON ${on};
CREATE TRIGGER ${trigger} ${what};`;
  const always = (on: string, trigger: string): string => `
ALTER TABLE ONLY ${on} ENABLE ALWAYS TRIGGER ${trigger};`;
  const local = family.filter(({ isLocal }) => isLocal);
  return [
    `CREATE OR REPLACE FUNCTION ${name}() RETURNS trigger LANGUAGE plpgsql ${AS_OWNER}
AS ${quoteLiteral(guardBody(s, table))};`,
    ...family
      .filter(({ isPartition }) => !isPartition)
      .map((one) =>
        trigger(
          one.name,
          ROW_TRIGGER,
          `AFTER INSERT OR UPDATE OR DELETE ON ${one.name} FOR EACH ROW EXECUTE FUNCTION ${name}()`,
        ),
      ),
    ...family.map((one) => always(one.name, ROW_TRIGGER)),
    ...local.map(
      (one) =>
        trigger(
          one.name,
          TRUNCATE_TRIGGER,
          `BEFORE TRUNCATE ON ${one.name} FOR EACH STATEMENT
  EXECUTE FUNCTION ${s}.fence_guard_truncate()`,
        ) + always(one.name, TRUNCATE_TRIGGER),
    ),
  ].join("");
}

/** Removes the triggers and the function. */
export function unguardSql(s: string, table: GuardedTable, family: readonly Relative[]): string {
  const drop = (trigger: string, { name }: Relative): string =>
    `DROP TRIGGER IF EXISTS ${trigger} ON ${name};\n`;
  return [
    ...family.filter(({ isPartition }) => !isPartition).map((one) => drop(ROW_TRIGGER, one)),
    ...family.map((one) => drop(TRUNCATE_TRIGGER, one)),
    `DROP FUNCTION IF EXISTS ${s}.${guardName(table)}();`,
  ].join("");
}
