/**
 * Transactions on a connection of a pool.
 *
 * The server ends a transaction also when nobody said so: a deadlock rolls back all of it, not only
 * the statement that is told of it, and many statements commit what was before them. What the work
 * sends after that must not be committed by itself. So the session has autocommit off for the
 * transaction's time: it is then in another transaction, which is never committed, since a
 * savepoint that was set first is gone with the first one.
 */
import { OutcomeUnknownError, UnavailableError } from "../../core/errors.js";
import type { CorePool } from "./client.js";
import type { MysqlResult, MysqlValue, Session } from "./connection.js";
import { errorNumber, isContention } from "./errors.js";
import { reserve, sessionOf } from "./pooled.js";

/** A transaction under way. */
export interface MysqlTransaction {
  /** The library's connection. */
  readonly native: unknown;
  query(text: string, values?: readonly unknown[]): Promise<MysqlResult>;
  /** Whether a part of it may be committed, so that cutting it off need not undo all. */
  readonly isInDoubt?: boolean;
}

/** What is said around a transaction. */
export interface MysqlTransactionTexts {
  /** Statements before it, such as settings of the session: `autocommit = 0` is one of them. */
  readonly before: readonly string[];
  /** Statements after its end, however it ended: what puts the settings back. */
  readonly after: readonly string[];
  /** Set to false for statements that are no transaction, such as those that make triggers. */
  readonly isOne?: boolean;
}

/** When to give up. */
export interface MysqlTransactionLimits {
  /** Aborted when no connection was free for too long: nothing was sent then. */
  readonly patience: AbortSignal;
  /** Aborted when nobody waits any more: the connection is cut off. */
  readonly signal: AbortSignal;
}

/**
 * Runs `work` in a transaction, and rolls back when it throws. Where the connection may not be as
 * it was before, it is ended rather than given back.
 *
 * @throws What `work` throws. UnavailableError when the server has rolled the transaction back
 *   inside the work; OutcomeUnknownError when it was ended there in another way.
 */
export async function beginMysql<R>(
  pool: CorePool,
  work: (transaction: MysqlTransaction) => Promise<R>,
  { before, after, isOne = true }: MysqlTransactionTexts,
  { patience, signal }: MysqlTransactionLimits,
): Promise<R> {
  const connection = await reserve(pool, patience);
  const session = sessionOf(connection);
  const cutOff = (): void => session.destroy();
  signal.addEventListener("abort", cutOff, { once: true });
  let isClean = false;
  let underWay: UnderWay | undefined;
  try {
    for (const text of before) await session.script(text);
    if (isOne) underWay = await UnderWay.start(session, connection);
    const result = await work(underWay ?? { native: connection, query: queryOn(session) });
    await underWay?.mustGoOn();
    await session.script("COMMIT");
    // What was committed stays so, whatever becomes of the settings.
    isClean = await succeed(session, after);
    return result;
  } catch (error) {
    const told = await underWay?.toldOf(error);
    isClean = session.isOpen && (await succeed(session, ["ROLLBACK", ...after]));
    throw told ?? error;
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

/** Kinds of statements that MySQL does not prepare. They answer no rows. */
const NOT_PREPARED =
  /^\s*(CREATE|DROP|ALTER|LOCK|UNLOCK|USE|LOAD|SAVEPOINT|ROLLBACK|RELEASE|TRUNCATE)\b/i;

function queryOn(session: Session): MysqlTransaction["query"] {
  return (text, values = []) =>
    NOT_PREPARED.test(text)
      ? session.script(text)
      : session.query(text, values as readonly MysqlValue[]);
}

/** There is no such savepoint. */
const GONE = 1305;
const DEADLOCK = 1213;
/** What cannot commit, whatever is inside: neither functions nor triggers may. */
const NEVER_COMMITS = new RegExp(
  String.raw`^\s*(SELECT|INSERT|UPDATE|DELETE|REPLACE|WITH|SHOW|EXPLAIN|\()` +
    // These are not prepared, and so may have other statements behind them.
    String.raw`|^\s*(SAVEPOINT|RELEASE|ROLLBACK)\b[^;]*;?\s*$`,
  "i",
);

let count = 0;

/** A transaction that has begun, and what is known of its end. */
class UnderWay implements MysqlTransaction {
  readonly #session: Session;
  readonly #connection: unknown;
  readonly #query: MysqlTransaction["query"];
  readonly #savepoint = `tenure_transaction_${(count += 1)}`;
  /** Whether something may have been committed that nobody saw. */
  #isWatched = true;
  #wasSeenInside = false;
  /** What the server rolled back for. */
  #conflict: Error | undefined;
  /** What the work is told from the transaction's end on. */
  #end: Error | undefined;

  static async start(session: Session, connection: unknown): Promise<UnderWay> {
    const underWay = new UnderWay(session, connection);
    await session.script(`SAVEPOINT ${underWay.#savepoint}`);
    return underWay;
  }

  private constructor(session: Session, connection: unknown) {
    this.#session = session;
    this.#connection = connection;
    this.#query = queryOn(session);
  }

  get native(): unknown {
    this.#isWatched = false;
    return this.#connection;
  }

  get isInDoubt(): boolean {
    return !this.#isWatched || this.#end instanceof OutcomeUnknownError;
  }

  async query(text: string, values?: readonly unknown[]): Promise<MysqlResult> {
    if (this.#end !== undefined) throw this.#end;
    // Also where it fails, or is cut off: it may have committed before.
    if (!NEVER_COMMITS.test(text)) this.#isWatched = false;
    let result: MysqlResult;
    try {
      result = await this.#query(text, values);
    } catch (error) {
      if (isContention(error)) this.#conflict ??= error as Error;
      if (errorNumber(error) === DEADLOCK) this.#end ??= this.#error();
      throw error;
    }
    const { isInTransaction } = result;
    if (isInTransaction === false && this.#wasSeenInside) {
      this.#end ??= this.#error(text);
      throw this.#end;
    }
    if (isInTransaction === true) this.#wasSeenInside = true;
    return result;
  }

  /** @throws When it is not the transaction any more that was begun. */
  async mustGoOn(): Promise<void> {
    try {
      await this.#session.script(`RELEASE SAVEPOINT ${this.#savepoint}`);
    } catch (error) {
      if (errorNumber(error) !== GONE) {
        const why = error instanceof Error ? error.message : String(error);
        const message = `the transaction was broken off before COMMIT: ${why}`;
        const context = { backend: "mysql", cause: error };
        if (!this.isInDoubt) throw new UnavailableError(message, context);
        throw new OutcomeUnknownError(`${message}; a part of it may be committed`, context);
      }
      throw (this.#end ??= this.#error());
    }
  }

  /** What is to be told instead of what the work threw, which says that nothing is left of it. */
  async toldOf(error: unknown): Promise<Error | undefined> {
    // Where the session has ended, too: that undoes only what is not committed.
    const end = this.#end ?? (await this.mustGoOn().catch((reason: unknown) => reason));
    if (end === error || !(end instanceof OutcomeUnknownError)) return undefined;
    // A conflict that was let through is what ended it.
    if (this.#isWatched && isConflict(error)) return undefined;
    return new OutcomeUnknownError(end.message, { backend: "mysql", cause: error });
  }

  #error(text?: string): Error {
    const cause = this.#conflict;
    if (cause !== undefined && this.#isWatched) {
      const message = `the server rolled all of it back inside the work: ${cause.message}`;
      return new UnavailableError(message, { backend: "mysql", cause });
    }
    const by = text === undefined ? "" : ` (by ${text.trim().slice(0, 100)})`;
    const message = `the transaction was ended inside the work${by}: a part of it may be committed`;
    return new OutcomeUnknownError(message, {
      backend: "mysql",
      ...(cause === undefined ? {} : { cause }),
    });
  }
}

/** Errors of query builders carry the server's inside. */
function isConflict(error: unknown): boolean {
  return isContention(error) || (error instanceof Error && isConflict(error.cause));
}
