import { sql, type Dialect } from "../sql/statement.js";
import { column, tablesSql, type TablePlan, type TableSqlOptions } from "../sql/tables.js";

/** The table of compare-and-swap. */
export const CAS_TABLES: TablePlan = {
  pattern: "cas",
  version: 1,
  tables: {
    cas: {
      columns: sql`name ${column.key} NOT NULL PRIMARY KEY, version ${column.integer} NOT NULL,
        value ${column.text} NOT NULL`,
    },
  },
};

/** The SQL that makes the table, as opening does; it does nothing wrong when it runs again. */
export function tableSql(dialect: Dialect, options: TableSqlOptions = {}): string {
  return tablesSql(CAS_TABLES, dialect, options);
}
