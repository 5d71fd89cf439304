/** The SQLite library that this runtime has, as an application would use it. */
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);

function load() {
  try {
    const { DatabaseSync, StatementSync } = require("node:sqlite");
    return { library: "node:sqlite", Database: DatabaseSync, Statement: StatementSync };
  } catch {
    const Database = require("better-sqlite3");
    const { constructor: Statement } = new Database(":memory:").prepare("SELECT 1");
    return { library: "better-sqlite3", Database, Statement };
  }
}

const { library, Database, Statement } = load();

export const openRaw = (path) => new Database(path);

export const sqliteVersion = `${library} with SQLite ${
  openRaw(":memory:").prepare("SELECT sqlite_version() AS v").get().v
}`;

/** Counts the statements that this process runs from now on, whoever runs them. */
export function countStatements() {
  const count = { statements: 0 };
  const counted = (kind, method) => {
    const plain = kind.prototype[method];
    kind.prototype[method] = function (...args) {
      count.statements += 1;
      return plain.apply(this, args);
    };
  };
  for (const method of ["run", "get", "all", "iterate"]) counted(Statement, method);
  counted(Database, "exec");
  return count;
}
