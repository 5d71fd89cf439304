/** Locks on rows and changes of state, as scripts. */
import { ArgumentRangeError, ArgumentTypeError } from "../core/errors.js";
import { checkKnown, checkObject } from "../core/options.js";
import { guardedUpdate, rowIs, settings, type RowKey } from "../sql/guarded.js";
import { bigintOf, orNull, textOf } from "../sql/reading.js";
import type { Script } from "../sql/script.js";
import {
  byDialect,
  forUpdate,
  forUpdateSkipLocked,
  given,
  identifier,
  raw,
  sql,
  type Dialect,
  type Sql,
  type SqlPiece,
} from "../sql/statement.js";
import type { Locked, Transition, Transitioned } from "./contract.js";

/** What scripts must know of the store. */
export interface Place {
  readonly dialect: Dialect;
  /** Whether another connection has the lock of the file: nothing happened. */
  isBusy(error: unknown): boolean;
}

/** A checked row to lock. */
interface Wanted {
  readonly table: SqlPiece;
  readonly row: Sql;
  readonly waits: boolean;
}

/** Checks what is wanted, and answers the script. */
export function lockRow(
  place: Place,
  table: string,
  key: RowKey,
  options: object = {},
): Script<Locked> {
  checkKnown(options, ["nowait", "skipLocked", "dialect"]);
  const { nowait = false, skipLocked = false } = options as Readonly<Record<string, unknown>>;
  if (typeof nowait !== "boolean") throw new ArgumentTypeError("nowait", nowait, "a boolean");
  if (typeof skipLocked !== "boolean") {
    throw new ArgumentTypeError("skipLocked", skipLocked, "a boolean");
  }
  const waits = !nowait && !skipLocked;
  return locking(place, { table: identifier(table, "table"), row: rowIs(key, "key"), waits });
}

function* locking(place: Place, { table, row, waits }: Wanted): Script<Locked> {
  if (place.dialect === "sqlite" && !(yield* lockFile(place, table, waits))) {
    return { locked: false, why: "busy" };
  }
  // A NOWAIT that fails would end the whole transaction on Postgres: what is locked is left out.
  const lock = waits ? forUpdate : forUpdateSkipLocked;
  const [found] = yield sql`SELECT * FROM ${table} WHERE ${row} ${lock}`;
  if (found !== undefined) return { locked: true, row: found };
  if (waits) return { locked: false, why: "missing" };
  const [there] = yield sql`SELECT 1 AS there FROM ${table} WHERE ${row}`;
  return { locked: false, why: there === undefined ? "missing" : "busy" };
}

/**
 * SQLite locks no rows: whoever writes has the whole file. A statement that would write takes that
 * lock, also if it finds nothing to change. False: another connection has it.
 */
function* lockFile(place: Place, table: SqlPiece, waits: boolean): Script<boolean> {
  const take = sql`DELETE FROM ${table} WHERE 0`;
  if (waits) {
    yield take;
    return true;
  }
  const [pragma] = yield sql`PRAGMA busy_timeout`;
  const before = String(bigintOf(Object.values(pragma ?? {})[0] ?? 0n));
  yield sql`PRAGMA busy_timeout = 0`;
  try {
    yield take;
    return true;
  } catch (error) {
    // What this transaction has read is not the newest any more: it can never write.
    if (!place.isBusy(error) || isOutdated(error)) throw error;
    return false;
  } finally {
    yield sql`PRAGMA busy_timeout = ${raw(before)}`;
  }
}

const BUSY_SNAPSHOT = 517;

function isOutdated(error: unknown): boolean {
  const { code, errcode } = error as { code?: unknown; errcode?: unknown };
  return code === "SQLITE_BUSY_SNAPSHOT" || errcode === BUSY_SNAPSHOT;
}

/** Checks a change, and answers the script. */
export function transition(place: Place, change: Transition): Script<Transitioned> {
  checkObject(change, "change");
  const known = ["table", "id", "column", "from", "to", "set", "states", "dialect"];
  checkKnown(change, known);
  const { from, to, id, column = "state", set = {}, states } = change;
  for (const [option, state] of [
    ["from", from],
    ["to", to],
  ] as const) {
    if (typeof state !== "string") throw new ArgumentTypeError(option, state, "a string");
  }
  if (states !== undefined) checkAllowed(states, from, to);
  const stateColumn = identifier(column, "column");
  const table = identifier(change.table, "table");
  const row = rowIs(typeof id === "object" ? id : { id }, "id");
  const update = guardedUpdate({
    table,
    set: [sql`${stateColumn} = ${given(to)}`, ...settings(set, "set")],
    row,
    guard: sql`${stateColumn} = ${given(from)}`,
  });
  return changing(place, { table, row, stateColumn, update }, from, to);
}

interface Change {
  readonly table: SqlPiece;
  readonly row: SqlPiece;
  readonly stateColumn: SqlPiece;
  readonly update: Sql;
}

function* changing(
  place: Place,
  { table, row, stateColumn, update }: Change,
  from: string,
  to: string,
): Script<Transitioned> {
  if (place.dialect === "sqlite") yield* lockFile(place, table, true);
  const [found] = yield sql`SELECT ${asText(stateColumn)} AS present FROM ${table} WHERE ${row}
    ${forUpdate}`;
  const present = orNull(found?.["present"], textOf);
  if (present !== from) return { changed: false, state: present };
  yield update;
  return { changed: true, state: to };
}

/** On Postgres a value of type char(n) comes with blanks behind it, which are no part of it. */
function asText(column: SqlPiece): SqlPiece {
  return byDialect({ sqlite: column, postgres: sql`CAST(${column} AS text)`, mysql: column });
}

function checkAllowed(states: unknown, from: string, to: string): void {
  checkObject(states, "states");
  const machine = new Map<string, unknown>(Object.entries(states as object));
  const all = new Set(machine.keys());
  for (const [state, next] of machine) {
    if (!Array.isArray(next) || !next.every((one) => typeof one === "string")) {
      throw new ArgumentTypeError(`states.${state}`, next, "an array of states");
    }
    for (const one of next) all.add(one);
  }
  const known = [...all].join(", ");
  if (!all.has(from)) throw new ArgumentRangeError("from", from, `one of the states ${known}`);
  if (!all.has(to)) throw new ArgumentRangeError("to", to, `one of the states ${known}`);
  const next = (machine.get(from) ?? []) as readonly string[];
  if (next.includes(to)) return;
  const may = next.length === 0 ? `nothing: ${from} is final` : next.join(" or ");
  throw new ArgumentRangeError("to", to, `what may follow ${from} (${may})`);
}
