/** Opens schedules: what `tenure/schedule` offers. */
import { ArgumentTypeError } from "../core/errors.js";
import { checkName } from "../core/names.js";
import { checkKnown } from "../core/options.js";
import { cronTimes, timeOfIso } from "../drivers/croner/open.js";
import type { MysqlPool } from "../drivers/mysql/client.js";
import { platform } from "../platform/index.js";
import { openSqlStore, WITHOUT_MYSQL, type DialectOf, type SqlTarget } from "../sql/open.js";
import { refuseMysql } from "../sql/row-locks.js";
import type { SqlStore, SqlStoreOptions } from "../sql/store.js";
import { tablesSql, type TableSqlOptions } from "../sql/tables.js";
import { CronCoordinator } from "./coordinator.js";
import type { ScheduleDialect } from "./fire.js";
import { scheduleTerms, type ScheduleOptions } from "./options.js";
import { Schedule, type FireWork } from "./schedule.js";
import { SCHEDULE_TABLES } from "./tables.js";

export { isoTime } from "../drivers/croner/open.js";
export { CronCoordinator } from "./coordinator.js";
export { Schedule } from "./schedule.js";
export type { FireWork } from "./schedule.js";
export type { Fire, ScheduleDialect } from "./fire.js";
export type { Crashed, FireRecord, Overlap } from "./fires.js";
export type { Missed, ScheduleOptions } from "./options.js";

const STORE_OPTIONS: readonly string[] = ["schema", "migrate", "timeout", "runtime"];
const OPTIONS: readonly string[] = [
  ...["timeZone", "missed", "missedLimit", "late", "overlap", "crashed"],
  ...["maxTries", "lease", "keepFires", "worker", "signal", "onError"],
  ...STORE_OPTIONS,
];

/** A store for schedules: `sqlite:PATH`, `postgres://…`, or a client of the caller's. */
export type ScheduleTarget = Exclude<SqlTarget, MysqlPool>;

type StoreDialect<T extends ScheduleTarget> = Extract<DialectOf<T>, ScheduleDialect>;

/**
 * Runs `work` at the times of a cron expression, on one of all replicas that call this with the
 * same name. It has begun when the promise resolves; `close` ends it. Its tables are made at the
 * first use.
 *
 * @throws TypeError or RangeError for a wrong target, name, expression or option, before anything
 *   is opened. UnavailableError when the store cannot be opened, or `croner` is not installed.
 */
export async function schedule<T extends ScheduleTarget>(
  store: T,
  name: string,
  cron: string,
  work: FireWork<StoreDialect<T>>,
  options: ScheduleOptions = {},
): Promise<Schedule<StoreDialect<T>>> {
  refuseMysql(store, "a schedule");
  checkName(name);
  if (typeof work !== "function") throw new ArgumentTypeError("work", work, "a function");
  checkKnown(options, OPTIONS);
  const terms = scheduleTerms(options);
  const { timeZone = "UTC" } = options;
  const times = await cronTimes(cron, timeZone);
  const runtime = options.runtime ?? platform();
  const opened = await openStore(store, options);
  return new Schedule({ store: opened, runtime, name, times, work, terms });
}

/** A coordinator for tasks of `node-cron` 4. @throws As {@link schedule}. */
export async function cronCoordinator<T extends ScheduleTarget>(
  store: T,
  options: SqlStoreOptions = {},
): Promise<CronCoordinator<StoreDialect<T>>> {
  refuseMysql(store, "a schedule");
  checkKnown(options, STORE_OPTIONS);
  const opened = await openStore(store, options);
  return new CronCoordinator(opened, options.runtime ?? platform(), timeOfIso);
}

async function openStore<T extends ScheduleTarget>(
  target: T,
  { schema, migrate, timeout, runtime }: SqlStoreOptions,
): Promise<SqlStore<StoreDialect<T>>> {
  const given = { schema, migrate, timeout, runtime };
  const options = Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  );
  const opened = await openSqlStore(target, SCHEDULE_TABLES, options, WITHOUT_MYSQL);
  return opened as unknown as SqlStore<StoreDialect<T>>;
}

/** The SQL that makes the tables of schedules; it does nothing wrong when it runs again. */
export function tableSql(dialect: ScheduleDialect, options: TableSqlOptions = {}): string {
  return tablesSql(SCHEDULE_TABLES, dialect, options);
}
