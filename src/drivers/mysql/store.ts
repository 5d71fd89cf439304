/** Opening a store: what server this is, and whether its tables are the ones that we know. */
import { ArgumentTypeError, GuaranteeError, UnavailableError } from "../../core/errors.js";
import type { MysqlConnection, MysqlRow } from "./connection.js";
import { errorNumber, isContention } from "./errors.js";

/** The tables and procedures that a store needs. */
export interface StorePlan {
  /** Short name of the backend. */
  readonly backend: string;
  /** Schema of the tables. Default: the one that the connection has. */
  readonly schema: string | undefined;
  /** The table with `version` and `store_id`. */
  readonly storeTable: string;
  /** Version of the tables that this release makes and needs. */
  readonly version: number;
  readonly procedures: readonly string[];
  /** Make what is missing, in a session whose schema is the one above. */
  readonly statements: readonly string[];
  /** Whether to run them. */
  readonly migrate: boolean;
}

/** What was found on opening. */
export interface FoundStore {
  readonly storeId: string;
  readonly schema: string;
  /** Whether what is committed is on the disk before the answer. */
  readonly isDurable: boolean;
}

/** Oldest versions with `JSON_TABLE`, `SKIP LOCKED` and `CREATE PROCEDURE IF NOT EXISTS`. */
const OLDEST = { MariaDB: [10, 6, 0], MySQL: [8, 0, 29] } as const;
/** A statement that met other starters is repeated. */
const TRIES = 10;

// With a binary log, a commit that the log has lost is rolled back after a crash.
const PROBE = `SELECT DATABASE() AS chosen, VERSION() AS version,
  CONCAT(@@GLOBAL.read_only) NOT IN ('0', 'OFF') AS read_only, @@SESSION.autocommit AS autocommit,
  @@GLOBAL.innodb_flush_log_at_trx_commit IN (1, 3)
    AND (NOT @@GLOBAL.log_bin OR @@GLOBAL.sync_binlog = 1) AS durable`;

const COUNT_PROCEDURES = `SELECT COUNT(*) AS n FROM information_schema.routines
  WHERE routine_schema = DATABASE() AND routine_name IN`;

/**
 * Looks at the server and makes what is missing. Any number of processes may do this at once.
 *
 * @throws UnavailableError for a read-only server, missing tables with `migrate: false`, tables of
 *   another version, a missing permission. GuaranteeError for a server that cannot keep the
 *   promises. Else what the library threw.
 */
export async function prepareStore(
  connection: MysqlConnection,
  plan: StorePlan,
): Promise<FoundStore> {
  await choose(connection, plan);
  const [server] = (await connection.query(PROBE)).rows;
  checkServer(server!, plan);
  const schema = String(server!["chosen"]);
  let store = await readStore(connection, plan);
  if (!isWhole(store, plan)) {
    if (!plan.migrate) throw missing(plan, schema);
    await makeTables(connection, plan, schema);
    store = await readStore(connection, plan);
    if (!isWhole(store, plan)) throw missing(plan, schema);
  }
  const isDurable = Number(server!["durable"]) === 1;
  return { storeId: store.storeId, schema, isDurable };
}

/** Makes the schema the session's, and the schema itself where it is missing. */
async function choose(connection: MysqlConnection, { schema, migrate }: StorePlan): Promise<void> {
  if (schema === undefined) return;
  const name = `\`${schema.replaceAll("`", "``")}\``;
  try {
    await connection.script(`USE ${name}`);
  } catch (error) {
    if (errorNumber(error) !== 1049 || !migrate) throw error;
    await connection.script(`CREATE SCHEMA IF NOT EXISTS ${name}`);
    await connection.script(`USE ${name}`);
  }
}

function checkServer(server: MysqlRow, { backend }: StorePlan): void {
  const version = String(server["version"]);
  const kind = /mariadb/i.test(version) ? "MariaDB" : "MySQL";
  const oldest = OLDEST[kind];
  const parts = version.split(/[.-]/).map((part) => Number.parseInt(part, 10));
  const differs = oldest.findIndex((least, i) => parts[i] !== least);
  if (differs >= 0 && !(parts[differs]! > oldest[differs]!)) {
    throw new GuaranteeError(
      `${backend} needs ${kind} ${oldest.join(".")} or later, this is ${version}`,
      { backend },
    );
  }
  if (server["chosen"] === null) {
    throw new ArgumentTypeError("schema", undefined, "given where a pool has no database");
  }
  if (Number(server["autocommit"]) !== 1) {
    throw new GuaranteeError(
      "sessions begin with autocommit off: what a lease looks like would never change in them",
      { backend },
    );
  }
  if (Number(server["read_only"]) === 1) {
    throw new UnavailableError("the server is read-only; connect to the primary", { backend });
  }
}

interface SeenStore {
  readonly storeId: string;
  readonly version: number;
  readonly procedures: number;
}

/** Undefined when there are no tables. */
async function readStore(
  connection: MysqlConnection,
  { storeTable, procedures }: StorePlan,
): Promise<SeenStore | undefined> {
  let row: MysqlRow | undefined;
  try {
    [row] = (await connection.query(`SELECT version, store_id FROM ${storeTable}`)).rows;
  } catch (error) {
    if (errorNumber(error) !== 1146) throw error;
  }
  if (row === undefined) return undefined;
  const marks = procedures.map(() => "?").join(", ");
  const [found] = (await connection.query(`${COUNT_PROCEDURES} (${marks})`, procedures)).rows;
  return {
    storeId: String(row["store_id"]),
    version: Number(row["version"]),
    procedures: Number(found?.["n"]),
  };
}

/** Whether nothing has to be made: a dump may have left out the procedures. */
function isWhole(store: SeenStore | undefined, plan: StorePlan): store is SeenStore {
  if (store === undefined || store.version < plan.version) return false;
  if (store.version > plan.version) throw newer(plan, store.version);
  return store.procedures === plan.procedures.length;
}

async function makeTables(
  connection: MysqlConnection,
  plan: StorePlan,
  schema: string,
): Promise<void> {
  for (const statement of plan.statements) {
    try {
      await patiently(connection, statement);
    } catch (error) {
      if (![1044, 1142, 1227, 1370].includes(errorNumber(error) ?? 0)) throw error;
      throw new UnavailableError(
        `the tables in the schema ${schema} are missing, or the user may not see them, and it ` +
          `has no permission to make them: have their owner run what ${printing(plan)} shows`,
        { backend: plan.backend, retryable: false, cause: error },
      );
    }
  }
}

async function patiently(connection: MysqlConnection, statement: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await connection.script(statement);
      return;
    } catch (error) {
      if (!isContention(error) || tries === TRIES) throw error;
    }
  }
}

function missing(plan: StorePlan, schema: string): UnavailableError {
  return new UnavailableError(
    `the tables in the schema ${schema} are missing or old; run what ${printing(plan)} shows, or ` +
      "leave migrate at true",
    { backend: plan.backend, retryable: false },
  );
}

function newer({ backend, version }: StorePlan, theirs: number): UnavailableError {
  return new UnavailableError(
    `the tables have version ${theirs}, this release of Tenure knows ` +
      `${version}: use a newer release, or another schema`,
    { backend, retryable: false },
  );
}

function printing({ backend }: StorePlan): string {
  return `\`tenure migrate --print --backend ${backend}\``;
}
