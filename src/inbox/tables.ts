import { sql, type Dialect } from "../sql/statement.js";
import { column, tablesSql, type TablePlan, type TableSqlOptions } from "../sql/tables.js";

/** The table of an inbox. Rows stay until they are swept. */
export const INBOX_TABLES: TablePlan = {
  pattern: "inbox",
  version: 1,
  tables: {
    inbox: {
      columns: sql`event ${column.key} NOT NULL, consumer ${column.key} NOT NULL,
        at_ms ${column.integer} NOT NULL, PRIMARY KEY (consumer, event)`,
      indexes: { inbox_at: "at_ms" },
    },
  },
};

/**
 * The SQL that makes the tables of an inbox, as opening does; it does nothing wrong when it runs
 * again. For those who make tables by hand, and then open with `migrate: false`.
 *
 * @throws TypeError for a schema's name that not every server has.
 */
export function tableSql(dialect: Dialect, options: TableSqlOptions = {}): string {
  return tablesSql(INBOX_TABLES, dialect, options);
}
