/** Transactions on a single client of `pg`, which may also be somebody's own. */
import { whenAborted } from "../../core/aborting.js";
import { OutcomeUnknownError, UnavailableError } from "../../core/errors.js";
import type { TransactionGuard } from "../../dialects/postgres.js";
import type { Row, SqlTransaction } from "../sql-work.js";
import type { Database, Limits } from "./client.js";

/** The structural subset of a client of `pg`. */
export interface SingleClient {
  query(config: string | { text: string; values: unknown[] }): Promise<unknown>;
}

// A statement that is a transaction by itself begins with it.
const IS_FREE = "SELECT now() = statement_timestamp() AS free";

/** A database of one connection, whose transactions take turns. */
export function singleClient(client: SingleClient): Database {
  let tail: Promise<unknown> = Promise.resolve();
  return {
    begin(work, limits) {
      const turn = inTurn(tail, limits).then(() => begin(client, work, limits.guard));
      tail = Promise.allSettled([tail, turn]);
      return turn;
    },
  };
}

async function inTurn(tail: Promise<unknown>, { patience }: Limits): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const end = (): void =>
      reject(new UnavailableError("the client was not free in time", { backend: "postgres" }));
    const unlisten = whenAborted(patience, end);
    void tail.then(() => {
      unlisten();
      resolve();
    });
  });
}

async function begin<R>(
  client: SingleClient,
  work: (transaction: SqlTransaction) => Promise<R>,
  guard: TransactionGuard,
): Promise<R> {
  const query = async (text: string, values?: readonly unknown[]) => ({
    rows: rowsOf(
      await client.query(values === undefined ? text : { text, values: [...values] }),
    ),
  });
  const rollBack = async (): Promise<void> => {
    await query("ROLLBACK").catch(() => undefined);
  };
  const { rows: [row] } = await query(IS_FREE);
  if (row?.["free"] !== true) {
    throw new UnavailableError(
      "this client is in a transaction of its owner: use fence.within(client, handle) in it",
      { backend: "postgres", retryable: false },
    );
  }
  const toldOf = async (error: unknown): Promise<Error | undefined> => {
    await rollBack();
    return guard.told(error);
  };
  let result: R;
  try {
    await query(`BEGIN; ${guard.first}`);
  } catch (error) {
    await rollBack();
    throw error;
  }
  let isInDoubt = false;
  try {
    result = await work({
      // On which COMMIT can be said unseen.
      get native() {
        isInDoubt = true;
        return client;
      },
      get isInDoubt() {
        return isInDoubt;
      },
      query,
    });
  } catch (error) {
    const told = await query(`${guard.last}; ROLLBACK`).then(
      () => undefined,
      async (end: unknown) => (await toldOf(end)) ?? (isInDoubt ? brokenOff(end) : undefined),
    );
    if (!(told instanceof OutcomeUnknownError)) throw error;
    throw new OutcomeUnknownError(told.message, { backend: "postgres", cause: error });
  }
  try {
    await query(`${guard.last}; ${guard.end}`);
  } catch (error) {
    const told = await toldOf(error);
    // What the server answers it answers about the transaction that was begun.
    const isAnswer = (error as { severity?: unknown }).severity !== undefined;
    throw told ?? (isInDoubt && !isAnswer ? brokenOff(error) : error);
  }
  return result;
}

function brokenOff(error: unknown): OutcomeUnknownError {
  const why = error instanceof Error ? error.message : String(error);
  return new OutcomeUnknownError(
    `the transaction was broken off inside the work: ${why}; a part of it may be committed`,
    { backend: "postgres" },
  );
}

function rowsOf(answer: unknown): readonly Row[] {
  if (Array.isArray(answer)) return answer as readonly Row[];
  const { rows } = (answer ?? {}) as { rows?: unknown };
  return Array.isArray(rows) ? (rows as readonly Row[]) : [];
}
