/** A caller's own connection to a SQLite file, with the library that Tenure uses in the process. */
import Database from "better-sqlite3";
import { createRequire } from "node:module";

/** What the two libraries have in common. */
export interface CallersDatabase {
  exec(sql: string): unknown;
  prepare(sql: string): CallersStatement;
  close(): void;
}

interface CallersStatement {
  /** Of better-sqlite3 alone: whether it answers rows, and then `run` is not for it. */
  readonly reader?: boolean;
  all(...values: unknown[]): unknown[];
  get(...values: unknown[]): unknown;
  run(...values: unknown[]): unknown;
}

type Open = new (file: string) => CallersDatabase;

/** Two libraries in one process do not see each other's locks. */
function library(): Open {
  try {
    const node = createRequire(import.meta.url)("node:sqlite") as { DatabaseSync: Open };
    return node.DatabaseSync;
  } catch {
    // Before Node 22.13.
    return Database;
  }
}

/** Opens a file; waits two seconds for others. */
export function openCallersSqlite(file: string): CallersDatabase {
  const db = new (library())(file);
  db.exec("PRAGMA busy_timeout = 2000");
  return db;
}

/** Runs a statement; answers its rows. */
export function rowsOf(
  db: CallersDatabase,
  text: string,
  values: readonly unknown[] = [],
): Record<string, any>[] {
  const statement = db.prepare(text);
  if (statement.reader !== false) return statement.all(...values) as Record<string, any>[];
  statement.run(...values);
  return [];
}
