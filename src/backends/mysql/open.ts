import { checkKnown } from "../../core/options.js";
import type { MysqlPool } from "../../drivers/mysql/client.js";
import {
  errorNumber,
  explainMysql,
  isContention,
  sqlState,
} from "../../drivers/mysql/errors.js";
import { adoptMysql, openMysql } from "../../drivers/mysql/open.js";
import { prepareStore } from "../../drivers/mysql/store.js";
import { platform } from "../../platform/index.js";
import { mysqlBackend, type MysqlBackend } from "./index.js";
import { checkSettings, type MysqlBackendOptions, type MysqlSettings } from "./options.js";

export { schemaSql } from "./schema.js";
export type { MysqlBackend, MysqlProof } from "./index.js";

const OPTIONS: readonly string[] = ["schema", "migrate", "storeId", "runtime"];

/** Settings of {@link mysql}. */
export interface MysqlOptions extends MysqlSettings {
  /** Clock, timers and events. Default: the machine's. */
  readonly runtime?: MysqlBackendOptions["runtime"];
}

/**
 * A backend on the MySQL or MariaDB database at a URL, or behind a pool of `mysql2`.
 *
 * Statements run in the pool; a caller's pool stays the caller's to close. Renewals have a
 * connection of their own beside it.
 *
 * @throws TypeError or RangeError for wrong options, and for a single connection.
 * @throws UnavailableError when a URL is given and `mysql2` is not installed.
 */
export async function mysql(
  urlOrPool: string | MysqlPool,
  options: MysqlOptions = {},
): Promise<MysqlBackend> {
  checkKnown(options, OPTIONS);
  checkSettings(options);
  const { runtime = platform(), ...settings } = options;
  const database =
    typeof urlOrPool === "string"
      ? await openMysql(urlOrPool, settings.schema === undefined)
      : adoptMysql(urlOrPool);
  const faults = { explain: explainMysql, isContention, errorNumber, sqlState };
  return mysqlBackend({ ...settings, database, faults, prepare: prepareStore, runtime });
}
