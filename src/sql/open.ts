/** Opens the store of a pattern: by URL, or over a client of the caller's. */
import { parseDuration } from "../core/duration.js";
import { ArgumentRangeError, ArgumentTypeError } from "../core/errors.js";
import { checkObject } from "../core/options.js";
import type { Runtime } from "../core/runtime.js";
import { transactionTexts, type TransactionTexts } from "../dialects/mysql.js";
import { transactionGuard } from "../dialects/postgres.js";
import type { MysqlPool } from "../drivers/mysql/client.js";
import type { MysqlDatabase } from "../drivers/mysql/database.js";
import * as mysqlErrors from "../drivers/mysql/errors.js";
import { adoptMysql, openMysql } from "../drivers/mysql/open.js";
import type { PgPool, PostgresSql } from "../drivers/postgres/client.js";
import type { PostgresDatabase } from "../drivers/postgres/database.js";
import * as postgresErrors from "../drivers/postgres/errors.js";
import { runKept } from "../drivers/postgres/kept.js";
import { adoptPostgres, openPostgres } from "../drivers/postgres/open.js";
import type { UserSqliteDatabase } from "../drivers/sqlite/database.js";
import { explainSqlite, isBusy } from "../drivers/sqlite/errors.js";
import { adoptSqlite, openSqlite } from "../drivers/sqlite/open.js";
import { FilePlace } from "../drivers/sqlite/place.js";
import { platform } from "../platform/index.js";
import { machine } from "../platform/machine.js";
import { prepare } from "./preparation.js";
import type { ServerDialect } from "./server-scripts.js";
import { ServerStore, type ServerParts } from "./server-store.js";
import { sqliteClock } from "./sqlite-clock.js";
import { SqliteStore } from "./sqlite-store.js";
import type { SqliteConnection } from "./sqlite-tx.js";
import type { Dialect } from "./statement.js";
import type { SqlStore, SqlStoreOptions } from "./store.js";
import { checkSchema, type TablePlan } from "./tables.js";

/**
 * Where a pattern keeps its records: `sqlite:PATH`, `postgres://…` or `mysql://…`; or a client of
 * the caller's: a database object of better-sqlite3 or node:sqlite, a pool of `pg` or an instance
 * of `postgres`, a pool of `mysql2`.
 */
export type SqlTarget = string | UserSqliteDatabase | PgPool | PostgresSql | MysqlPool;

/** The dialect of a URL, or of a client by its shape. */
export type DialectOf<T> = T extends string
  ? DialectOfUrl<T>
  : T extends UserSqliteDatabase
    ? "sqlite"
    : T extends MysqlPool
      ? "mysql"
      : "postgres";

type DialectOfUrl<U extends string> = string extends U
  ? Dialect
  : U extends `sqlite:${string}`
    ? "sqlite"
    : U extends `postgres://${string}` | `postgresql://${string}`
      ? "postgres"
      : U extends `mysql://${string}` | `mariadb://${string}`
        ? "mysql"
        : never;

const SQL_URLS = "sqlite:PATH postgres:// mysql://";
/** URLs of a pattern that MySQL does not have, for its refusals. */
export const WITHOUT_MYSQL = "sqlite:PATH postgres://";
const DEFAULT_TIMEOUT_MS = 10_000;

/**
 * A store with a pattern's tables in it; with null, of a pattern that has none. `urls` is what a
 * refusal lists: the stores of the pattern, where they are others than the SQL databases.
 *
 * @throws TypeError or RangeError for a wrong target or option; a URL may carry a password, so only
 *   its scheme is repeated. UnavailableError when the store cannot be opened, its client library is
 *   missing, or the tables are missing or of a newer version.
 */
export async function openSqlStore<T extends SqlTarget>(
  target: T,
  plan: TablePlan | null,
  options: SqlStoreOptions = {},
  urls: string = SQL_URLS,
): Promise<SqlStore<DialectOf<T>>> {
  const terms = checkOptions(options);
  const must = `a URL (${urls}), or a client of such a store`;
  const opened =
    typeof target === "string"
      ? await openUrl(target, { ...terms, hasTables: plan !== null }, must)
      : await openClient(target, terms, must);
  try {
    const { migrate, runtime } = terms;
    if (plan !== null) await prepare(opened, plan, { migrate, newId: () => runtime.random.id() });
  } catch (error) {
    await opened.close();
    throw error;
  }
  return opened as unknown as SqlStore<DialectOf<T>>;
}

interface Terms {
  readonly schema: string | undefined;
  readonly migrate: boolean;
  readonly timeoutMs: number;
  readonly runtime: Runtime;
}

type AnyStore = SqliteStore | ServerStore<ServerDialect>;

function checkOptions(options: SqlStoreOptions): Terms {
  checkObject(options, "options");
  const { schema, migrate = true, timeout = DEFAULT_TIMEOUT_MS, runtime = platform() } = options;
  if (schema !== undefined) checkSchema(schema);
  if (typeof migrate !== "boolean") throw new ArgumentTypeError("migrate", migrate, "a boolean");
  const timeoutMs = parseDuration(timeout, "timeout", { minMs: 1, maxMs: 86_400_000 });
  return { schema, migrate, timeoutMs, runtime };
}

interface UrlTerms extends Terms {
  /** Whether tables of ours are needed there. */
  readonly hasTables: boolean;
}

async function openUrl(url: string, terms: UrlTerms, must: string): Promise<AnyStore> {
  const scheme = /^[a-z]+(?=:)/i.exec(url)?.[0].toLowerCase();
  switch (scheme) {
    case "sqlite": {
      const path = url.slice("sqlite:".length);
      if (path === "" || /^\/\/[^/]/.test(path)) {
        const form = '"sqlite:" and a path, such as sqlite:./jobs.db or sqlite:/var/lib/jobs.db';
        throw new ArgumentTypeError("target", url, form);
      }
      return await openFile(path, terms);
    }
    case "postgres":
    case "postgresql":
      return overPostgres(await openPostgres(url, { waitingMs: terms.timeoutMs }), terms);
    case "mysql":
    case "mariadb": {
      const needsDatabase = terms.hasTables && terms.schema === undefined;
      return overMysql(await openMysql(url, needsDatabase, terms.timeoutMs), terms);
    }
    default:
      throw new ArgumentTypeError("target", scheme === undefined ? url : `${scheme}:…`, must);
  }
}

async function openClient(client: unknown, terms: Terms, must: string): Promise<AnyStore> {
  const has = (name: string): boolean =>
    typeof (client as Record<string, unknown> | null | undefined)?.[name] === "function";
  if (has("prepare") && has("exec")) {
    const connection = adoptSqlite(client, "target");
    return await overSqlite(connection, false, terms);
  }
  if (has("getConnection")) return overMysql(adoptMysql(client as MysqlPool, "target"), terms);
  if (has("query") || has("unsafe"))
    return overPostgres(adoptPostgres(client as PgPool, "target"), terms);
  const hint = isQueryBuilder(client) ? `: ${BENEATH}` : "";
  throw new ArgumentTypeError("target", client, `${must}${hint}`);
}

const BENEATH = "of a query builder, the pool or database object that it was made over";

/** Drizzle, Kysely and their like: they have no way to run a statement as text with values. */
function isQueryBuilder(client: unknown): boolean {
  const { selectFrom, select } = (client ?? {}) as Readonly<Record<string, unknown>>;
  return typeof selectFrom === "function" || typeof select === "function";
}

async function openFile(path: string, terms: Terms): Promise<SqliteStore> {
  refuseSchema(terms);
  const connection = await openSqlite(path);
  try {
    // A file that others use already keeps its journal.
    const isNew = connection.prepare("PRAGMA page_count").get() as { page_count: bigint };
    if (isNew.page_count === 0n) connection.prepare("PRAGMA journal_mode = WAL").get();
  } catch (error) {
    // Another process is at it.
    if (!isBusy(error)) throw explain(connection.file)(error, "open the SQLite database", false);
  }
  await flushAtCommit(connection, terms);
  return await overSqlite(connection, true, terms);
}

/**
 * In WAL mode some builds flush nothing at COMMIT: power loss would take back what was promised.
 * Saying so reads the file, which another process that is just opening it may have locked.
 */
async function flushAtCommit(connection: SqliteConnection, terms: Terms): Promise<void> {
  const { clock, timers, random } = terms.runtime;
  const untilMs = clock.monotonicMs() + terms.timeoutMs;
  for (;;) {
    try {
      return connection.exec("PRAGMA synchronous = FULL");
    } catch (error) {
      if (isBusy(error) && clock.monotonicMs() < untilMs) {
        await new Promise<void>((resolve) => timers.after(1 + random.uniform() * 8, resolve));
        continue;
      }
      connection.close();
      throw explain(connection.file)(error, "open the SQLite database", false);
    }
  }
}

const explain =
  (file: string) =>
  (error: unknown, during: string, committing: boolean): ReturnType<typeof explainSqlite> =>
    explainSqlite(error, { file, during, committing, backend: "sqlite" });

async function overSqlite(
  connection: ReturnType<typeof adoptSqlite>,
  ownsConnection: boolean,
  terms: Terms,
): Promise<SqliteStore> {
  refuseSchema(terms);
  const { runtime, timeoutMs } = terms;
  const here = await machine();
  return new SqliteStore(
    {
      runtime,
      connection,
      ownsConnection,
      adopt: (database) => adoptSqlite(database, "tx"),
      isBusy,
      explain: explain(connection.file),
      clock: () => sqliteClock(here, runtime.clock),
      // A caller may change the journal mode of a connection of theirs, and the log goes with it.
      place: new FilePlace(connection.file, ownsConnection, () => runtime.clock.monotonicMs()),
    },
    timeoutMs,
  );
}

function refuseSchema({ schema }: Terms): void {
  if (schema === undefined) return;
  throw new ArgumentRangeError(
    "schema",
    schema,
    "left out on SQLite, whose tables lie in the file",
  );
}

/** Out of the statement's time, which is that of the transaction. */
const QUERY_CANCELED = "57014";
const DUPLICATE = "23505";
const READ_ONLY = "25006";

function overPostgres(
  database: PostgresDatabase,
  { runtime, timeoutMs, schema }: Terms,
): ServerStore<ServerDialect> {
  const { endsSession, explainPostgres, isContention, sqlState } = postgresErrors;
  const parts: ServerParts<"postgres"> = {
    dialect: "postgres",
    runtime,
    begin: (work, ms, limits) =>
      database.begin(async (transaction) => {
        await transaction.query(`${postgresSettings(ms)};
          SET LOCAL idle_in_transaction_session_timeout = ${ms}`);
        return await work(transaction);
      }, { ...limits, guard: transactionGuard("write") }),
    // One message, which the server takes for one transaction, and answers once. Where it is one
    // statement the settings would be a good part of its time, and all but one only undo defaults
    // that few sessions have.
    alone: (statements, ms, limits) => {
      const settings = statements.length === 1 ? statementTime(ms) : postgresSettings(ms);
      return database.onSession((session) => runKept(session, settings, statements), limits);
    },
    wantsTransaction: (error) =>
      isContention(error) || [DUPLICATE, READ_ONLY].includes(sqlState(error) ?? ""),
    isContention,
    isDuplicate: (error) => sqlState(error) === DUPLICATE,
    endsSession,
    refusesStatement: (error) => {
      const state = sqlState(error);
      return state !== undefined && state !== QUERY_CANCELED && !endsSession(error);
    },
    isForbidden: (error) => sqlState(error) === "42501",
    explain: explainPostgres,
    close: database.close,
  };
  return new ServerStore(parts, schema, timeoutMs);
}

/** First in each transaction, whatever the session's defaults are. */
function postgresSettings(ms: number): string {
  return `SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
    ${statementTime(ms)}; SET LOCAL lock_timeout = ${ms}`;
}

function statementTime(ms: number): string {
  return `SET LOCAL statement_timeout = ${ms}`;
}

const NO_PERMISSION = [1044, 1142, 1227];

function overMysql(
  database: MysqlDatabase,
  { runtime, timeoutMs, schema }: Terms,
): ServerStore<ServerDialect> {
  const { endsSession, errorNumber, explainMysql, isContention, wasInterrupted } = mysqlErrors;
  const parts: ServerParts<"mysql"> = {
    dialect: "mysql",
    runtime,
    begin: (work, ms, limits, isSetUp = false) =>
      database.begin(work, { ...mysqlTexts(ms), isOne: !isSetUp }, limits),
    isContention,
    isDuplicate: (error) => errorNumber(error) === 1062,
    endsSession,
    refusesStatement: (error) => {
      const isCutOff = endsSession(error) || wasInterrupted(error);
      return errorNumber(error) !== undefined && !isCutOff;
    },
    isForbidden: (error) => NO_PERMISSION.includes(errorNumber(error) ?? 0),
    explain: explainMysql,
    close: database.close,
  };
  return new ServerStore(parts, schema, timeoutMs);
}

/** Whole seconds is what MySQL counts these in; the statement's time is MariaDB's alone. */
function mysqlTexts(ms: number): TransactionTexts {
  const seconds = Math.max(1, Math.ceil(ms / 1_000));
  return transactionTexts({
    waitS: seconds,
    statementS: seconds,
    isolation: "READ-COMMITTED",
    isReadOnly: false,
  });
}
