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
  /** Whether to run it. */
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
  if (store === undefined || Number(store["version"]) < plan.version) {
    if (!plan.migrate) throw missing(plan);
    await makeTables(connection, plan);
    store = await readStore(connection, plan);
  }
  if (store === undefined) throw missing(plan);
  const version = Number(store["version"]);
  if (version > plan.version) throw newer(plan, `version ${version}`);
  return {
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

/** The store's row; undefined when there are no tables. */
async function readStore(
  connection: PostgresConnection,
  { storeTable }: StorePlan,
): Promise<PostgresRow | undefined> {
  try {
    return (await connection.query(`SELECT version, store_id FROM ${storeTable}`)).rows[0];
  } catch (error) {
    if (["42P01", "3F000"].includes(sqlState(error) ?? "")) return undefined;
    throw error;
  }
}

async function makeTables(connection: PostgresConnection, plan: StorePlan): Promise<void> {
  try {
    await connection.script(plan.script);
  } catch (error) {
    // The script has begun a transaction, and stopped in it.
    await connection.script("ROLLBACK").catch(() => undefined);
    const state = sqlState(error);
    if (state === NEWER_VERSION_STATE) throw newer(plan, "a newer version");
    if (state !== "42501") throw error;
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
