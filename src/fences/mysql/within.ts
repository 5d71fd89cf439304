/** The fence inside a transaction that the caller has begun. */
import { ArgumentTypeError, OutcomeUnknownError } from "../../core/errors.js";
import { watch } from "../../dialects/mysql-callers.js";

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

/** The caller's transaction, which the work may end. */
export interface Watch {
  /**
   * To be called behind the work.
   *
   * @throws OutcomeUnknownError when it does not go on: autocommit is the caller's, so what the
   *   work sent after its end is committed by itself.
   */
  end(cause?: unknown): Promise<void>;
  /** To be called in the end, also where the work was never run. */
  forget(): void;
}

/** @throws TypeError outside a transaction, where the mark's lock would end with the statement. */
export async function watchTransaction(run: RunSql, given: CallersTransaction): Promise<Watch> {
  const watched = await watch(run, given);
  if (watched === null) {
    throw new ArgumentTypeError("transaction", given, "in a transaction: BEGIN first");
  }
  return {
    async end(cause) {
      let goesOn: boolean;
      try {
        goesOn = await watched.goesOn();
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
    forget: () => watched.forget(),
  };
}

interface ServersError extends Error {
  readonly sqlState?: unknown;
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
