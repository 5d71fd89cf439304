/**
 * Locks for rows that others refer to. Whoever adds something under a row keeps it from being
 * deleted, and does not wait for those who only change it: on Postgres these are two strengths of
 * lock. Nothing on SQLite, whose transactions lock the file.
 */
import { ArgumentTypeError } from "../core/errors.js";
import { byDialect, raw, sql, type Sql, type SqlPiece } from "./statement.js";

/** Keeps the row from being deleted until the transaction ends. */
export const forShareOfKey: SqlPiece = lock("FOR KEY SHARE", "FOR SHARE");
/** Keeps others from changing the row. */
export const forChange: SqlPiece = lock("FOR NO KEY UPDATE", "FOR UPDATE");
/** As {@link forChange}, and leaves out rows that others have locked. */
export const forChangeSkipLocked: SqlPiece = lock(
  "FOR NO KEY UPDATE SKIP LOCKED",
  "FOR UPDATE SKIP LOCKED",
);

/**
 * Columns of rows that a SELECT locks, computed once the lock is had. In the SELECT itself
 * Postgres computes columns and conditions before it waits, and computes them again only where the
 * row has changed: a lease that ended during the wait would count as one that lasts. Not on MySQL.
 */
export function onceLocked(locking: SqlPiece, columns: SqlPiece): Sql {
  return sql`WITH locked AS (${locking}) SELECT ${columns} FROM locked`;
}

function lock(postgres: string, mysql: string): SqlPiece {
  return byDialect({ sqlite: raw(""), postgres: raw(postgres), mysql: raw(mysql) });
}

/** @throws TypeError for a store on MySQL, before anything is opened. */
export function refuseMysql(target: unknown, pattern: string): void {
  const isUrl = typeof target === "string" && /^(mysql|mariadb):/i.test(target);
  const given = target as { getConnection?: unknown } | null | undefined;
  const isPool = typeof given?.getConnection === "function";
  if (!isUrl && !isPool) return;
  // A URL may carry a password.
  const shown = isUrl ? "mysql:…" : target;
  throw new ArgumentTypeError("target", shown, `SQLite or Postgres for ${pattern}`);
}
