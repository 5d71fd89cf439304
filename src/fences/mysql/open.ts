import { checkKnown } from "../../core/options.js";
import { corePool, type MysqlPool } from "../../drivers/mysql/client.js";
import {
  endsSession,
  errorNumber,
  explainMysql,
  isContention,
} from "../../drivers/mysql/errors.js";
import { beginMysql } from "../../drivers/mysql/transactions.js";
import { platform } from "../../platform/index.js";
import type { OnStale } from "../contract.js";
import type { MysqlParts } from "./client.js";
import { createMysqlFence, type MysqlFence, type MysqlFenceOptions } from "./index.js";
import { quoteIdentifier } from "../../dialects/mysql.js";
import { FENCE_STATEMENTS } from "./schema.js";

export type { FencingToken, TokenBearer } from "../../core/token.js";
export { armAll, type ArmedAll } from "../arm-all.js";
export type * from "../contract.js";
export type { Mark, Scope } from "../decide.js";
export type { Row, SqlTx } from "../sql-work.js";
export type { MysqlFence, MysqlFenceOptions, MysqlHandle } from "./index.js";
export type { AuditEntry, FenceAudit, FencedTable, InstallOptions } from "../sql-tables.js";
export type { CallersTransaction, RunSql } from "./within.js";

const OPTIONS: readonly string[] = [
  ...["onStale", "schema", "migrate", "leaseSchema", "transactionMs"],
];

/**
 * Fence over the rows of a MySQL or MariaDB database, through a pool of `mysql2`. It stays the
 * caller's, and may be the one that the application uses.
 *
 * @throws TypeError for anything else as pool, TypeError or RangeError for wrong options.
 */
export function mysqlFence<S extends OnStale = "reject">(
  pool: MysqlPool,
  options: MysqlFenceOptions<S> = {},
): MysqlFence<S> {
  checkKnown(options, OPTIONS);
  return createMysqlFence(mysqlParts(pool), options);
}

/**
 * The statements that make the fence's tables, triggers and procedures, in a session whose schema
 * is theirs; they do nothing wrong when they run again. Users that arm and write need SELECT,
 * INSERT and UPDATE on the tables and EXECUTE on the procedures.
 */
export function fenceSchemaStatements(): readonly string[] {
  return FENCE_STATEMENTS;
}

/** What the fence needs, on the real machine. */
export function mysqlParts(pool: MysqlPool): MysqlParts {
  const core = corePool(pool);
  return {
    runtime: platform(),
    database: { begin: (work, texts, limits) => beginMysql(core, work, texts, limits) },
    faults: { errorNumber, endsSession, isContention, explain: explainMysql },
    heldCheck,
    storeIdSql,
  };
}

// A renewal touches no entry of this index, a take-over deletes it: the lock stops only the latter.
// Whether the time is over stands in the row, and is looked at without a lock.
function heldCheck(leaseSchema: string | undefined): readonly string[] {
  const s = leaseSchema === undefined ? "" : `${quoteIdentifier(leaseSchema)}.`;
  const grant = "name = UNHEX(?) AND holder = UNHEX(?) AND token = CAST(? AS SIGNED)";
  return [
    `SELECT 1 AS held FROM ${s}tenure_lease FORCE INDEX (tenure_grant) WHERE ${grant}
      LOCK IN SHARE MODE`,
    `SELECT 1 AS held FROM ${s}tenure_lease WHERE ${grant} AND expires > UTC_TIMESTAMP(6)`,
  ];
}

function storeIdSql(leaseSchema: string | undefined): string {
  const s = leaseSchema === undefined ? "" : `${quoteIdentifier(leaseSchema)}.`;
  return `SELECT store_id AS id FROM ${s}tenure_store`;
}
