/** Transactions on a server: what work is given, and a caller's own as we use it. */
import {
  ArgumentTypeError,
  OutcomeUnknownError,
  TenureError,
  UnavailableError,
} from "../core/errors.js";
import { isInside, runsInside } from "../dialects/mysql-callers.js";
import { endsTransaction } from "../dialects/transaction-ends.js";
import type { SqlRow, SqlRows } from "./script.js";
import type { Dialect } from "./statement.js";

/** A transaction as a driver gives it. */
export interface ServerTransaction {
  /** The library's own object, on the connection of the transaction. */
  readonly native: unknown;
  query(text: string, values?: readonly unknown[]): Promise<{ readonly rows: SqlRows }>;
  /** Whether a part of it may be committed, so that cutting it off need not undo all. */
  readonly isInDoubt?: boolean;
}

/** What the work of `transaction` is given on a server. */
export interface ServerTx {
  /**
   * One statement, with the placeholders of the server (`$1` or `?`); answers its rows. Statements
   * run one after the other. One that fails undoes the transaction, also if its error is caught.
   */
  query<R extends object = SqlRow>(text: string, values?: readonly unknown[]): Promise<R[]>;
  /**
   * The library's own object on the connection of this transaction, for query builders: a client
   * of `pg`, the function that `postgres` hands to `begin`, a connection of `mysql2`. Not to be
   * kept beyond the work: what is sent later runs outside the transaction.
   */
  readonly native: unknown;
}

/** Runs one statement in the caller's transaction; answers rows as its library does. */
export type RunSql = (text: string, values: unknown[]) => PromiseLike<unknown>;

/**
 * An open transaction on a server: what work was given; a client of `pg` after BEGIN; what
 * `postgres` hands to `begin`; a connection of `mysql2` after BEGIN; or a function that runs one
 * statement in one, for query builders: the same one for all that is done in it.
 */
export type CallersServer =
  | ServerTx
  | { query(...args: never[]): unknown }
  | { unsafe(text: string, values?: never[]): PromiseLike<unknown> }
  | RunSql;

/** PostgreSQL to each statement after one that failed: in_failed_sql_transaction. */
const IS_UNDONE = "25P02";

/** The transaction of one piece of work. */
export class ServerWork implements ServerTx {
  readonly #transaction: ServerTransaction;
  readonly #dialect: Dialect;
  readonly #pending = new Set<Promise<unknown>>();
  /** What statements failed with: the library's errors, not the caller's own. */
  readonly #failures = new WeakSet<object>();
  #first: unknown;
  #isOpen = true;

  constructor(transaction: ServerTransaction, dialect: Dialect) {
    this.#transaction = transaction;
    this.#dialect = dialect;
  }

  get native(): unknown {
    this.#check();
    return this.#transaction.native;
  }

  query<R extends object = SqlRow>(text: string, values?: readonly unknown[]): Promise<R[]> {
    if (endsTransaction(text, this.#dialect)) {
      throw new TypeError(`the transaction begins and ends around the work: ${text}`);
    }
    this.#check();
    const answer = this.ask(text, values) as Promise<R[]>;
    answer.catch((error: unknown) => {
      this.#first ??= error;
      if (typeof error === "object" && error !== null) this.#failures.add(error);
    });
    return this.keep(answer);
  }

  /** One statement of our own, as part of what is kept. */
  async ask(text: string, values?: readonly unknown[]): Promise<SqlRows> {
    this.#check();
    return (await this.#transaction.query(text, values)).rows;
  }

  /**
   * Keeps something that was begun in this transaction, until it has succeeded: nobody may be
   * awaiting it, and where it fails it must not be committed over. What was only refused has
   * changed nothing.
   */
  keep<R>(answer: Promise<R>): Promise<R> {
    this.#pending.add(answer);
    answer.then(
      () => this.#pending.delete(answer),
      (error: unknown) => {
        const { family } = (error ?? {}) as { family?: unknown };
        if (family === "refused" || family === "caller") this.#pending.delete(answer);
      },
    );
    return answer;
  }

  get dialect(): Dialect {
    return this.#dialect;
  }

  /** Whether an error is what a statement failed with. */
  failedWith(error: unknown): boolean {
    return typeof error === "object" && error !== null && this.#failures.has(error);
  }

  /**
   * What undid the work, for an error that only says that the transaction is undone: a statement
   * before it, whose failure nobody awaited or somebody caught. Undefined for any other error.
   */
  undoneBy(error: unknown): UnavailableError | undefined {
    // A statement of ours has it as the cause of its own error; the caller's own errors are theirs.
    const told = error instanceof TenureError ? error.cause : error;
    const isUndone = (told as { readonly code?: unknown } | null | undefined)?.code === IS_UNDONE;
    return isUndone && this.#first !== undefined ? this.#undone(this.#first) : undefined;
  }

  /** Of no use from here on. Rejects when a statement failed, whether or not it was awaited. */
  async end(): Promise<void> {
    this.#isOpen = false;
    try {
      await Promise.all(this.#pending);
    } catch (cause) {
      throw this.#undone(cause);
    }
  }

  #undone(cause: unknown): UnavailableError {
    const why = cause instanceof Error ? cause.message : String(cause);
    const text = `a statement failed, so nothing was committed: ${why}`;
    return new UnavailableError(text, { backend: this.#dialect, cause });
  }

  /** Of no use from here on, whatever becomes of its statements. */
  abandon(): void {
    this.#isOpen = false;
  }

  #check(): void {
    if (!this.#isOpen) throw new TypeError("this transaction has ended");
  }
}

/** Runs a statement in an open transaction; answers its rows. */
export type Ask = (text: string, values: readonly unknown[]) => Promise<SqlRows>;

/**
 * How to run statements in an open transaction, for one operation each. A caller's own is asked at
 * the first statement whether it is in one; on MySQL in every operation, since a deadlock ends it
 * without a word of the caller's, and what is sent then would be committed by itself.
 *
 * @throws TypeError for anything else than a transaction.
 */
export function askIn(tx: CallersServer, dialect: "postgres" | "mysql"): () => Ask {
  if (tx instanceof ServerWork) return () => (text, values) => tx.ask(text, values);
  if (dialect === "mysql") return askMysql(tx);
  const ask = askPostgres(tx);
  return () => ask;
}

type Shape = Readonly<Record<"query" | "execute" | "unsafe" | "savepoint", unknown>> | null;

function askPostgres(tx: unknown): Ask {
  const given = tx as Shape;
  if (typeof given?.unsafe === "function") {
    if (!("savepoint" in given)) throw notIn(tx);
    return asking(given.unsafe.bind(given) as RunSql);
  }
  const isClient = typeof given === "object" && typeof given?.query === "function";
  if (isClient && "totalCount" in given) throw notIn(tx);
  if (!isClient && typeof tx !== "function") throw notIn(tx);
  const { query } = (given ?? {}) as { query?: RunSql };
  const ask = asking(
    isClient ? (text, values) => query!.call(given, text, values) : (tx as RunSql),
  );
  return onceChecked(ask, async () => {
    // A statement that is a transaction by itself begins with it.
    const [row] = await ask("SELECT now() = statement_timestamp() AS is_free", []);
    if (row?.["is_free"] === true) throw notIn(tx);
  });
}

/** However the connection is set. */
const READING = {
  supportBigNumbers: true,
  bigNumberStrings: true,
  rowsAsArray: false,
  nestTables: false,
  typeCast: true,
} as const;

function askMysql(tx: unknown): () => Ask {
  let wasInside = false;
  const mustBe = (isInside: boolean): void => {
    if (!isInside) throw wasInside ? hasEnded() : notIn(tx);
    wasInside = true;
  };
  if (typeof tx === "function") {
    const run = tx as RunSql;
    return () => onceChecked(asking(run), async () => mustBe(await runsInside(run)));
  }
  let given = tx as (Shape & { promise?: () => unknown; getConnection?: unknown }) | null;
  if (typeof given?.execute !== "function" || given.getConnection !== undefined) throw notIn(tx);
  // A connection of the kind without promises makes one that has them.
  if (typeof given.promise === "function") given = given.promise() as typeof given;
  const execute = given.execute as (statement: object) => PromiseLike<unknown>;
  const send = (text: string, values: readonly unknown[]): PromiseLike<unknown> =>
    execute.call(given, { ...READING, sql: text, values: [...values] });
  const ask: Ask = async (text, values) => {
    const answer = await send(text, values);
    // Something else on the connection has ended it between two statements of ours.
    if (!isInside(answer)) throw standsAlone();
    return rowsOf(answer);
  };
  return () => onceChecked(ask, async () => mustBe(isInside(await send("DO 0", []))));
}

function hasEnded(): UnavailableError {
  return new UnavailableError(
    "nothing was sent: the transaction has ended, perhaps by a deadlock, which rolls back all of " +
      "it; roll back, and run the transaction again",
    { backend: "mysql" },
  );
}

function standsAlone(): OutcomeUnknownError {
  return new OutcomeUnknownError(
    "the transaction was ended while this was under way, by another statement on its connection: " +
      "a part of this may be committed by itself",
    { backend: "mysql" },
  );
}

function asking(run: (text: string, values: unknown[]) => PromiseLike<unknown>): Ask {
  return async (text, values) => rowsOf(await run(text, [...values]));
}

function onceChecked(ask: Ask, check: () => Promise<void>): Ask {
  let checked: Promise<void> | undefined;
  return async (text, values) => {
    await (checked ??= check());
    return await ask(text, values);
  };
}

/** Rows as the libraries and query builders give them. */
function rowsOf(answer: unknown): SqlRows {
  const { rows } = (answer ?? {}) as { rows?: unknown };
  if (Array.isArray(rows)) return rows as SqlRows;
  if (!Array.isArray(answer)) return [];
  // mysql2: rows and columns, or a header and nothing.
  const isPair = answer.length === 2 && (Array.isArray(answer[0]) || answer[1] === undefined);
  if (!isPair) return answer as SqlRows;
  return Array.isArray(answer[0]) ? (answer[0] as SqlRows) : [];
}

function notIn(tx: unknown): ArgumentTypeError {
  const must =
    "a connection in a transaction (after BEGIN, or what sql.begin hands to its function; not a " +
    "pool, nor sql itself), or a function that runs a statement in one";
  return new ArgumentTypeError("tx", tx, must);
}
