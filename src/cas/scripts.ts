/**
 * Look and write as scripts: over our own table, and over a caller's.
 *
 * The version of a new value is the store's time in milliseconds, not 1: a row that was deleted and
 * made again has not the version that somebody read of the old one.
 */
import { bigintOf, textOf } from "../sql/reading.js";
import { insertNew, type Script, type SqlRow } from "../sql/script.js";
import {
  forUpdate,
  given,
  list,
  now,
  own,
  raw,
  sql,
  type Sql,
  type SqlPiece,
} from "../sql/statement.js";
import type { Versioned } from "./contract.js";
import type { Written } from "./updating.js";

const TABLE = own("cas");
const NOTHING = raw("");

function* row(key: string, lock: SqlPiece = NOTHING): Script<Versioned<string> | null> {
  const [found] = yield sql`SELECT version, value FROM ${TABLE} WHERE name = ${key} ${lock}`;
  if (found === undefined) return null;
  return { value: textOf(found["value"]), version: bigintOf(found["version"]) };
}

/** The value of a key. */
export function* read(key: string): Script<Versioned<string> | null> {
  return yield* row(key);
}

/**
 * Writes if the version is as expected. It is looked at before the row is locked: most that come
 * too late need not wait for one another to learn it.
 */
export function* write(key: string, text: string, version: bigint | null): Script<Written> {
  const seen = yield* row(key);
  if (version === null) return yield* make(key, text, seen);
  if (seen?.version !== version) return { isWritten: false, version: seen?.version ?? null };
  const present = yield* row(key, forUpdate);
  if (present?.version !== version) {
    return { isWritten: false, version: present?.version ?? null };
  }
  const next = version + 1n;
  yield sql`UPDATE ${TABLE} SET version = ${next}, value = ${text} WHERE name = ${key}`;
  return { isWritten: true, version: next };
}

function* make(key: string, text: string, seen: Versioned<string> | null): Script<Written> {
  if (seen !== null) return { isWritten: false, version: seen.version };
  const isWritten = yield* insertNew(sql`INSERT INTO ${TABLE} (name, version, value)
    VALUES (${key}, ${now}, ${text})`);
  // A locking read would meet the locks that MySQL leaves with those who came second.
  const found = yield* row(key);
  if (isWritten) return { isWritten, version: found!.version };
  return { isWritten, version: (found ?? (yield* row(key, forUpdate)))?.version ?? null };
}

/** Which row of which table of the caller's. */
export interface OwnRow {
  readonly table: SqlPiece;
  readonly key: SqlPiece;
  readonly version: SqlPiece;
  /** Name of the version's column as rows have it. */
  readonly versionName: string;
  readonly id: unknown;
}

function* one(statement: Sql): Script<SqlRow | null> {
  const [found, second] = yield statement;
  if (second === undefined) return found ?? null;
  throw new TypeError("key must be a column of a unique key: two rows have the same");
}

/** A row of the caller's. */
export function* readRow(which: OwnRow): Script<Versioned<SqlRow> | null> {
  const { table, key, id, versionName } = which;
  const found = yield* one(sql`SELECT * FROM ${table} WHERE ${key} = ${given(id)}`);
  if (found === null) return null;
  return { value: found, version: bigintOf(found[versionName]) };
}

/** Sets columns if the version is as expected. */
export function* writeRow(
  which: OwnRow,
  columns: readonly SqlPiece[],
  expected: bigint,
): Script<Written> {
  const { table, key, version, id } = which;
  const seen = sql`SELECT ${version} AS version FROM ${table} WHERE ${key} = ${given(id)}
    ${forUpdate}`;
  const found = yield* one(seen);
  const present = found === null ? null : bigintOf(found["version"]);
  if (present !== expected) return { isWritten: false, version: present };
  yield sql`UPDATE ${table} SET ${list([...columns, sql`${version} = ${version} + 1`])}
    WHERE ${key} = ${given(id)} AND ${version} = ${expected}`;
  return { isWritten: true, version: expected + 1n };
}
