/**
 * Transactions of MySQL and MariaDB. For a process that is frozen the server ends a session that
 * stands idle for longer than the transaction's time (`wait_timeout`), and a wait for a lock or, on
 * MariaDB, a statement that takes longer. These are whole seconds, one at least. The session's own
 * settings are put back.
 */
import type { SqlTransaction } from "../sql-work.js";
import { Transactions, type Mode } from "../sql-transactions.js";
import type { MysqlParts, Texts } from "./client.js";
import { PROOF } from "./schema.js";

const ISOLATION: Readonly<Record<Mode, string>> = {
  write: "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
  read: "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
};
const START: Readonly<Record<Mode, string>> = {
  write: "START TRANSACTION",
  read: "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
};

/** Statements that commit what was done before them. */
const COMMITS = /^\s*(CREATE|ALTER|DROP|TRUNCATE|RENAME|LOCK|UNLOCK|GRANT|REVOKE|ANALYZE|OPTIMIZE)\b/i;
const TEMPORARY = /^\s*(CREATE|DROP)\s+TEMPORARY\b/i;

/** Settings for a transaction of so many milliseconds, and what puts the old ones back. */
export function settingsFor(ms: number): { readonly set: string; readonly reset: string } {
  const seconds = Math.max(1, Math.floor(ms / 1_000));
  return {
    set: `SET @tenure_fence_wait = @@SESSION.wait_timeout,
      @tenure_fence_lock = @@SESSION.innodb_lock_wait_timeout,
      SESSION wait_timeout = ${seconds}, SESSION innodb_lock_wait_timeout = ${seconds}`,
    reset: `SET SESSION wait_timeout = @tenure_fence_wait,
      SESSION innodb_lock_wait_timeout = @tenure_fence_lock, ${PROOF} = NULL`,
  };
}

function textsFor(mode: Mode, ms: number): Texts {
  const { set, reset } = settingsFor(ms);
  const seconds = (Math.max(1, ms) / 1_000).toFixed(3);
  return {
    // A comment to MySQL, which has no such setting.
    before: [
      `${set}, ${PROOF} = UUID()
        /*M! , @tenure_fence_statement = @@SESSION.max_statement_time,
        SESSION max_statement_time = ${seconds} */`,
      ISOLATION[mode],
    ],
    start: START[mode],
    after: [`${reset} /*M! , SESSION max_statement_time = @tenure_fence_statement */`],
  };
}

/** The transactions of one fence. */
export function mysqlTransactions(
  { database, faults, runtime: { timers } }: MysqlParts,
  transactionMs: number,
): Transactions {
  return new Transactions({
    backend: "mysql",
    timers,
    faults,
    transactionMs,
    begin: (mode, ms, limits, work) =>
      database.begin((transaction) => work(careful(transaction)), textsFor(mode, ms), limits),
  });
}

function careful(transaction: SqlTransaction): SqlTransaction {
  return {
    native: transaction.native,
    query: async (text, values) => {
      if (COMMITS.test(text) && !TEMPORARY.test(text)) {
        throw new TypeError(`this statement would end the transaction: ${text}`);
      }
      return await transaction.query(text, values);
    },
  };
}
