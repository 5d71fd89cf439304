/**
 * The record of a key as scripts.
 *
 * Whoever works under a key has its row locked, in the transaction of the work. So nobody else is
 * at it once the row can be locked, and a `pending` row that can be locked is left by work that
 * failed or died. The lock is asked for without waiting for it: a caller that waits holds no
 * connection.
 */
import { numberOf, orNull, textOf } from "../sql/reading.js";
import { insertNew, type Script, type SqlRow } from "../sql/script.js";
import {
  byDialect,
  forUpdate,
  forUpdateSkipLocked,
  now,
  nowOnce,
  own,
  raw,
  sql,
  type Sql,
  type SqlPiece,
} from "../sql/statement.js";
import type { Terms } from "./arguments.js";

/** What was recorded under a key. */
export interface Recorded {
  readonly inputHash: string;
  readonly result: string | null;
}

/** What stands under a key. */
export type Standing =
  | { readonly kind: "done"; readonly record: Recorded }
  /** Its row is locked here, and nobody has done the work. */
  | { readonly kind: "ours" }
  /** Another has it locked. */
  | { readonly kind: "busy" }
  /** There is no row. */
  | { readonly kind: "absent" };

const TABLE = own("idempotency");
const NOTHING = raw("");
/** How many old results a new key takes away: more than one, so that the table shrinks. */
const SWEPT_PER_KEY = 2;
const SWEPT_AT_ONCE = 500;
/** How long a row without a result is kept; nothing depends on it. */
const PENDING_MS = 3_600_000;
/** On MySQL this locks the row; a refused INSERT would share it, and block others who do. */
const UNLESS_THERE = byDialect({
  sqlite: raw("ON CONFLICT DO NOTHING"),
  postgres: raw("ON CONFLICT DO NOTHING"),
  mysql: raw("ON DUPLICATE KEY UPDATE name = name"),
});

function* look(key: string, lock: SqlPiece = NOTHING): Script<SqlRow | undefined> {
  const [row] = yield sql`SELECT state, input_hash, result, expires, ${now} AS at_ms
    FROM ${TABLE} WHERE name = ${key} ${lock}`;
  return row;
}

function recorded(row: SqlRow): Recorded | null {
  if (textOf(row["state"]) !== "done") return null;
  if (numberOf(row["expires"]) <= numberOf(row["at_ms"])) return null;
  return { inputHash: textOf(row["input_hash"]), result: orNull(row["result"], textOf) };
}

function* lock(key: string, how: SqlPiece): Script<Standing> {
  const seen = yield* look(key);
  if (seen === undefined) return { kind: "absent" };
  // What is done stays done: most callers of an old key need no lock.
  const before = recorded(seen);
  if (before !== null) return { kind: "done", record: before };
  const row = yield* look(key, how);
  return row === undefined ? { kind: "busy" } : standingOf(row);
}

/** Of a row that is locked here. */
function standingOf(row: SqlRow): Standing {
  const record = recorded(row);
  return record === null ? { kind: "ours" } : { kind: "done", record };
}

const insertion = (key: string): Sql => sql`INSERT INTO ${TABLE} (name, state, expires)
  VALUES (${key}, ${"pending"}, ${now} + ${PENDING_MS})`;

/** Gives a key its row, in a transaction of its own so that others see it. */
export function* place(key: string): Script<Standing> {
  const seen = yield* look(key);
  const record = seen === undefined ? null : recorded(seen);
  if (record !== null) return { kind: "done", record };
  if (seen === undefined && (yield* insertNew(insertion(key)))) yield* sweep(SWEPT_PER_KEY);
  return { kind: "absent" };
}

/** Locks a key's row if nobody has it locked. */
export function* tryLock(key: string): Script<Standing> {
  return yield* lock(key, forUpdateSkipLocked);
}

/** Locks a key's row, or makes it, which locks it; waits for others as the database does. */
export function* lockOrInsert(key: string, sweeps: boolean): Script<Standing> {
  for (;;) {
    const standing = yield* lock(key, forUpdate);
    if (standing.kind === "ours" || standing.kind === "done") return standing;
    yield sql`${insertion(key)} ${UNLESS_THERE}`;
    if (sweeps) yield* sweep(SWEPT_PER_KEY);
    // A locking read: the snapshot of a caller's transaction may not show what others inserted.
    const row = yield* look(key, forUpdate);
    if (row !== undefined) return standingOf(row);
  }
}

/** Records a result. The row is locked. */
export function* finish({ key, inputHash, ttlMs }: Terms, result: string | null): Script<void> {
  yield sql`UPDATE ${TABLE} SET state = ${"done"}, input_hash = ${inputHash},
    result = ${result}, expires = ${now} + ${ttlMs} WHERE name = ${key}`;
}

/**
 * Removes rows whose time is over, but for those at work; answers how many. The time is read once:
 * Postgres reads its clock anew for each row, and would look at all that are kept.
 */
export function* sweep(limit: number = SWEPT_AT_ONCE): Script<number> {
  const rows = yield sql`SELECT name FROM ${TABLE} WHERE expires <= ${nowOnce}
    ORDER BY expires LIMIT ${raw(String(limit))} ${forUpdateSkipLocked}`;
  for (const row of rows) yield sql`DELETE FROM ${TABLE} WHERE name = ${textOf(row["name"])}`;
  return rows.length;
}
