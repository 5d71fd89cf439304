/**
 * The tables of a pattern: said once, made on every dialect, by whoever comes first.
 *
 * Each pattern has tables of its own with a version of their own, so that two releases can share a
 * database as long as neither needs what the other lacks. `tenure_pattern` keeps the version of
 * each and its store's id, which is the scope of tokens that the pattern hands out.
 */
import { ArgumentTypeError } from "../core/errors.js";
import { insertNew, type Script, type SqlRow } from "./script.js";
import { textOf, numberOf } from "./reading.js";
import {
  byDialect,
  forUpdate,
  list,
  own,
  quote,
  raw,
  render,
  sql,
  type Dialect,
  type Sql,
  type SqlPiece,
} from "./statement.js";

/** Types of columns. `key` is compared byte by byte, and holds 512 bytes. */
export const column: Readonly<
  Record<"key" | "text" | "integer" | "serial" | "order" | "onlyKey", SqlPiece>
> = {
  key: typed("TEXT", 'text COLLATE "C"', "VARBINARY(512)"),
  text: typed("TEXT", "text", "LONGBLOB"),
  integer: typed("INTEGER", "bigint", "BIGINT"),
  /** A primary key that counts; gaps are normal, and so is an order other than of commits. */
  serial: typed(
    "INTEGER PRIMARY KEY AUTOINCREMENT",
    "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "BIGINT AUTO_INCREMENT PRIMARY KEY",
  ),
  /**
   * Counts as `serial` does, for a table whose rows are not removed: SQLite need not remember the
   * highest, and Postgres no index. Beside it stands one `onlyKey`.
   */
  order: typed(
    "INTEGER PRIMARY KEY",
    "bigint GENERATED ALWAYS AS IDENTITY",
    "BIGINT AUTO_INCREMENT PRIMARY KEY",
  ),
  onlyKey: typed(
    "TEXT NOT NULL UNIQUE",
    'text COLLATE "C" PRIMARY KEY',
    "VARBINARY(512) NOT NULL UNIQUE",
  ),
};

function typed(sqlite: string, postgres: string, mysql: string): SqlPiece {
  return byDialect({ sqlite: raw(sqlite), postgres: raw(postgres), mysql: raw(mysql) });
}

/** One table. */
export interface TableShape {
  /** What stands between the parentheses of CREATE TABLE. No column may be named `key`. */
  readonly columns: Sql;
  /** Each further index by its name, which must begin with the table's: its columns, or more. */
  readonly indexes?: Readonly<Record<string, string | PartialIndex>>;
  /** On SQLite the rows stand in the primary key itself: one page less to be written for each. */
  readonly isInKey?: true;
}

/** An index of some rows alone, which the others need not be written to; MySQL has all in it. */
export interface PartialIndex {
  readonly on: string;
  /** A condition that stands in the queries, too, word for word. */
  readonly where: string;
}

/** All tables of a pattern, by name without prefix. */
export interface TablePlan {
  /** Name of the pattern, as its package entry has it. */
  readonly pattern: string;
  /** To be raised with every change; statements must then bring old tables up to date. */
  readonly version: number;
  readonly tables: Readonly<Record<string, TableShape>>;
}

const META: TableShape = {
  columns: sql`pattern ${column.key} NOT NULL PRIMARY KEY, version ${column.integer} NOT NULL,
    store_id ${column.text} NOT NULL`,
};
const CLOCK: TableShape = {
  columns: sql`boot TEXT NOT NULL, clock TEXT NOT NULL, offset_ms INTEGER NOT NULL,
    PRIMARY KEY (boot, clock)`,
};

/** Statements that make what is missing; they do nothing wrong when they run again. */
function tableStatements(plan: TablePlan, dialect: Dialect): readonly Sql[] {
  const shared: [string, TableShape][] = [["pattern", META]];
  if (dialect === "sqlite") shared.push(["clock", CLOCK]);
  const all = [...shared, ...Object.entries(plan.tables)];
  return all.flatMap(([name, shape]) => makeTable(name, shape, dialect));
}

function makeTable(name: string, shape: TableShape, dialect: Dialect): Sql[] {
  const { columns, indexes = {}, isInKey = false } = shape;
  const named = Object.entries(indexes).map(([index, rows]) => ({
    index,
    ...(typeof rows === "string" ? { on: rows, where: undefined } : rows),
  }));
  const head = sql`CREATE TABLE IF NOT EXISTS ${own(name)} (${columns}`;
  if (dialect === "mysql") {
    // MySQL has no CREATE INDEX IF NOT EXISTS.
    const inside = named.map(({ index, on }) => raw(`, INDEX ${quote(index, dialect)} (${on})`));
    return [sql`${head}${list(inside, "")}) ENGINE=InnoDB`];
  }
  const beside = named.map(({ index, on, where }) => {
    const full = dialect === "sqlite" ? `tenure_${index}` : index;
    const create = raw(`CREATE INDEX IF NOT EXISTS ${quote(full, dialect)} ON `);
    const some = raw(where === undefined ? "" : ` WHERE ${where}`);
    return sql`${create}${own(name)} (${raw(on)})${some}`;
  });
  const kind = raw(dialect === "sqlite" && isInKey ? " WITHOUT ROWID" : "");
  return [sql`${head})${kind}`, ...beside];
}

/** What is known of a pattern's tables. */
export interface FoundTables {
  readonly version: number;
  readonly storeId: string;
}

/** What is there; null where the tables were never made. */
export function* findTables(plan: TablePlan): Script<FoundTables | null> {
  const [there] = yield sql`SELECT ${tableExists("pattern")} AS there`;
  if (!isTrue(there)) return null;
  const [row] = yield sql`SELECT version, store_id FROM ${own("pattern")}
    WHERE pattern = ${plan.pattern}`;
  if (row === undefined) return null;
  return { version: numberOf(row["version"]), storeId: textOf(row["store_id"]) };
}

/** Makes them, or brings them up to date. Any number of processes may do this at once. */
export function* makeTables(plan: TablePlan, dialect: Dialect, storeId: string): Script<void> {
  if (dialect === "postgres") yield* startPostgres();
  for (const statement of tableStatements(plan, dialect)) yield statement;
  const { pattern, version } = plan;
  yield* insertNew(sql`INSERT INTO ${own("pattern")} (pattern, version, store_id)
    VALUES (${pattern}, ${version}, ${storeId})`);
  yield sql`UPDATE ${own("pattern")} SET version = ${version}
    WHERE pattern = ${pattern} AND version < ${version}`;
}

function* startPostgres(): Script<void> {
  // Two that make the same table at once would both find it missing, and one would fail.
  yield sql`SELECT pg_advisory_xact_lock(hashtextextended(${"tenure patterns"}, 0))`;
  const [row] = yield sql`SELECT CASE WHEN to_regnamespace(quote_ident(${schemaName})) IS NULL
    THEN 0 ELSE 1 END AS there`;
  // IF NOT EXISTS would want the right to make schemas even where there is nothing to make.
  if (!isTrue(row)) yield sql`CREATE SCHEMA IF NOT EXISTS ${schemaIdentifier}`;
}

const schemaName: SqlPiece = {
  write: (to) => to.bind(to.schema ?? "tenure", "CAST(", " AS text)"),
};
const schemaIdentifier: SqlPiece = {
  write: (to) => to.add(quote(to.schema ?? "tenure", to.dialect)),
};

/** 1 where a table of ours exists, else 0. */
function tableExists(table: string): SqlPiece {
  const mysqlSchema: SqlPiece = {
    write: (to) => (to.schema === undefined ? to.add("DATABASE()") : to.bind(to.schema)),
  };
  const found = sql`CASE WHEN EXISTS (SELECT 1 FROM information_schema.tables WHERE`;
  return byDialect({
    sqlite: sql`EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table'
      AND name = ${`tenure_${table}`})`,
    postgres: sql`CASE WHEN to_regclass(quote_ident(${schemaName}) || ${`.${table}`}) IS NULL
      THEN 0 ELSE 1 END`,
    mysql: sql`${found} table_schema = ${mysqlSchema} AND table_name = ${raw(`'tenure_${table}'`)})
      THEN 1 ELSE 0 END`,
  });
}

function isTrue(row: SqlRow | undefined): boolean {
  return row !== undefined && numberOf(row["there"]) === 1;
}

/** The offset of the machine's clock for one boot; see `sqlite-clock.ts`. */
export function* anchorClock(boot: string, clock: string, offsetMs: number): Script<number> {
  const row = sql`SELECT offset_ms FROM ${own("clock")} WHERE boot = ${boot} AND clock = ${clock}
    ${forUpdate}`;
  const [found] = yield row;
  if (found !== undefined) return numberOf(found["offset_ms"]);
  yield sql`DELETE FROM ${own("clock")} WHERE boot <> ${boot}`;
  yield sql`INSERT INTO ${own("clock")} (boot, clock, offset_ms)
    VALUES (${boot}, ${clock}, ${offsetMs})`;
  return offsetMs;
}

/** Names that every server takes as they are, and none keeps for itself. */
const SCHEMA = /^(?!pg_)[A-Za-z_][A-Za-z0-9_-]{0,62}$/;

/** A schema's name as given. @throws TypeError for one that not every server has. */
export function checkSchema(schema: unknown): void {
  if (typeof schema === "string" && SCHEMA.test(schema)) return;
  const must = "a name of at most 63 letters, digits, _ and -, that begins with a letter or _";
  throw new ArgumentTypeError("schema", schema, must);
}

/** Where a pattern's tables go. */
export interface TableSqlOptions {
  /** Schema for the tables. Default: `tenure` on Postgres, the connection's own elsewhere. */
  readonly schema?: string;
}

/**
 * The SQL that makes a pattern's tables, as opening does; it does nothing wrong when it runs again.
 * For those who make tables by hand, and then open with `migrate: false`.
 *
 * @throws TypeError for a schema's name that not every server has, or any on SQLite.
 */
export function tablesSql(
  plan: TablePlan,
  dialect: Dialect,
  options: TableSqlOptions = {},
): string {
  const { schema } = options;
  if (schema !== undefined) checkSchema(schema);
  if (schema !== undefined && dialect === "sqlite") {
    throw new ArgumentTypeError("schema", schema, "left out on SQLite");
  }
  const rendering = { dialect, schema, nowMs: () => 0n };
  const text = (statement: Sql): string => `${render(statement, rendering).text};`;
  const making = tableStatements(plan, dialect).map(text);
  const ids = { sqlite: "lower(hex(randomblob(16)))", postgres: "gen_random_uuid()::text" };
  const id = dialect === "mysql" ? "uuid()" : ids[dialect];
  const values = `VALUES ('${plan.pattern}', ${plan.version}, ${id})`;
  const insert = text(sql`INSERT ${raw(dialect === "mysql" ? "IGNORE " : "")}INTO ${own("pattern")}
  (pattern, version, store_id) ${raw(values)}${raw(
    dialect === "mysql" ? "" : " ON CONFLICT (pattern) DO NOTHING",
  )}`);
  const before =
    dialect === "postgres"
      ? ["BEGIN;", text(sql`CREATE SCHEMA IF NOT EXISTS ${schemaIdentifier}`)]
      : [];
  const after = dialect === "postgres" ? ["COMMIT;"] : [];
  const head = `-- Tables of Tenure's ${plan.pattern}, version ${plan.version}. Safe to run again.`;
  return `${[head, ...before, ...making, insert, ...after].join("\n")}\n`;
}
