/**
 * The part of a SQLite library that Tenure uses, and the adapters that give `node:sqlite` and
 * `better-sqlite3` this one shape.
 *
 * Integers are always read as `bigint`, in every result column: a token beyond 2^53 must not pass
 * through a double. Numbers are bound as REAL by both libraries, so integers are bound as `bigint`.
 *
 * A statement that returns no rows is run with `run`, one that returns rows with `get` or `all`.
 * Not to be used: `get` on an autocommit `INSERT … RETURNING`. Both libraries stop after the first
 * row, before the commit, and so answer rows whose commit then fails (on a full disk, every time).
 */
import { ArgumentTypeError } from "../../core/errors.js";

/** Which SQLite library. Two of them on one file in one process do not see each other's locks. */
export type SqliteLibrary = "node:sqlite" | "better-sqlite3";

/** What can be bound. Bind integers as `bigint`. */
export type SqliteInput = bigint | number | string | null | Uint8Array;

/** What a statement changed. */
export interface SqliteChanges {
  /** Rows inserted, updated or deleted; a `number` or a `bigint`, by library. */
  readonly changes: number | bigint;
  readonly lastInsertRowid: number | bigint;
}

/** A prepared statement that reads integers as `bigint`. Compiled once; keep it. */
export interface SqliteStatement {
  run(...values: SqliteInput[]): SqliteChanges;
  get(...values: SqliteInput[]): unknown;
  all(...values: SqliteInput[]): unknown[];
}

/** One connection. All methods are synchronous and throw the library's own errors. */
export interface SqliteDatabase {
  readonly library: SqliteLibrary;
  /** Absolute path as SQLite knows it; empty for an in-memory or temporary database. */
  readonly file: string;
  /** Whether a transaction is open on this connection. */
  readonly inTransaction: boolean;
  exec(sql: string): void;
  prepare(sql: string): SqliteStatement;
  close(): void;
}

/** The structural subset of a `better-sqlite3` database. */
export interface BetterSqlite3Like {
  readonly inTransaction: boolean;
  exec(sql: string): unknown;
  prepare(sql: string): { safeIntegers(on?: boolean): unknown };
  pragma(sql: string): unknown;
  close(): unknown;
}

/** The structural subset of a `node:sqlite` database (`DatabaseSync`). */
export interface NodeSqliteLike {
  /** From Node 22.16; without it the state is probed. */
  readonly isTransaction?: boolean;
  exec(sql: string): void;
  prepare(sql: string): { setReadBigInts(on: boolean): void };
  createSession(): unknown;
  close(): void;
}

/** A database object of either library, as a caller hands it over. */
export type UserSqliteDatabase = BetterSqlite3Like | NodeSqliteLike;

/**
 * A caller's own database object as a `SqliteDatabase`, recognised by its shape.
 *
 * Nothing is set on the connection: pragmas and the busy time-out stay the caller's.
 *
 * @throws TypeError for anything else.
 */
export function fromUserDatabase(db: unknown, option = "database"): SqliteDatabase {
  if (isBetterSqlite3(db)) return fromBetterSqlite3(db);
  if (isNodeSqlite(db)) return fromNodeSqlite(db);
  throw new ArgumentTypeError(option, db, "a database of node:sqlite or of better-sqlite3");
}

function hasMethods(value: unknown, names: readonly string[]): value is object {
  if (typeof value !== "object" || value === null) return false;
  return names.every((name) => typeof (value as Record<string, unknown>)[name] === "function");
}

function isBetterSqlite3(value: unknown): value is BetterSqlite3Like {
  return hasMethods(value, ["exec", "prepare", "pragma", "close"]) && "inTransaction" in value;
}

function isNodeSqlite(value: unknown): value is NodeSqliteLike {
  return hasMethods(value, ["exec", "prepare", "createSession", "close"]);
}

/** A `better-sqlite3` database in the common shape. */
export function fromBetterSqlite3(db: BetterSqlite3Like): SqliteDatabase {
  return {
    library: "better-sqlite3",
    file: mainFile((sql) => statement(db, sql)),
    get inTransaction() {
      return db.inTransaction;
    },
    exec: (sql) => void db.exec(sql),
    prepare: (sql) => statement(db, sql),
    close: () => void db.close(),
  };
}

function statement(db: BetterSqlite3Like, sql: string): SqliteStatement {
  const prepared = db.prepare(sql);
  prepared.safeIntegers(true);
  return prepared as unknown as SqliteStatement;
}

/** A `node:sqlite` database in the common shape. */
export function fromNodeSqlite(db: NodeSqliteLike): SqliteDatabase {
  const prepare = (sql: string): SqliteStatement => {
    const prepared = db.prepare(sql);
    prepared.setReadBigInts(true);
    return prepared as unknown as SqliteStatement;
  };
  return {
    library: "node:sqlite",
    file: mainFile(prepare),
    get inTransaction() {
      return db.isTransaction ?? probeTransaction(db);
    },
    exec: (sql) => db.exec(sql),
    prepare,
    close: () => db.close(),
  };
}

/** A deferred BEGIN takes no lock; it fails exactly when a transaction is already open. */
function probeTransaction(db: NodeSqliteLike): boolean {
  try {
    db.exec("BEGIN DEFERRED");
  } catch {
    return true;
  }
  db.exec("ROLLBACK");
  return false;
}

function mainFile(prepare: (sql: string) => SqliteStatement): string {
  const rows = prepare("PRAGMA database_list").all() as { name: string; file: string | null }[];
  return rows.find((row) => row.name === "main")?.file ?? "";
}
