/** The fence inside a transaction that the caller has begun. */
import { ArgumentTypeError, OutcomeUnknownError } from "../../core/errors.js";

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

/** RELEASE: "SAVEPOINT … does not exist". */
const NO_SUCH_SAVEPOINT = 1305;
/** A query builder sends only what can be prepared, and this cannot, on MySQL: it does not tell. */
const NOT_PREPARED = 1295;

let count = 0;

/** A savepoint that ends with the caller's transaction, or with one that was set before it. */
export interface Watch {
  /**
   * To be called behind the work.
   *
   * @throws OutcomeUnknownError when it is not the transaction any more in which the work began:
   *   autocommit is the caller's, so what the work sent after that is committed by itself.
   */
  end(cause?: unknown): Promise<void>;
}

/** @throws TypeError outside a transaction, where the mark's lock would end with the statement. */
export async function watchTransaction(run: RunSql, given: unknown): Promise<Watch> {
  const savepoint = `tenure_fence_${(count += 1)}`;
  const release = async (): Promise<boolean> => {
    try {
      await run(`RELEASE SAVEPOINT ${savepoint}`, []);
      return true;
    } catch (error) {
      if (!hasNumber(error, NO_SUCH_SAVEPOINT)) throw error;
      return false;
    }
  };
  try {
    await run(`SAVEPOINT ${savepoint}`, []);
  } catch (error) {
    if (hasNumber(error, NOT_PREPARED)) return { end: async () => undefined };
    throw error;
  }
  // It ended with the statement that made it.
  if (!(await release())) {
    throw new ArgumentTypeError("transaction", given, "in a transaction: BEGIN first");
  }
  await run(`SAVEPOINT ${savepoint}`, []);
  return {
    async end(cause) {
      let goesOn: boolean;
      try {
        goesOn = await release();
      } catch (error) {
        // What the work failed with says more.
        throw cause ?? error;
      }
      if (goesOn) return;
      throw new OutcomeUnknownError(
        "the transaction was ended inside the work, or went back behind where that began: what " +
          "the work sent after that stands without the fence, and may be committed",
        { backend: "mysql", ...(cause === undefined ? {} : { cause }) },
      );
    },
  };
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

/** Whether an error says that others were faster; see {@link hasState}. */
export function isConflict(
  error: unknown,
  faults: { isContention(error: unknown): boolean },
): boolean {
  return faults.isContention(error) || (error instanceof Error && isConflict(error.cause, faults));
}
