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

/** RELEASE: "SAVEPOINT … does not exist", where it ended with the statement that made it. */
const NO_SUCH_SAVEPOINT = 1305;
/** A query builder sends only what can be prepared, and this cannot, on MySQL: it does not tell. */
const NOT_PREPARED = 1295;

/** @throws TypeError outside a transaction, where the mark's lock would end with the statement. */
export async function checkInside(run: RunSql, given: unknown): Promise<void> {
  try {
    await run("SAVEPOINT tenure_fence", []);
    await run("RELEASE SAVEPOINT tenure_fence", []);
  } catch (error) {
    if (hasNumber(error, NO_SUCH_SAVEPOINT)) {
      throw new ArgumentTypeError("transaction", given, "in a transaction: BEGIN first");
    }
    if (!hasNumber(error, NOT_PREPARED)) throw error;
  }
}

interface ServersError extends Error {
  readonly sqlState?: unknown;
  readonly errno?: unknown;
}

function hasNumber(error: unknown, number: number): boolean {
  if (!(error instanceof Error)) return false;
  return (error as ServersError).errno === number || hasNumber(error.cause, number);
}

/** Whether an error has a SQLSTATE; errors of query builders carry the server's inside. */
export function hasState(error: unknown, state: string): boolean {
  if (!(error instanceof Error)) return false;
  return (error as ServersError).sqlState === state || hasState(error.cause, state);
}
