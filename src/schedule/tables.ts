/** Tables of the schedules. */
import { sql } from "../sql/statement.js";
import { column, type TablePlan } from "../sql/tables.js";

/**
 * `schedule_name` has a row for each schedule, which stays: the time up to which fires were dealt
 * with, and the last token. `schedule_fire` has a row for each fire that was dealt with, for a
 * while: `running`, `done`, `failed`, `crashed` or `skipped`.
 */
export const SCHEDULE_TABLES: TablePlan = {
  pattern: "schedule",
  version: 1,
  tables: {
    schedule_name: {
      columns: sql`name ${column.key} NOT NULL PRIMARY KEY, upto_ms ${column.integer} NOT NULL,
        token ${column.integer} NOT NULL`,
    },
    schedule_fire: {
      columns: sql`name ${column.key} NOT NULL, fire_ms ${column.integer} NOT NULL,
        state ${column.key} NOT NULL, holder ${column.text}, worker ${column.text},
        token ${column.integer}, until_ms ${column.integer}, tries ${column.integer} NOT NULL,
        started_ms ${column.integer}, ended_ms ${column.integer}, reason ${column.text},
        PRIMARY KEY (name, fire_ms)`,
      indexes: { schedule_fire_state: "name, state" },
    },
  },
};
