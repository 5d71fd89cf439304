/** Opens an outbox: what `tenure/outbox` offers. */
import { checkKnown } from "../core/options.js";
import type { MysqlPool } from "../drivers/mysql/client.js";
import { platform } from "../platform/index.js";
import { openSqlStore, WITHOUT_MYSQL, type DialectOf, type SqlTarget } from "../sql/open.js";
import { refuseMysql } from "../sql/row-locks.js";
import type { SqlStore, SqlStoreOptions } from "../sql/store.js";
import { tablesSql, type TableSqlOptions } from "../sql/tables.js";
import { Outbox, type OutboxDialect } from "./outbox.js";
import { OUTBOX_TABLES } from "./tables.js";

export { Outbox } from "./outbox.js";
export type { ListLimit, OutboxDialect } from "./outbox.js";
export type { NewMessage, RelayOptions, Written } from "./options.js";
export type { OutboxMessage, Publish } from "./publishing.js";
export type { OutboxStats, TroubledMessage } from "./messages.js";

/** A store for an outbox: `sqlite:PATH`, `postgres://…`, or a client of the caller's. */
export type OutboxTarget = Exclude<SqlTarget, MysqlPool>;

/**
 * The outbox of a SQLite file or a Postgres database: the one in which the caller's own rows are.
 * Its tables are made at the first use.
 *
 * @throws TypeError or RangeError for a wrong target or option, before anything is opened.
 *   UnavailableError when the store cannot be opened.
 */
export async function outbox<T extends OutboxTarget>(
  target: T,
  options: SqlStoreOptions = {},
): Promise<Outbox<Extract<DialectOf<T>, OutboxDialect>>> {
  refuseMysql(target, "an outbox");
  checkKnown(options, ["schema", "migrate", "timeout", "runtime"]);
  const store = await openSqlStore(target, OUTBOX_TABLES, options, WITHOUT_MYSQL);
  const messages = store as unknown as SqlStore<Extract<DialectOf<T>, OutboxDialect>>;
  return new Outbox(messages, options.runtime ?? platform());
}

/** The SQL that makes the tables of the outbox; it does nothing wrong when it runs again. */
export function tableSql(dialect: OutboxDialect, options: TableSqlOptions = {}): string {
  return tablesSql(OUTBOX_TABLES, dialect, options);
}
