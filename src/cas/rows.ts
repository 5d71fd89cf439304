/** Compare-and-swap on rows of a caller's own table. */
import { ArgumentTypeError } from "../core/errors.js";
import { checkKnown } from "../core/options.js";
import { given, identifier, sql, type Sql } from "../sql/statement.js";
import type { Dialect } from "../sql/statement.js";
import type { SqlStore } from "../sql/store.js";
import { checkUpdate } from "./arguments.js";
import type { CasRows, VersionedTable } from "./contract.js";
import * as scripts from "./scripts.js";
import { update, type UpdateRuntime } from "./updating.js";

/** Rows of a table in an opened store. */
export function rowsOf(
  store: Pick<SqlStore<Dialect>, "run" | "dialect">,
  options: VersionedTable,
  runtime: UpdateRuntime,
): CasRows {
  checkKnown(options, ["table", "key", "version"]);
  const table = identifier(options.table, "table");
  const key = identifier(checkColumn(options.key, "key"), "key");
  const versionName = checkColumn(options.version, "version");
  const version = identifier(versionName, "version");
  const fixed = [options.key, versionName];
  const rowOf = (id: unknown): scripts.OwnRow => {
    if (id === undefined || id === null) throw new ArgumentTypeError("id", id, "a value");
    return { table, key, version, versionName, id };
  };
  const read = (row: scripts.OwnRow) =>
    store.run("read a row", () => scripts.readRow(row)) as Promise<never>;
  return {
    read: async (id) => await read(rowOf(id)),
    update: async (id, change, updateOptions) => {
      const row = rowOf(id);
      const terms = checkUpdate(change, updateOptions);
      return await update<object, object>(
        {
          key: String(id),
          backend: store.dialect,
          read: () => read(row),
          change,
          write: (changed, expected) => {
            const columns = columnsOf(changed, fixed);
            return store.run("write a row", () => scripts.writeRow(row, columns, expected!));
          },
        },
        terms,
        runtime,
        true,
      );
    },
  };
}

function checkColumn(name: unknown, option: string): string {
  if (typeof name === "string" && !name.includes(".")) return name;
  throw new ArgumentTypeError(option, name, "the name of a column");
}

function columnsOf(changed: unknown, fixed: readonly string[]): readonly Sql[] {
  const must = "an object of columns and their new values, at least one";
  if (typeof changed !== "object" || changed === null || Array.isArray(changed)) {
    throw new ArgumentTypeError("change", changed, must);
  }
  const columns = Object.entries(changed);
  if (columns.length === 0) throw new ArgumentTypeError("change", changed, must);
  return columns.map(([column, value]) => {
    if (fixed.includes(column)) {
      throw new ArgumentTypeError(`change.${column}`, value, "left out: key and version stay");
    }
    if (value === undefined) throw new ArgumentTypeError(`change.${column}`, value, "a value");
    return sql`${identifier(checkColumn(column, "change"), "change")} = ${given(value)}`;
  });
}
