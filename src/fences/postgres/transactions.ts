/**
 * Transactions of Postgres. For a process that is frozen the server has the transaction's time as
 * its limit for each wait: for a lock, for a statement to end, for the next one to come. So a
 * holder that is frozen between two statements blocks its successor for its time at most, counted
 * from the end of its last statement; one that is frozen while a statement runs, for twice that.
 */
import { transactionGuard } from "../../dialects/postgres.js";
import { Transactions, type Mode } from "../sql-transactions.js";
import type { PostgresParts } from "./client.js";

// One state without locks: a reader holds up nobody, and needs no writing.
const BEGIN: Readonly<Record<Mode, string>> = {
  write: "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
  read: "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
};

/** The transactions of one fence. */
export function postgresTransactions(
  { database, faults, runtime: { timers } }: PostgresParts,
  transactionMs: number,
): Transactions {
  return new Transactions({
    backend: "postgres",
    timers,
    faults,
    transactionMs,
    begin: (mode, ms, limits, work) =>
      database.begin(async (transaction) => {
        await transaction.query(`${BEGIN[mode]};
          SET LOCAL statement_timeout = ${ms};
          SET LOCAL lock_timeout = ${ms};
          SET LOCAL idle_in_transaction_session_timeout = ${ms}`);
        return await work(transaction);
      }, { ...limits, guard: transactionGuard(mode) }),
  });
}
