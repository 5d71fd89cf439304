import { sql, type Dialect } from "../sql/statement.js";
import { column, tablesSql, type TablePlan, type TableSqlOptions } from "../sql/tables.js";

/**
 * The tables of reservations. `taken` of an item is the sum of the quantities of its rows, of
 * expired ones too until they are removed.
 */
export const RESERVATION_TABLES: TablePlan = {
  pattern: "reservations",
  version: 1,
  tables: {
    reservation_item: {
      columns: sql`name ${column.key} NOT NULL PRIMARY KEY, capacity ${column.integer} NOT NULL,
        taken ${column.integer} NOT NULL`,
      isInKey: true,
    },
    reservation: {
      columns: sql`item ${column.key} NOT NULL, holder ${column.key} NOT NULL,
        quantity ${column.integer} NOT NULL, state ${column.key} NOT NULL,
        held_until ${column.integer}, PRIMARY KEY (item, holder)`,
      indexes: { reservation_until: "held_until" },
      isInKey: true,
    },
  },
};

/** The SQL that makes the tables, as opening does; it does nothing wrong when it runs again. */
export function tableSql(dialect: Dialect, options: TableSqlOptions = {}): string {
  return tablesSql(RESERVATION_TABLES, dialect, options);
}
