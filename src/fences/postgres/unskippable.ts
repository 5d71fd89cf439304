/** Puts tables under the fence, takes them from it, and says what is covered. */
import { ArgumentTypeError } from "../../core/errors.js";
import { checkColumn, familyOf, findTable, powersOf, type Powers } from "./catalog.js";
import type { AuditEntry, FenceAudit, FencedTable, InstallOptions } from "../sql-tables.js";
import type { SqlTransaction } from "../sql-work.js";
import {
  guardBody,
  guardName,
  guardSql,
  ROW_TRIGGER,
  ROW_TRIGGER_TYPE,
  TRUNCATE_TRIGGER,
  TRUNCATE_TRIGGER_TYPE,
  unguardSql,
  type GuardedTable,
} from "./guards.js";
import type { Marks } from "./marks.js";
import { IS_NOT_OWN } from "./own-tables.js";
import { setupLock } from "../../dialects/postgres.js";

/** What the steps here need. */
export interface Guarding {
  readonly marks: Marks;
  /** The fence's schema, as it is. */
  readonly schema: string;
}

/** @throws TypeError for a missing table or column, a view, a foreign or temporary table. */
export async function install(
  transaction: SqlTransaction,
  { marks, schema }: Guarding,
  options: InstallOptions,
): Promise<void> {
  const { table, resource, schema: within } = options;
  const prefix = options.prefix ?? "";
  const s = marks.schema;
  await transaction.query(`SELECT ${setupLock(schema)}`);
  const found = await findTable(transaction, table, within, schema);
  await checkColumn(transaction, found, resource);
  const { rows: [row] } = await transaction.query(
    `INSERT INTO ${s}.fence_table (relation, resource_column, prefix)
      VALUES ($1::oid::regclass, $2, $3) ON CONFLICT (relation)
      DO UPDATE SET resource_column = excluded.resource_column, prefix = excluded.prefix
      RETURNING id`,
    [found.oid, resource, prefix],
  );
  const guarded = { id: Number(row?.["id"]), column: resource, prefix };
  await transaction.query(guardSql(s, guarded, await familyOf(transaction, found.oid)));
  const subject = `${found.schema}.${found.table}`;
  await marks.audit(transaction, "install", subject, `by column ${resource}, prefix ${prefix}`);
}

/** @throws TypeError when the table is not under the fence. */
export async function uninstall(
  transaction: SqlTransaction,
  { marks, schema }: Guarding,
  options: Pick<InstallOptions, "table" | "schema">,
): Promise<void> {
  const s = marks.schema;
  await transaction.query(`SELECT ${setupLock(schema)}`);
  const entries = await fencedTables(transaction, s);
  const entry = entries.find(
    (one) =>
      options.table === `${one.schema}.${one.table}` ||
      (options.table === one.table && (options.schema ?? one.schema) === one.schema),
  );
  if (entry === undefined) throw new ArgumentTypeError("table", options.table, "a fenced table");
  const family = entry.isGone ? [] : await familyOf(transaction, entry.oid);
  await transaction.query(unguardSql(s, entry, family));
  await transaction.query(`DELETE FROM ${s}.fence_table WHERE id = $1`, [entry.id]);
  await marks.audit(transaction, "uninstall", `${entry.schema}.${entry.table}`, "");
}

/** What is covered, what is not, and what gets round it. */
export async function audit(transaction: SqlTransaction, { marks }: Guarding): Promise<FenceAudit> {
  const s = marks.schema;
  const tables: FencedTable[] = [];
  const covered = new Set<string>();
  for (const entry of await fencedTables(transaction, s)) {
    const { schema, table, column, prefix } = entry;
    const family = entry.isGone ? [] : await familyOf(transaction, entry.oid);
    for (const { name } of family) covered.add(name);
    const faults = entry.isGone
      ? ["the table is gone"]
      : [...(await faultsOf(transaction, s, entry)), ...triggerFaults(s, entry, family)];
    tables.push({ schema, table, column, prefix, faults });
  }
  const { rows } = await transaction.query(ALL_TABLES, [unquoted(s)]);
  const { rows: log } = await transaction.query(
    `SELECT to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS at, event, subject,
      detail, role FROM ${s}.fence_audit ORDER BY id`,
  );
  return {
    tables,
    uncovered: rows.map((row) => String(row["name"])).filter((name) => !covered.has(name)),
    ways: waysRound(await powersOf(transaction, s)),
    log: log as unknown as readonly AuditEntry[],
  };
}

const ALL_TABLES = `SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS name
  FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
  WHERE c.relkind IN ('r', 'p', 'f') AND c.relpersistence <> 't' AND n.nspname <> $1
    AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND ${IS_NOT_OWN} ORDER BY 1`;

function waysRound({ superusers, owners, writers, bypassers }: Powers): string[] {
  const named = (roles: readonly string[]): string => roles.join(", ") || "none";
  return [
    `superusers (${named(superusers)}), owners and their members (${named(owners)}): ALTER TABLE ` +
      "… DISABLE TRIGGER, DROP TRIGGER, DROP TABLE, replacing the fence's functions",
    "the same: ALTER TABLE … ATTACH or DETACH PARTITION, INHERIT, and ALTER COLUMN … TYPE … " +
      "USING change rows, or bring them in, without any trigger",
    `roles that may write the fence's tables (${named(writers)}): a mark raised, or a proof ` +
      "written, by hand",
    `roles that may call fence_bypass (${named(bypassers)}), on the record`,
    "whoever may arm: a token that no lock store handed out is believed when it is armed",
    "a TRUNCATE of a partition made since the table was fenced: install again",
    "rows of a partition that is a foreign table, on its own server",
    "restoring a backup, or a standby promoted without the last commits: older marks",
  ];
}

interface Entry extends GuardedTable {
  readonly oid: string;
  readonly schema: string;
  readonly table: string;
  readonly isGone: boolean;
}

async function fencedTables(transaction: SqlTransaction, s: string): Promise<readonly Entry[]> {
  const { rows } = await transaction.query(
    `SELECT f.id, f.relation::oid::text AS oid, coalesce(n.nspname, '') AS schema,
      coalesce(c.relname, f.relation::oid::text) AS table, f.resource_column, f.prefix
      FROM ${s}.fence_table AS f LEFT JOIN pg_class AS c ON c.oid = f.relation
      LEFT JOIN pg_namespace AS n ON n.oid = c.relnamespace ORDER BY f.id`,
  );
  return rows.map((row) => ({
    id: Number(row["id"]),
    oid: String(row["oid"]),
    schema: String(row["schema"]),
    table: String(row["table"]),
    isGone: row["schema"] === "",
    column: String(row["resource_column"]),
    prefix: String(row["prefix"]),
  }));
}

async function faultsOf(transaction: SqlTransaction, s: string, entry: Entry): Promise<string[]> {
  const faults: string[] = [];
  try {
    await checkColumn(transaction, entry, entry.column);
  } catch (error) {
    if (!(error instanceof ArgumentTypeError)) throw error;
    faults.push(`${error.message}: install again`);
  }
  const { rows: [row] } = await transaction.query(
    `SELECT p.prosrc = $3 AND p.prosecdef AS same FROM pg_proc AS p
      JOIN pg_namespace AS n ON n.oid = p.pronamespace WHERE n.nspname = $1 AND p.proname = $2`,
    [unquoted(s), guardName(entry), guardBody(s, entry)],
  );
  if (row?.["same"] !== true) {
    faults.push(`function ${guardName(entry)} is not ours: install again`);
  }
  return faults;
}

function triggerFaults(
  s: string,
  entry: Entry,
  family: Awaited<ReturnType<typeof familyOf>>,
): string[] {
  const schema = unquoted(s);
  const wanted = [
    [ROW_TRIGGER, ROW_TRIGGER_TYPE, `${schema}.${guardName(entry)}`],
    [TRUNCATE_TRIGGER, TRUNCATE_TRIGGER_TYPE, `${schema}.fence_guard_truncate`],
  ] as const;
  return family.flatMap((one) =>
    wanted.flatMap(([name, type, calls]) => {
      if (name === TRUNCATE_TRIGGER && !one.isLocal) return [];
      const found = one.triggers[name];
      const fault =
        found === undefined
          ? "is missing"
          : found.enabled !== "A"
            ? `is ${found.enabled === "D" ? "disabled" : "not always on"}`
            : found.type !== type || found.calls !== calls || !found.isPlain
              ? "is not ours"
              : undefined;
      return fault === undefined ? [] : [`trigger ${name} of ${one.name} ${fault}: install again`];
    }),
  );
}

function unquoted(s: string): string {
  return s.slice(1, -1).replaceAll('""', '"');
}
