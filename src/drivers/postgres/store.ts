/** Opening a store: what server this is, and whether its tables are the ones that we know. */
import { GuaranteeError, UnavailableError } from "../../core/errors.js";
import type { PostgresConnection, PostgresRow } from "./connection.js";
import { sqlState } from "./errors.js";

/** The tables that a store needs. */
export interface StorePlan {
  /** Short name of the backend. */
  readonly backend: string;
  /** Schema of the tables, for messages. */
  readonly schema: string;
  /** The table with `version` and `store_id`, as SQL. */
  readonly storeTable: string;
  /** Version of the tables that this release makes and needs. */
  readonly version: number;
  /** Makes what is missing; fails with SQLSTATE TN001 where a newer version is. */
  readonly script: string;
  /** Of its functions: the revision that this release has, and SQL of the one that is there. */
  readonly functions: { readonly revision: number; readonly foundSql: string };
  /** Whether to run the script. */
  readonly migrate: boolean;
  /** Oldest server that will do, as `server_version_num` has it. */
  readonly oldestServer: number;
}

/** What was found on opening. */
export interface FoundStore {
  readonly storeId: string;
  /** Whether what is committed is on the disk before the answer. */
  readonly isDurable: boolean;
  /** Whether a pooler stands between: the session may be another one each time. */
  readonly isPooled: boolean;
  /** Whether the server tells its timeline. */
  readonly hasTimeline: boolean;
  /** Said where the functions are those of an older release, which work. */
  readonly outdated: string | undefined;
}

/** SQLSTATE of our own with which a script refuses tables of a newer version. */
const NEWER_VERSION_STATE = "TN001";

const PROBE = `SELECT pg_backend_pid() AS pid, pg_is_in_recovery() AS standby,
  current_setting('server_encoding') AS encoding,
  current_setting('synchronous_commit') <> 'off' AND current_setting('fsync') <> 'off' AS durable,
  current_setting('server_version_num')::integer AS version`;

/**
 * Looks at the server and makes what is missing. Any number of processes may do this at once.
 *
 * @throws UnavailableError for a standby, missing tables with `migrate: false`, tables of another
 *   version, a missing permission. GuaranteeError for a server that cannot keep the promises.
 *   Else what the library threw.
 */
export async function prepareStore(
  connection: PostgresConnection,
  plan: StorePlan,
): Promise<FoundStore> {
  const [server] = (await connection.query(PROBE)).rows;
  checkServer(server!, plan);
  let store = await readStore(connection, plan);
  if (store === undefined || isOlder(store, plan)) {
    const isUsable = store !== undefined && isWhole(store, plan);
    if (plan.migrate) await makeTables(connection, plan, isUsable);
    else if (!isUsable) throw missing(plan);
    store = await readStore(connection, plan);
  }
  if (store === undefined || !isWhole(store, plan)) throw missing(plan);
  const version = Number(store["version"]);
  if (version > plan.version) throw newer(plan, `version ${version}`);
  return {
    outdated: isOlder(store, plan) ? outdated(plan) : undefined,
    storeId: String(store["store_id"]),
    isDurable: server!["durable"] === true,
    isPooled: connection.announcedPid !== Number(server!["pid"]),
    hasTimeline: await tellsTimeline(connection),
  };
}

function checkServer({ standby, encoding, version }: PostgresRow, plan: StorePlan): void {
  const { backend, oldestServer } = plan;
  if (Number(version) < oldestServer) {
    const major = Math.floor(oldestServer / 10_000);
    throw new GuaranteeError(`${backend} needs PostgreSQL ${major} or later`, { backend });
  }
  if (encoding !== "UTF8") {
    throw new GuaranteeError(
      `the database is encoded in ${String(encoding)}, in which not every name can be kept apart ` +
        "from all others; use one in UTF8",
      { backend },
    );
  }
  if (standby === true) {
    throw new UnavailableError("the server is a read-only standby; connect to the primary", {
      backend,
    });
  }
}

/** Whether the tables are of this release, or a newer one, and functions are there. */
function isWhole({ version, functions }: PostgresRow, plan: StorePlan): boolean {
  return Number(version) >= plan.version && functions !== null;
}

function isOlder(store: PostgresRow, plan: StorePlan): boolean {
  return !isWhole(store, plan) || Number(store["functions"]) < plan.functions.revision;
}

/** The store's row; undefined when there are no tables. */
async function readStore(
  connection: PostgresConnection,
  { storeTable, functions }: StorePlan,
): Promise<PostgresRow | undefined> {
  const text = `SELECT version, store_id, ${functions.foundSql} AS functions FROM ${storeTable}`;
  try {
    return (await connection.query(text)).rows[0];
  } catch (error) {
    if (["42P01", "3F000"].includes(sqlState(error) ?? "")) return undefined;
    throw error;
  }
}

/** @param isUsable whether to go on with what is there where the user may not change it */
async function makeTables(
  connection: PostgresConnection,
  plan: StorePlan,
  isUsable: boolean,
): Promise<void> {
  try {
    await connection.script(plan.script);
  } catch (error) {
    // The script has begun a transaction, and stopped in it.
    await connection.script("ROLLBACK").catch(() => undefined);
    const state = sqlState(error);
    if (state === NEWER_VERSION_STATE) throw newer(plan, "a newer version");
    if (state !== "42501") throw error;
    if (isUsable) return;
    throw new UnavailableError(
      `the tables in the schema ${plan.schema} are missing, and the user has no permission to ` +
        `make them: have their owner run what ${printing(plan)} shows`,
      { backend: plan.backend, retryable: false, cause: error },
    );
  }
}

async function tellsTimeline(connection: PostgresConnection): Promise<boolean> {
  try {
    await connection.query("SELECT pg_walfile_name(pg_current_wal_lsn())");
    return true;
  } catch (error) {
    if (sqlState(error) === undefined) throw error;
    return false;
  }
}

function missing(plan: StorePlan): UnavailableError {
  return new UnavailableError(
    `the tables in the schema ${plan.schema} are missing or old; run what ${printing(plan)} ` +
      "shows, or leave migrate at true",
    { backend: plan.backend, retryable: false },
  );
}

function outdated(plan: StorePlan): string {
  return (
    `the functions in the schema ${plan.schema} are those of an older release of Tenure, without ` +
    `what was mended since: have their owner run what ${printing(plan)} shows`
  );
}

function newer({ backend, schema, version }: StorePlan, theirs: string): UnavailableError {
  return new UnavailableError(
    `the tables in the schema ${schema} have ${theirs}, this release of Tenure knows ` +
      `${version}: use a newer release, or another schema`,
    { backend, retryable: false },
  );
}

function printing({ backend }: StorePlan): string {
  return `\`tenure migrate --print --backend ${backend}\``;
}
