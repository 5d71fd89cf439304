/** What the server's catalog says of tables: which there are, and who can do what to them. */
import { ArgumentTypeError } from "../../core/errors.js";
import type { SqlTransaction } from "../sql-work.js";
import { ROW_TRIGGER, TRUNCATE_TRIGGER, type Relative } from "./guards.js";
import { quoteLiteral } from "../../dialects/postgres.js";

/** A table that was named. */
export interface FoundTable {
  readonly oid: string;
  readonly schema: string;
  readonly table: string;
}

const FIND = `SELECT c.oid::text AS oid, n.nspname AS schema, c.relname AS table,
  c.relkind::text AS kind, c.relpersistence::text AS persistence
  FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
  WHERE CASE WHEN $2::text IS NULL THEN c.relname = $1 AND pg_table_is_visible(c.oid)
    ELSE c.relname = $1 AND n.nspname = $2 END`;

/**
 * The table of a name, exact as the catalog has it: in the schema named, or the one that the search
 * path finds. A plain `schema.table` is understood too.
 *
 * @throws TypeError when there is none, or it is no ordinary or partitioned table.
 */
export async function findTable(
  transaction: SqlTransaction,
  table: string,
  schema: string | undefined,
  own: string,
): Promise<FoundTable> {
  const look = async (name: string, within: string | null) =>
    (await transaction.query(FIND, [name, within])).rows[0];
  let row = await look(table, schema ?? null);
  const parts = table.split(".");
  if (row === undefined && schema === undefined && parts.length === 2) {
    row = await look(parts[1] ?? "", parts[0] ?? "");
  }
  const isTable = ["r", "p"].includes(String(row?.["kind"])) && row?.["persistence"] !== "t";
  if (row === undefined || !isTable || row["schema"] === own || isSystem(row["schema"])) {
    const must = "an ordinary or partitioned table of this database";
    throw new ArgumentTypeError("table", schema === undefined ? table : `${schema}.${table}`, must);
  }
  return {
    oid: String(row["oid"]),
    schema: String(row["schema"]),
    table: String(row["table"]),
  };
}

function isSystem(schema: unknown): boolean {
  return /^(pg_|information_schema$)/.test(String(schema));
}

/**
 * Types whose text is the same in every session. A date, a float or a byte string is written as a
 * setting says: the same row would belong to one resource or to another.
 */
const STEADY_TYPE = `(t.typcategory IN ('S', 'E') OR t.oid::regtype::text IN
  ('smallint', 'integer', 'bigint', 'numeric', 'uuid', 'boolean', 'oid'))`;

/** @throws TypeError for a column that is not there, or of a type whose text varies. */
export async function checkColumn(
  transaction: SqlTransaction,
  { oid, schema, table }: FoundTable,
  column: string,
): Promise<void> {
  const { rows: [row] } = await transaction.query(
    `SELECT ${STEADY_TYPE} AS steady, format_type(a.atttypid, a.atttypmod) AS type
      FROM pg_attribute AS a JOIN pg_type AS b ON b.oid = a.atttypid
      JOIN pg_type AS t ON t.oid = CASE WHEN b.typtype = 'd' THEN b.typbasetype ELSE b.oid END
      WHERE a.attrelid = $1::oid AND a.attname = $2 AND a.attnum > 0 AND NOT a.attisdropped`,
    [oid, column],
  );
  if (row === undefined) {
    throw new ArgumentTypeError("resource", column, `a column of table ${schema}.${table}`);
  }
  if (row["steady"] !== true) {
    const must = `of a type with one text form (text, integer, uuid …), not ${String(row["type"])}`;
    throw new ArgumentTypeError("resource", column, must);
  }
}

/** A table of the family and its triggers, as far as they are of the fence. */
export interface FoundRelative extends Relative {
  readonly triggers: Readonly<Record<string, FoundTrigger>>;
}

/** A trigger of the fence. */
export interface FoundTrigger {
  /** `A` where it always fires. */
  readonly enabled: string;
  readonly type: number;
  /** Function as `schema.name`, without quotes. */
  readonly calls: string;
  readonly isPlain: boolean;
}

/** The table, its partitions and whoever inherits from it, the table itself first. */
export async function familyOf(transaction: SqlTransaction, oid: string): Promise<FoundRelative[]> {
  const { rows } = await transaction.query(
    `WITH RECURSIVE family (oid) AS (
        SELECT $1::oid UNION SELECT i.inhrelid FROM pg_inherits AS i JOIN family AS f
          ON f.oid = i.inhparent)
      SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS name,
        c.oid <> $1::oid AND c.relispartition AS partition, c.relkind <> 'f' AS local,
        (SELECT json_object_agg(t.tgname, json_build_object(
          'enabled', t.tgenabled, 'type', t.tgtype, 'calls', pn.nspname || '.' || p.proname,
          'isPlain', t.tgqual IS NULL AND t.tgattr::text = '' AND NOT t.tgdeferrable))
          FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid
          JOIN pg_namespace AS pn ON pn.oid = p.pronamespace
          WHERE t.tgrelid = c.oid
            AND t.tgname IN (${quoteLiteral(ROW_TRIGGER)}, ${quoteLiteral(TRUNCATE_TRIGGER)})
        )::text AS triggers
      FROM family AS f JOIN pg_class AS c ON c.oid = f.oid
      JOIN pg_namespace AS n ON n.oid = c.relnamespace
      ORDER BY c.oid <> $1::oid, name`,
    [oid],
  );
  return rows.map((row) => ({
    name: String(row["name"]),
    isPartition: row["partition"] === true,
    isLocal: row["local"] === true,
    triggers: JSON.parse(typeof row["triggers"] === "string" ? row["triggers"] : "{}") as
      Record<string, FoundTrigger>,
  }));
}

/** Who could get round the fence, by name. */
export interface Powers {
  readonly superusers: readonly string[];
  /** Of fenced tables and of the fence's own. */
  readonly owners: readonly string[];
  /** May write the fence's tables by hand. */
  readonly writers: readonly string[];
  /** May call `fence_bypass`. */
  readonly bypassers: readonly string[];
}

/** @throws what the driver throws. */
export async function powersOf(transaction: SqlTransaction, s: string): Promise<Powers> {
  const mark = quoteLiteral(`${s}.fence_mark`);
  const audit = quoteLiteral(`${s}.fence_audit`);
  const bypass = quoteLiteral(`${s}.fence_bypass(text)`);
  const { rows } = await transaction.query(
    `SELECT r.rolname AS role, r.rolsuper AS super,
      EXISTS (SELECT FROM pg_class AS c WHERE pg_has_role(r.oid, c.relowner, 'MEMBER')
        AND (c.oid IN (${mark}::regclass, ${audit}::regclass)
          OR c.oid IN (SELECT relation::oid FROM ${s}.fence_table))) AS owner,
      has_table_privilege(r.oid, ${mark}, 'INSERT, UPDATE')
        OR has_table_privilege(r.oid, ${audit}, 'INSERT, UPDATE') AS writer,
      has_function_privilege(r.oid, ${bypass}, 'EXECUTE') AS bypasser
      FROM pg_roles AS r WHERE r.rolname !~ '^pg_' ORDER BY r.rolname`,
  );
  const roles = (which: string): string[] =>
    rows
      .filter((row) => row[which] === true && (which === "super" || row["super"] !== true))
      .map((row) => String(row["role"]));
  return {
    superusers: roles("super"),
    owners: roles("owner"),
    writers: roles("writer"),
    bypassers: roles("bypasser"),
  };
}
