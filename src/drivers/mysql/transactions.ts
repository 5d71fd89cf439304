/** Transactions on a connection of a pool. */
import { UnavailableError } from "../../core/errors.js";
import type { CorePool, CorePoolConnection } from "./client.js";
import { Session, type MysqlResult, type MysqlValue } from "./connection.js";
import { explainMysql } from "./errors.js";

/** A transaction under way. */
export interface MysqlTransaction {
  /** The library's connection. */
  readonly native: unknown;
  query(text: string, values?: readonly unknown[]): Promise<MysqlResult>;
}

/** How a transaction begins and ends. */
export interface MysqlTransactionTexts {
  /** Statements before it, such as settings of the session. */
  readonly before: readonly string[];
  readonly start: string;
  /** Statements after its end, however it ended: what puts the settings back. */
  readonly after: readonly string[];
}

/** When to give up. */
export interface MysqlTransactionLimits {
  /** Aborted when no connection was free for too long: nothing was sent then. */
  readonly patience: AbortSignal;
  /** Aborted when nobody waits any more: the connection is cut off. */
  readonly signal: AbortSignal;
}

/** Kinds of statements that MySQL does not prepare. They answer no rows. */
const NOT_PREPARED =
  /^\s*(CREATE|DROP|ALTER|LOCK|UNLOCK|USE|LOAD|SAVEPOINT|ROLLBACK|RELEASE|TRUNCATE)\b/i;

/** Listeners are added once to a connection, however often it is taken out of its pool. */
const sessions = new WeakMap<CorePoolConnection, Session>();

/**
 * Runs `work` in a transaction, and rolls back when it throws. Where the connection may not be as
 * it was before, it is ended rather than given back.
 */
export async function beginMysql<R>(
  pool: CorePool,
  work: (transaction: MysqlTransaction) => Promise<R>,
  { before, start, after }: MysqlTransactionTexts,
  { patience, signal }: MysqlTransactionLimits,
): Promise<R> {
  const connection = await reserve(pool, patience);
  const session = sessions.get(connection) ?? new Session(connection);
  sessions.set(connection, session);
  const cutOff = (): void => session.destroy();
  signal.addEventListener("abort", cutOff, { once: true });
  let isClean = false;
  try {
    for (const text of before) await session.script(text);
    await session.script(start);
    const result = await work({
      native: connection,
      query: (text, values = []) =>
        NOT_PREPARED.test(text)
          ? session.script(text)
          : session.query(text, values as readonly MysqlValue[]),
    });
    await session.script("COMMIT");
    // What was committed stays so, whatever becomes of the settings.
    isClean = await succeed(session, after);
    return result;
  } catch (error) {
    isClean = session.isOpen && (await succeed(session, ["ROLLBACK", ...after]));
    throw error;
  } finally {
    signal.removeEventListener("abort", cutOff);
    if (!isClean && session.isOpen) session.destroy();
    if (session.isOpen) connection.release();
  }
}

async function succeed(session: Session, texts: readonly string[]): Promise<boolean> {
  try {
    for (const text of texts) await session.script(text);
    return true;
  } catch {
    return false;
  }
}

/** A free connection, no later than somebody has patience; one that comes later is given back. */
function reserve(pool: CorePool, patience: AbortSignal): Promise<CorePoolConnection> {
  return new Promise((resolve, reject) => {
    let isOver = false;
    const end = (): void => {
      isOver = true;
      reject(
        new UnavailableError("the pool had no free connection in time: all are in use", {
          backend: "mysql",
        }),
      );
    };
    patience.addEventListener("abort", end, { once: true });
    pool.getConnection((error, connection) => {
      patience.removeEventListener("abort", end);
      if (error !== null && error !== undefined) {
        reject(explainMysql(error, { during: "connect", backend: "mysql", unsent: true }));
      } else if (isOver) connection.release();
      else resolve(connection);
    });
  });
}

