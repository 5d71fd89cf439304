/** Opens a queue: what `tenure/queue` offers. */
import { checkKnown } from "../core/options.js";
import type { MysqlPool } from "../drivers/mysql/client.js";
import { platform } from "../platform/index.js";
import { openSqlStore, WITHOUT_MYSQL, type DialectOf, type SqlTarget } from "../sql/open.js";
import { refuseMysql } from "../sql/row-locks.js";
import type { SqlStore } from "../sql/store.js";
import { tablesSql, type TableSqlOptions } from "../sql/tables.js";
import type { QueueDialect } from "./job.js";
import { queueTerms, type QueueOptions } from "./options.js";
import { Queue } from "./queue.js";
import { QUEUE_TABLES } from "./tables.js";

export { Queue } from "./queue.js";
export type { JobHandler } from "./queue.js";
export type { Job, QueueDialect } from "./job.js";
export type {
  Added,
  FailOptions,
  NewJob,
  QueueOptions,
  TakeOptions,
  WorkOptions,
} from "./options.js";
export type { DeadJob, QueueStats } from "./overview.js";

const OPTIONS: readonly string[] = [
  ...["name", "maxTries", "keepDone", "schema", "migrate", "timeout", "runtime"],
];

/** A store for a queue: `sqlite:PATH`, `postgres://…`, or a client of the caller's. */
export type QueueTarget = Exclude<SqlTarget, MysqlPool>;

/**
 * A queue in a SQLite file or a Postgres database; its tables are made at the first use.
 *
 * @throws TypeError or RangeError for a wrong target or option, before anything is opened.
 *   UnavailableError when the store cannot be opened.
 */
export async function queue<T extends QueueTarget>(
  target: T,
  options: QueueOptions = {},
): Promise<Queue<Extract<DialectOf<T>, QueueDialect>>> {
  refuseMysql(target, "a queue");
  checkKnown(options, OPTIONS);
  const { name, maxTries, keepDone, ...rest } = options;
  const given = { name, maxTries, keepDone };
  const terms = queueTerms(given as QueueOptions);
  const store = await openSqlStore(target, QUEUE_TABLES, rest, WITHOUT_MYSQL);
  const queues = store as unknown as SqlStore<Extract<DialectOf<T>, QueueDialect>>;
  return new Queue(queues, options.runtime ?? platform(), terms);
}

/** The SQL that makes the tables of the queue; it does nothing wrong when it runs again. */
export function tableSql(dialect: QueueDialect, options: TableSqlOptions = {}): string {
  return tablesSql(QUEUE_TABLES, dialect, options);
}
