/** Transactions on a SQLite connection: what work is given, and what runs scripts in them. */
import { ArgumentTypeError } from "../core/errors.js";
import { endsTransaction } from "../dialects/transaction-ends.js";
import {
  drive,
  InsertNew,
  isBeforehand,
  LEFT_OUT,
  type Alone,
  type Look,
  type Script,
  type SqlRow,
  type SqlRows,
  type Step,
} from "./script.js";
import { raw, render, Sql, sql, type Rendering } from "./statement.js";

/** What can be bound. Whole numbers are bound as integers. */
export type SqliteValue = bigint | number | string | null | Uint8Array;

/** What a statement changed. */
export interface SqliteChanges {
  readonly changes: number | bigint;
  readonly lastInsertRowid: number | bigint;
}

/** A prepared statement that reads integers as `bigint`. */
export interface SqliteStatement {
  /** Whether it answers rows, where the library tells. */
  readonly reader?: boolean;
  run(...values: SqliteValue[]): SqliteChanges;
  get(...values: SqliteValue[]): unknown;
  all(...values: SqliteValue[]): unknown[];
}

/** The part of a SQLite driver's connection that is used. */
export interface SqliteConnection {
  /** Absolute path; empty for a database in memory. */
  readonly file: string;
  readonly inTransaction: boolean;
  exec(sql: string): void;
  prepare(sql: string): SqliteStatement;
  close(): void;
}

/** What the work of `transaction` is given on SQLite. Integers are read as `bigint`. */
export interface SqliteTx {
  /** The first row, or undefined. */
  get(sql: string, ...values: SqliteValue[]): SqlRow | undefined;
  all(sql: string, ...values: SqliteValue[]): SqlRow[];
  run(sql: string, ...values: SqliteValue[]): SqliteChanges;
  /** Statements without values and without rows, one or several. */
  exec(sql: string): void;
}

/** A database object of better-sqlite3 or node:sqlite. */
export interface SqliteObject {
  exec(sql: string): unknown;
  prepare(sql: string): unknown;
  close(): unknown;
}

/** An open transaction on SQLite: what work was given, or a database object that is in one. */
export type CallersSqlite = SqliteTx | SqliteObject;

/** The transaction of one piece of work; of no use once it was ended. */
export class SqliteWork implements SqliteTx {
  readonly #connection: SqliteConnection;
  #isOpen = true;

  constructor(connection: SqliteConnection) {
    this.#connection = connection;
  }

  /** The connection, as long as the work runs. */
  get connection(): SqliteConnection {
    if (!this.#isOpen) throw new TypeError("this transaction has ended");
    // SQLite ends a transaction by itself on a full disk; what follows would stand alone.
    if (!this.#connection.inTransaction) throw new TypeError("SQLite has ended this transaction");
    return this.#connection;
  }

  end(): void {
    this.#isOpen = false;
  }

  exec(text: string): void {
    this.#checked(text).exec(text);
  }

  run(text: string, ...values: SqliteValue[]): SqliteChanges {
    return this.#checked(text)
      .prepare(text)
      .run(...values.map(bindable));
  }

  get(text: string, ...values: SqliteValue[]): SqlRow | undefined {
    return this.#checked(text)
      .prepare(text)
      .get(...values.map(bindable)) as SqlRow | undefined;
  }

  all(text: string, ...values: SqliteValue[]): SqlRow[] {
    return this.#checked(text)
      .prepare(text)
      .all(...values.map(bindable)) as SqlRow[];
  }

  #checked(text: string): SqliteConnection {
    if (endsTransaction(text, "sqlite")) {
      throw new TypeError(`the transaction begins and ends around the work: ${text}`);
    }
    return this.connection;
  }
}

/** The libraries bind every number as REAL. */
function bindable(value: SqliteValue): SqliteValue {
  return typeof value === "number" && Number.isSafeInteger(value) ? BigInt(value) : value;
}

/**
 * The connection of an open transaction.
 *
 * @throws TypeError for one that is in no transaction, or of another file than the store's, where
 *   there is a store.
 */
export function connectionOf(
  tx: CallersSqlite,
  adopt: (database: unknown) => SqliteConnection,
  file: string | undefined,
): SqliteConnection {
  const connection = tx instanceof SqliteWork ? tx.connection : adopt(tx);
  if (!connection.inTransaction) {
    throw new ArgumentTypeError("tx", tx, "in a transaction: BEGIN first");
  }
  if (file !== undefined && connection.file !== file) {
    throw new ArgumentTypeError("tx", tx, `a transaction in the file of the store, ${file}`);
  }
  return connection;
}

const KEPT = 100;

/** A connection that keeps the last hundred statements it compiled: compiling costs the most. */
export function keepStatements(connection: SqliteConnection): SqliteConnection {
  const kept = new Map<string, SqliteStatement>();
  return {
    file: connection.file,
    get inTransaction() {
      return connection.inTransaction;
    },
    exec: (text) => connection.exec(text),
    close: () => connection.close(),
    prepare: (text) => {
      const statement = kept.get(text) ?? connection.prepare(text);
      // Moved to the end, so that the first is the one not used for longest.
      kept.delete(text);
      kept.set(text, statement);
      if (kept.size > KEPT) kept.delete(kept.keys().next().value ?? "");
      return statement;
    },
  };
}

/** Runs a script, or the rest of it, in the transaction that is open on a connection. */
export function runOn<R>(
  connection: SqliteConnection,
  rendering: Rendering,
  script: Script<R>,
  begun?: IteratorResult<Step, R>,
): R {
  return drive(script, (step) => execute(connection, rendering, step), begun);
}

/** Runs a statement in no transaction but its own. */
export function runAlone(
  connection: SqliteConnection,
  rendering: Rendering,
  { statement }: Look | Alone,
): SqlRows {
  if (statement instanceof Sql) return execute(connection, rendering, statement);
  const { text, values } = statement.onSqlite(rendering.nowMs());
  return ask(connection, text, values);
}

const ON_CONFLICT = raw(" ON CONFLICT DO NOTHING RETURNING 1 AS inserted");

function execute(connection: SqliteConnection, rendering: Rendering, step: Step): SqlRows {
  // In a transaction already, and there are no round trips to be saved.
  if (isBeforehand(step)) return LEFT_OUT;
  const statement = step instanceof InsertNew ? sql`${step.insert}${ON_CONFLICT}` : step;
  const { text, values } = render(statement, rendering);
  return ask(connection, text, values as SqliteValue[]);
}

function ask(connection: SqliteConnection, text: string, values: readonly SqliteValue[]): SqlRows {
  const prepared = connection.prepare(text);
  // One library refuses to ask for rows where there are none; the other answers none.
  if (prepared.reader !== false) return prepared.all(...values) as SqlRows;
  prepared.run(...values);
  return [];
}
