import type { Dialect } from "../sql/statement.js";
import { sql } from "../sql/statement.js";
import { column, tablesSql, type TablePlan, type TableSqlOptions } from "../sql/tables.js";

/**
 * The table of idempotency keys. A row that is `pending` only gives the key a lock: nobody has
 * finished its work, and whoever has the row locked is at it.
 */
export const IDEMPOTENCY_TABLES: TablePlan = {
  pattern: "idempotency",
  version: 1,
  tables: {
    idempotency: {
      columns: sql`name ${column.key} NOT NULL PRIMARY KEY, state ${column.key} NOT NULL,
        input_hash ${column.text}, result ${column.text}, expires ${column.integer} NOT NULL`,
      indexes: { idempotency_expires: "expires" },
    },
  },
};

/** The SQL that makes the table, as opening does; it does nothing wrong when it runs again. */
export function tableSql(dialect: Dialect, options: TableSqlOptions = {}): string {
  return tablesSql(IDEMPOTENCY_TABLES, dialect, options);
}
