import { sql, type Dialect } from "../sql/statement.js";
import { column, tablesSql, type TablePlan, type TableSqlOptions } from "../sql/tables.js";

/** The tables of claims. Rows are never deleted by the library: a claim is for ever. */
export const CLAIM_TABLES: TablePlan = {
  pattern: "claims",
  version: 1,
  tables: {
    claim: {
      columns: sql`seq ${column.order}, name ${column.onlyKey},
        state ${column.key} NOT NULL, owner ${column.text}, holder ${column.text},
        token ${column.integer}, lease_ms ${column.integer}, lease_until ${column.integer},
        reason ${column.text}, body ${column.text}`,
      // A claim for good is in neither. Tables of earlier releases have all rows in both.
      indexes: {
        claim_pending: { on: "state, seq", where: "state = 'pending'" },
        claim_lease: { on: "lease_until", where: "lease_until IS NOT NULL" },
      },
    },
  },
};

/**
 * The SQL that makes the tables of claims, as opening does; it does nothing wrong when it runs
 * again. For those who make tables by hand, and then open with `migrate: false`.
 *
 * @throws TypeError for a schema's name that not every server has.
 */
export function tableSql(dialect: Dialect, options: TableSqlOptions = {}): string {
  return tablesSql(CLAIM_TABLES, dialect, options);
}
