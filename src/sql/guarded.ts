/**
 * Guarded updates of a caller's own table: a row is changed only if it is as expected, in one
 * statement, whatever else writes it. Tables and columns are quoted, values are bound.
 */
import { ArgumentTypeError } from "../core/errors.js";
import { given, identifier, list, sql, type Sql, type SqlPiece } from "./statement.js";

/** Which row: a value of each column of a unique key. */
export type RowKey = Readonly<Record<string, unknown>>;

/** The condition that picks one row. @throws TypeError for no column, or one without a value. */
export function rowIs(key: unknown, option: string): Sql {
  const must = "an object with a value for each column of a unique key, such as { id: 7 }";
  if (typeof key !== "object" || key === null || Array.isArray(key)) {
    throw new ArgumentTypeError(option, key, must);
  }
  const columns = Object.entries(key);
  if (columns.length === 0) throw new ArgumentTypeError(option, key, must);
  const conditions = columns.map(([column, value]) => {
    if (value === undefined || value === null) {
      throw new ArgumentTypeError(`${option}.${column}`, value, "a value");
    }
    return sql`${identifier(column, option)} = ${given(value)}`;
  });
  return list(conditions, " AND ");
}

/** Columns and what they are set to. */
export function settings(set: unknown, option: string): readonly Sql[] {
  if (typeof set !== "object" || set === null || Array.isArray(set)) {
    throw new ArgumentTypeError(option, set, "an object of columns and their values");
  }
  return Object.entries(set).map(([column, value]) => {
    if (value === undefined) throw new ArgumentTypeError(`${option}.${column}`, value, "a value");
    return sql`${identifier(column, option)} = ${given(value)}`;
  });
}

/** An update of the row that a condition picks, if it is as another says. */
export interface Guarded {
  readonly table: SqlPiece;
  readonly set: readonly SqlPiece[];
  readonly row: SqlPiece;
  readonly guard: SqlPiece;
}

/** The statement. Zero rows changed: the row is not there, or not as expected. */
export function guardedUpdate({ table, set, row, guard }: Guarded): Sql {
  return sql`UPDATE ${table} SET ${list(set)} WHERE ${row} AND ${guard}`;
}
