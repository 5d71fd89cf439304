/**
 * The tables of lease rows, and the procedures that work on them.
 *
 * **Tokens.** A grant takes its token from a counter that many names share: 1,024 rows, by a hash
 * of the name. The counter is raised inside the transaction that grants and stays locked until its
 * commit, so that grants of one name commit in the order of their tokens:
 *
 * 1. A finds the name free, raises the counter to 41 and inserts its row; not committed yet.
 * 2. B found the name free as well. It wants the counter, and waits.
 * 3. A commits. B gets 42, but its insert meets A's row: B is refused, and 42 is never used.
 *
 * A counter in the lease's own row would be lost with the row. So rows may be deleted by anybody at
 * any time, and nothing is kept per name. A counter is also never below the server's clock in
 * microseconds: a replica that was promoted without the last grants, or a restored backup, goes on
 * above them if its clock is right.
 *
 * **Procedures**, because a transaction of several requests leaves its locks to a client that may
 * be frozen between two of them, and then nobody gets a lease whose counter it had. None of them
 * sends anything before its commit.
 *
 * **Clock.** `UTC_TIMESTAMP` is the start of the statement, but in a procedure each statement has a
 * start of its own: a time that is wanted after a wait is read by a `SET` after the wait. `SYSDATE`
 * would be live within a statement, but in the time zone of the session and with its jumps.
 *
 * **Locks** are taken in one order: first the lease's row, then the counter. While a counter is
 * held nothing is waited for but the commit of whoever had it before. So there is no cycle, and a
 * transaction that checks an old lease for long holds back that name only.
 *
 * **A lease's token never changes**: a take-over deletes the row and inserts another. A transaction
 * that has locked the entry of the index `tenure_grant` for sharing, and that alone, stops
 * take-over, release and break until its end, and no renewal, which touches only the row.
 */
import {
  acquireProcedure,
  releaseManyProcedure,
  releaseProcedure,
  renewProcedure,
  sweepProcedure,
} from "./procedures.js";
import { checkSchema, quoteIdentifier } from "../../dialects/mysql.js";

/** Version of the tables and procedures that this release makes and needs. */
export const SCHEMA_VERSION = 1;

/** Number of counters: 32 times 32. */
const COUNTER_ROOT = 32;

const STORE_TABLE = `CREATE TABLE IF NOT EXISTS tenure_store (
  only_row TINYINT NOT NULL PRIMARY KEY,
  version INT NOT NULL,
  store_id CHAR(36) CHARACTER SET ascii NOT NULL
) ENGINE = InnoDB`;

const COUNTER_TABLE = `CREATE TABLE IF NOT EXISTS tenure_counter (
  slot INT NOT NULL PRIMARY KEY,
  token BIGINT NOT NULL
) ENGINE = InnoDB`;

const LEASE_TABLE = `CREATE TABLE IF NOT EXISTS tenure_lease (
  name VARBINARY(512) NOT NULL PRIMARY KEY,
  holder VARBINARY(255) NOT NULL,
  token BIGINT NOT NULL,
  ttl_ms BIGINT NOT NULL,
  expires DATETIME(6) NOT NULL,
  info MEDIUMBLOB NULL,
  UNIQUE KEY tenure_grant (name, holder, token)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC`;

const COUNTERS = `INSERT INTO tenure_counter (slot, token)
WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ${COUNTER_ROOT - 1})
SELECT a.i * ${COUNTER_ROOT} + b.i, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))
FROM n AS a JOIN n AS b WHERE TRUE
ON DUPLICATE KEY UPDATE token = tenure_counter.token`;

/** Last: whoever finds the version finds all the rest. */
const STORE = `INSERT INTO tenure_store (only_row, version, store_id)
VALUES (1, ${SCHEMA_VERSION}, UUID())
ON DUPLICATE KEY UPDATE version = GREATEST(version, ${SCHEMA_VERSION})`;

const PROCEDURES: readonly string[] = [
  acquireProcedure(COUNTER_ROOT ** 2),
  renewProcedure(),
  releaseProcedure(),
  releaseManyProcedure(),
  sweepProcedure(),
];

/** Settings of {@link schemaSql}. */
export interface SchemaOptions {
  /** Schema, which MySQL also calls a database; made when missing. Default: the session's. */
  readonly schema?: string;
}

/**
 * The statements that make tables and procedures, in a session of their own whose schema is the one
 * wanted. Nothing goes wrong when they run again, or many times at once.
 */
export const SCHEMA_STATEMENTS: readonly string[] = [
  // A procedure keeps the mode that it was made under.
  "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
  STORE_TABLE,
  COUNTER_TABLE,
  LEASE_TABLE,
  ...PROCEDURES,
  COUNTERS,
  STORE,
];

/**
 * The SQL that makes tables and procedures, as a script for the command-line client. What `open`
 * runs is the same.
 *
 * Users need `EXECUTE` and `SELECT, INSERT, UPDATE, DELETE` in the schema; who makes the tables
 * also `CREATE` and `CREATE ROUTINE`.
 *
 * @throws TypeError or RangeError for a name that MySQL cannot have.
 */
export function schemaSql(options: SchemaOptions = {}): string {
  const { schema } = options;
  const name = schema === undefined ? undefined : quoteIdentifier(checkSchema(schema));
  const choose = name === undefined ? [] : [`CREATE SCHEMA IF NOT EXISTS ${name}`, `USE ${name}`];
  const statements = [...choose, ...SCHEMA_STATEMENTS].map((text) => `${text} $$`);
  return [
    `-- Tables of Tenure, version ${SCHEMA_VERSION}. Safe to run again.`,
    "DELIMITER $$",
    ...statements,
    "DELIMITER ;",
    "",
  ].join("\n");
}
