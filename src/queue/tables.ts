/** Tables of the queue. */
import { counterTable } from "../sql/counter.js";
import { sql } from "../sql/statement.js";
import { column, type TablePlan } from "../sql/tables.js";

/**
 * `queue_key` has a row for each key with jobs: what is locked, and where the lease of the key's
 * running job stands. `ready_ms` is when to look at the key next. Rows go when a key has no job.
 *
 * `queue_job` has the jobs, in the order of `seq`: `waiting` (which a running one stays), `done`
 * (kept for a while, so that its id is not added again) or `dead` (set aside).
 */
export const QUEUE_TABLES: TablePlan = {
  pattern: "queue",
  version: 1,
  tables: {
    queue_key: {
      columns: sql`queue ${column.key} NOT NULL, job_key ${column.key} NOT NULL,
        ready_ms ${column.integer} NOT NULL, until_ms ${column.integer} NOT NULL,
        holder ${column.text}, worker ${column.text}, token ${column.integer},
        seq ${column.integer}, PRIMARY KEY (queue, job_key)`,
      indexes: { queue_key_ready: "queue, ready_ms" },
    },
    queue_job: {
      columns: sql`seq ${column.serial}, queue ${column.key} NOT NULL,
        job_key ${column.key} NOT NULL, id ${column.key} NOT NULL, payload ${column.text} NOT NULL,
        state ${column.key} NOT NULL, added_ms ${column.integer} NOT NULL,
        due_ms ${column.integer} NOT NULL, ended_ms ${column.integer},
        tries ${column.integer} NOT NULL, token ${column.integer}, reason ${column.text},
        UNIQUE (queue, id)`,
      indexes: {
        queue_job_line: "queue, job_key, state, seq",
        queue_job_state: "queue, state, ended_ms",
      },
    },
    queue_counter: counterTable,
  },
};
