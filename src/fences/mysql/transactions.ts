/**
 * Transactions of MySQL and MariaDB. For a process that is frozen the server ends a session that
 * stands idle for longer than the transaction's time (`wait_timeout`), and a wait for a lock or, on
 * MariaDB, a statement that takes longer. These are whole seconds, one at least. The session's own
 * settings are put back.
 */
import { Transactions, type Mode } from "../sql-transactions.js";
import { transactionTexts } from "../../dialects/mysql.js";
import type { MysqlParts, Texts } from "./client.js";
import { PROOF } from "./schema.js";

/** Settings for so many milliseconds of a caller's transaction, and what puts the old ones back. */
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
  return transactionTexts({
    waitS: Math.max(1, Math.floor(ms / 1_000)),
    statementS: Math.max(1, ms) / 1_000,
    // Reads see one state, the one in which they saw the mark.
    isolation: mode === "write" ? "READ-COMMITTED" : "REPEATABLE-READ",
    isReadOnly: mode === "read",
    set: `${PROOF} = UUID()`,
    reset: `${PROOF} = NULL`,
  });
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
    begin: (mode, ms, limits, work) => database.begin(work, textsFor(mode, ms), limits),
  });
}
