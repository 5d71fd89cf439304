/** A pool of connections, and connections of our own beside it. */
import type { CorePool, CorePoolConnection } from "./client.js";
import { Session, type MysqlConnection, type MysqlLimits, type MysqlResult } from "./connection.js";
import type { MysqlValue } from "./connection.js";
import { errorNumber, explainMysql } from "./errors.js";
import { reserve, sessionOf } from "./pooled.js";
import {
  beginMysql,
  type MysqlTransaction,
  type MysqlTransactionLimits,
  type MysqlTransactionTexts,
} from "./transactions.js";

/** A MySQL database. Its methods reject with what the library threw: see `explainMysql`. */
export interface MysqlDatabase {
  /** One statement, by itself a transaction, on a connection of the pool. */
  run(text: string, values: readonly MysqlValue[], limits: MysqlLimits): Promise<MysqlResult>;
  /** Runs `work` in a transaction on a connection of the pool; see `beginMysql`. */
  begin<R>(
    work: (transaction: MysqlTransaction) => Promise<R>,
    texts: MysqlTransactionTexts,
    limits: MysqlTransactionLimits,
  ): Promise<R>;
  /**
   * A connection of our own, beside the pool and not counted by it. See `connectWithin`.
   *
   * @param waitingMs how long the caller waits for it, milliseconds
   */
  readonly connect: (waitingMs?: number) => Promise<MysqlConnection>;
  /** Closes what we have opened; never a caller's pool. */
  readonly close: () => Promise<void>;
}

/** How a database makes connections of its own, and ends them. */
export type MysqlOpening = Pick<MysqlDatabase, "connect" | "close">;

const nothing = (): void => undefined;

/** A database over a pool. */
export function poolDatabase(pool: CorePool, opening: MysqlOpening): MysqlDatabase {
  return {
    ...opening,
    run: (text, values, limits) =>
      withSession(pool, limits, (session) => session.query(text, values)),
    begin: (work, texts, limits) => beginMysql(pool, work, texts, limits),
  };
}

async function withSession<R>(
  pool: CorePool,
  { patience, signal }: MysqlLimits,
  work: (session: Session) => Promise<R>,
): Promise<R> {
  const connection = await reserve(pool, patience);
  const session = sessionOf(connection);
  const cutOff = (): void => session.destroy();
  if (signal?.aborted === true) cutOff();
  signal?.addEventListener("abort", cutOff, { once: true });
  let isBroken = false;
  try {
    return await work(session);
  } catch (error) {
    // After an error of the server the connection goes on.
    isBroken = errorNumber(error) === undefined;
    throw error;
  } finally {
    signal?.removeEventListener("abort", cutOff);
    if (isBroken && session.isOpen) session.destroy();
    if (session.isOpen) connection.release();
  }
}

/** Connects a connection of our own, with the settings of a pool or a URL. */
export async function connectOwn(
  create: (settings: object) => unknown,
  settings: object,
): Promise<MysqlConnection> {
  const connection = create(settings) as CorePoolConnection;
  try {
    await new Promise<void>((resolve, reject) => {
      connection.once("connect", () => resolve());
      connection.once("error", reject);
    });
  } catch (error) {
    connection.on("error", nothing);
    connection.destroy();
    throw explainMysql(error, { during: "connect", backend: "mysql", unsent: true });
  }
  return new Session(connection);
}
