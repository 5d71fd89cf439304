/** The part of a SQLite driver that the fence uses, and the part of it that work is given. */
import type { TenureError } from "../../core/errors.js";
import { endsTransaction } from "../../dialects/transaction-ends.js";
import type { FenceRuntime } from "../contract.js";

/** What can be bound. Whole numbers are bound as integers. */
export type Value = bigint | number | string | null | Uint8Array;

/** What a statement changed. */
export interface Changes {
  readonly changes: number | bigint;
  readonly lastInsertRowid: number | bigint;
}

/** A prepared statement that reads every integer as `bigint`. */
export interface Statement {
  run(...values: Value[]): Changes;
  get(...values: Value[]): unknown;
  all(...values: Value[]): unknown[];
}

/** One connection to a file. */
export interface Connection {
  /** Absolute path; empty for a database in memory. */
  readonly file: string;
  readonly inTransaction: boolean;
  exec(sql: string): void;
  prepare(sql: string): Statement;
  close(): void;
}

/** What the fence is given: where to connect, and how to read the driver's errors. */
export interface SqliteParts {
  readonly runtime: FenceRuntime;
  /** Asked for once, at the first use. */
  connect(): Promise<Connection>;
  /** Whether `close` of the fence closes the connection. */
  readonly ownsConnection: boolean;
  /** Whether another connection has the lock: nothing happened, and it can be tried again. */
  isBusy(error: unknown): boolean;
  /** An error of Tenure for what was thrown `during` a step; `committing`: by COMMIT itself. */
  explain(error: unknown, during: string, committing: boolean): TenureError;
  readonly heldCheck: HeldCheck;
  /** The file as it is now: to be asked for as soon as it is open. */
  place(connection: Connection): SqlitePlace;
}

/** Where the file was found. */
export interface SqlitePlace {
  /** To be called in a transaction: before the first there may be no log. */
  begun(): void;
  /**
   * Looks at most every 100 ms unless `now` is set, as before whatever writes.
   *
   * @throws UnavailableError when it was deleted or replaced since.
   */
  check(now?: boolean): void;
}

/** How a lease record in the same file is tested. */
export interface HeldCheck {
  /** Answers one row while the grant stands. Values: name, holder, token, then those of `now`. */
  readonly sql: string;
  /** Answers one row where the file keeps leases at all. */
  readonly keepsLeasesSql: string;
  /** Answers the `id` of the store whose leases the file keeps. */
  readonly storeIdSql: string;
  /**
   * A clock that answers the values that say what time it is for the file's leases. To be read once
   * the file is locked: a lease that ended during the wait for the lock has ended.
   */
  clock(): Promise<() => readonly Value[]>;
}

/** A statement's row; integers are `bigint`. */
export type Row = Readonly<Record<string, Value>>;

/** What the work of a read is given: the connection, inside the transaction. */
export interface SqliteReadTx {
  /** The first row, or undefined. */
  get(sql: string, ...values: Value[]): Row | undefined;
  all(sql: string, ...values: Value[]): Row[];
}

/** What the work of a write is given. Integers are read as `bigint`. */
export interface SqliteTx extends SqliteReadTx {
  /** Statements without values and without rows, one or several. */
  exec(sql: string): void;
  run(sql: string, ...values: Value[]): Changes;
}

const KEPT = 100;

/**
 * A connection that keeps the last hundred statements it compiled: compiling one costs more than
 * running most of them.
 */
export function keepStatements(connection: Connection): Connection {
  const kept = new Map<string, Statement>();
  return {
    file: connection.file,
    get inTransaction() {
      return connection.inTransaction;
    },
    exec: (sql) => connection.exec(sql),
    close: () => connection.close(),
    prepare: (sql) => {
      const statement = kept.get(sql) ?? connection.prepare(sql);
      // Moved to the end, so that the first is the one not used for longest.
      kept.delete(sql);
      kept.set(sql, statement);
      if (kept.size > KEPT) kept.delete(kept.keys().next().value ?? "");
      return statement;
    },
  };
}

/** The transaction of one piece of work; of no use once `isOpen` says no. */
export function transactionOf(connection: Connection, isOpen: () => boolean): SqliteTx {
  const check = (sql: string): void => {
    if (!isOpen()) throw new TypeError("this transaction has ended");
    if (endsTransaction(sql, "sqlite")) {
      throw new TypeError(`the fence begins and ends the transaction: ${sql}`);
    }
    // SQLite ends a transaction by itself on a full disk; what follows would stand alone.
    if (!connection.inTransaction) throw new TypeError("SQLite has ended this transaction");
  };
  const prepare = (sql: string): Statement => {
    check(sql);
    return connection.prepare(sql);
  };
  return {
    exec: (sql) => {
      check(sql);
      connection.exec(sql);
    },
    run: (sql, ...values) => prepare(sql).run(...values.map(bind)),
    get: (sql, ...values) => prepare(sql).get(...values.map(bind)) as Row | undefined,
    all: (sql, ...values) => prepare(sql).all(...values.map(bind)) as Row[],
  };
}

/** The libraries bind every number as REAL. */
function bind(value: Value): Value {
  return typeof value === "number" && Number.isSafeInteger(value) ? BigInt(value) : value;
}
