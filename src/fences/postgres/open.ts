import { checkKnown } from "../../core/options.js";
import { knownPostgres, type PostgresClient } from "../../drivers/postgres/client.js";
import { endsSession, explainPostgres, isContention, sqlState } from "../../drivers/postgres/errors.js";
import { adoptPostgres } from "../../drivers/postgres/open.js";
import { platform } from "../../platform/index.js";
import type { OnStale } from "../contract.js";
import type { PostgresParts } from "./client.js";
import { createPostgresFence, type PostgresFence, type PostgresFenceOptions } from "./index.js";
import { checkSchema, quoteIdentifier } from "../../dialects/postgres.js";
import { fenceTablesSql } from "./schema.js";
import { singleClient } from "./single-client.js";

export type { FencingToken, TokenBearer } from "../../core/token.js";
export { armAll, type ArmedAll } from "../arm-all.js";
export type * from "../contract.js";
export type { Mark, Scope } from "../decide.js";
export type { Row, SqlTx } from "../sql-work.js";
export type { PostgresFence, PostgresFenceOptions, PostgresHandle } from "./index.js";
export type { AuditEntry, FenceAudit, FencedTable, InstallOptions } from "../sql-tables.js";
export type { CallersTransaction, RunSql } from "./within.js";

const OPTIONS: readonly string[] = [
  ...["onStale", "schema", "migrate", "leaseSchema", "transactionMs"],
];

/**
 * Fence over the rows of a Postgres database, through a `Pool` or `Client` of `pg`, or what
 * `postgres()` made. It stays the caller's, and may be the one that the application uses.
 *
 * @throws TypeError for anything else as client, TypeError or RangeError for wrong options.
 */
export function postgresFence<S extends OnStale = "reject">(
  client: PostgresClient,
  options: PostgresFenceOptions<S> = {},
): PostgresFence<S> {
  checkKnown(options, OPTIONS);
  return createPostgresFence(postgresParts(client), options);
}

/**
 * The SQL that makes the fence's tables, as the first use does; it does nothing wrong when it runs
 * again. Roles that arm and write need `USAGE` on the schema, `EXECUTE` on its functions, and
 * `SELECT, INSERT, UPDATE` on `fence_mark`; those that only write, with `fence_write`, no table.
 *
 * @throws TypeError or RangeError for a schema name that Postgres cannot have.
 */
export function fenceSchemaSql(options: { readonly schema?: string } = {}): string {
  const sql = fenceTablesSql(checkSchema(options.schema ?? "tenure", "schema"));
  return `-- Tables of Tenure's fence. One transaction; safe to run again.
BEGIN;
${sql}COMMIT;
`;
}

/** What the fence needs, on the real machine. */
export function postgresParts(client: PostgresClient): PostgresParts {
  const known = knownPostgres(client);
  return {
    runtime: platform(),
    database: known.kind === "pg-client" ? singleClient(known.client) : adoptPostgres(client),
    faults: { isContention, sqlState, endsSession, explain: explainPostgres },
    heldCheck,
    storeIdSql,
  };
}

// A renewal changes no key of the row, a take-over deletes it: the lock stops only the latter. The
// time is looked at once the lock is had: a condition of the inner SELECT is computed before that.
function heldCheck(leaseSchema: string): string {
  return `WITH locked AS MATERIALIZED (SELECT expires FROM ${quoteIdentifier(leaseSchema)}.lease
      WHERE name = $1 AND holder = $2 AND token = $3::bigint FOR KEY SHARE)
    SELECT 1 FROM locked WHERE expires > clock_timestamp()`;
}

function storeIdSql(leaseSchema: string): string {
  return `SELECT store_id AS id FROM ${quoteIdentifier(leaseSchema)}.store`;
}
