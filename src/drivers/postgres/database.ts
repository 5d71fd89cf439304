/** A pool of connections, whatever the client library, and connections of our own beside it. */
import { OutcomeUnknownError } from "../../core/errors.js";
import { knownPostgres } from "./client.js";
import type {
  PostgresBeginning,
  PostgresConnection,
  PostgresLimits,
  PostgresResult,
  PostgresRunning,
  PostgresTransaction,
  PostgresValue,
} from "./connection.js";
import { endsSession, explainPostgres, sqlState } from "./errors.js";
import type { KeptSession } from "./kept.js";
import { beginPg, onPgSession, runPg } from "./pg.js";
import { beginSql, runSql } from "./sql.js";

/** A Postgres database. Its methods reject with what the library threw: see `explainPostgres`. */
export interface PostgresDatabase {
  /** One statement, by itself a transaction, on a connection of the pool. */
  run(
    text: string,
    values: readonly PostgresValue[],
    running: PostgresRunning,
  ): Promise<PostgresResult>;
  /** Runs `work` with scripts that are each a transaction; see `runKept`. */
  onSession<R>(
    work: (session: KeptSession) => Promise<R>,
    limits: PostgresLimits,
  ): Promise<R>;
  /** Runs `work` between BEGIN and COMMIT, on a connection of the pool; see `transact`. */
  begin<R>(
    work: (transaction: PostgresTransaction) => Promise<R>,
    beginning: PostgresBeginning,
  ): Promise<R>;
  /**
   * A connection of our own, beside the pool and not counted by it. See `connectWithin`.
   *
   * @param waitingMs how long the caller waits for it, milliseconds
   */
  readonly connect: (waitingMs?: number) => Promise<PostgresConnection>;
  /** Closes what we have opened; never a caller's pool. */
  readonly close: () => Promise<void>;
}

/** How a database makes connections of its own, and ends them. */
export interface PostgresOpening {
  readonly connect: (waitingMs?: number) => Promise<PostgresConnection>;
  readonly close: () => Promise<void>;
}

/**
 * A database over a pool of `pg` or an instance of `postgres`.
 *
 * @throws TypeError for anything else.
 */
export function poolDatabase(
  pool: unknown,
  opening: PostgresOpening,
  option = "pool",
): PostgresDatabase {
  const known = knownPostgres(pool, option);
  if (known.kind === "postgres") {
    const { client } = known;
    return {
      ...opening,
      run: (text, values, running) => runSql(client, text, values, running),
      // Which of its connections comes next the library keeps to itself.
      onSession: (work, limits) => work({ run: (text) => runSql(client, text, [], limits) }),
      begin: (work, limits) => beginSql(client, work, limits),
    };
  }
  if (known.kind === "pg-client") throw new TypeError("one client is no pool");
  const { client } = known;
  return {
    ...opening,
    run: (text, values, running) => runPg(client, text, values, running),
    onSession: (work, limits) => onPgSession(client, work, limits),
    begin: (work, limits) => beginPg(client, work, limits),
  };
}

/** How a transaction is run. */
export interface TransactionOptions extends PostgresLimits {
  /**
   * Longest that the server waits for anything in it, milliseconds: for a lock, for a statement to
   * end, for the next one to come. It ends the transaction then, also when this process is frozen.
   * Several such waits can follow one another.
   */
  readonly timeoutMs: number;
  /** What is being done, as it stands after "cannot". */
  readonly during: string;
}

const SET_TIMEOUTS = `SELECT set_config('statement_timeout', $1, true),
  set_config('lock_timeout', $1, true),
  set_config('idle_in_transaction_session_timeout', $1, true)`;

/**
 * Runs `work` in a transaction of the pool, with time-outs in the server. Rolls back when it
 * throws.
 *
 * @throws What `work` throws. UnavailableError when nothing was committed. OutcomeUnknownError when
 *   the COMMIT was not answered, or with the end of the session.
 */
export async function transact<R>(
  database: Pick<PostgresDatabase, "begin">,
  work: (transaction: PostgresTransaction) => Promise<R>,
  { timeoutMs, during, ...limits }: TransactionOptions,
): Promise<R> {
  let stage: "before" | "work" | "commit" = "before";
  const ms = String(Math.max(1, Math.floor(timeoutMs)));
  try {
    return await database.begin(async (transaction) => {
      await transaction.query(SET_TIMEOUTS, [ms]);
      stage = "work";
      const result = await work(transaction);
      stage = "commit";
      return result;
    }, limits);
  } catch (error) {
    if ((stage as string) === "work") throw error;
    const unsent = (stage as string) === "before";
    const explained = explainPostgres(error, { during, backend: "postgres", unsent });
    const isRefused = sqlState(error) !== undefined && !endsSession(error);
    if (unsent || isRefused || explained === error) throw explained;
    const message = `cannot ${during}: the COMMIT was answered by the end of the connection`;
    throw new OutcomeUnknownError(message, { backend: "postgres", cause: error });
  }
}
