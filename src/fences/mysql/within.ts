/** The fence inside a transaction that the caller has begun. */
import { ArgumentTypeError } from "../../core/errors.js";

/** Runs one statement in the caller's transaction. Each `?` stands for the next value. */
export type RunSql = (text: string, values: unknown[]) => PromiseLike<unknown>;

/**
 * A transaction of the caller's: a connection of `mysql2/promise` after BEGIN, or a function that
 * runs one statement in it, for query builders.
 */
export type CallersTransaction =
  | { query(text: string, values?: unknown[]): PromiseLike<unknown> }
  | RunSql;

/** How to run a statement in it. @throws TypeError for anything else. */
export function runnerOf(transaction: CallersTransaction): RunSql {
  if (typeof transaction === "function") return transaction;
  const given = transaction as { query?: unknown; getConnection?: unknown } | null | undefined;
  if (typeof given?.query === "function" && given.getConnection === undefined) {
    const { query } = given;
    return (text, values) => (query as RunSql).call(given, text, values);
  }
  throw new ArgumentTypeError(
    "transaction",
    transaction,
    "a connection of mysql2/promise in a transaction, or a function that runs a statement in one",
  );
}

interface ServersError extends Error {
  readonly sqlState?: unknown;
}

/** Whether an error has a SQLSTATE; errors of query builders carry the server's inside. */
export function hasState(error: unknown, state: string): boolean {
  if (!(error instanceof Error)) return false;
  return (error as ServersError).sqlState === state || hasState(error.cause, state);
}
