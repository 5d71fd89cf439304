/** Tables of the outbox. */
import { sql } from "../sql/statement.js";
import { column, type TablePlan } from "../sql/tables.js";

/**
 * `outbox_message` has the messages in the order of `seq`: `waiting`, `published` (kept for a
 * while, for people) or `dead` (set aside). `outbox_relay` has one row, which stays: who relays,
 * until when, and the last token.
 */
export const OUTBOX_TABLES: TablePlan = {
  pattern: "outbox",
  version: 1,
  tables: {
    outbox_message: {
      columns: sql`seq ${column.serial}, id ${column.key} NOT NULL UNIQUE,
        message_key ${column.key} NOT NULL, topic ${column.key} NOT NULL,
        payload ${column.text} NOT NULL, state ${column.key} NOT NULL,
        written_ms ${column.integer} NOT NULL, due_ms ${column.integer} NOT NULL,
        ended_ms ${column.integer}, tries ${column.integer} NOT NULL, reason ${column.text}`,
      indexes: {
        outbox_message_line: "state, seq",
        outbox_message_due: "state, due_ms",
        outbox_message_ended: "state, ended_ms",
      },
    },
    outbox_relay: {
      columns: sql`name ${column.key} NOT NULL PRIMARY KEY, holder ${column.text},
        token ${column.integer} NOT NULL, until_ms ${column.integer} NOT NULL`,
    },
  },
};
