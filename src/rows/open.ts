import { ArgumentTypeError } from "../core/errors.js";
import { checkKnown, checkWord } from "../core/options.js";
import * as mysqlErrors from "../drivers/mysql/errors.js";
import * as postgresErrors from "../drivers/postgres/errors.js";
import { explainSqlite, isBusy } from "../drivers/sqlite/errors.js";
import { adoptSqlite } from "../drivers/sqlite/open.js";
import type { RowKey } from "../sql/guarded.js";
import { openSqlStore, type DialectOf, type SqlTarget } from "../sql/open.js";
import type { Run, When } from "../sql/script.js";
import { ServerScripts, type ServerDialect } from "../sql/server-scripts.js";
import { askIn, ServerWork, type CallersServer } from "../sql/server-tx.js";
import { connectionOf, runOn, SqliteWork, type CallersSqlite } from "../sql/sqlite-tx.js";
import type { Dialect } from "../sql/statement.js";
import type { SqlStore, SqlStoreOptions } from "../sql/store.js";
import type {
  AnsweredIn,
  AnyTx,
  Locked,
  LockOptions,
  Rows,
  Transition,
  Transitioned,
} from "./contract.js";
import * as scripts from "./scripts.js";

export type { RowKey } from "../sql/guarded.js";
export type { DialectOf, SqlTarget } from "../sql/open.js";
export type { Answered } from "../sql/script.js";
export type { Dialect } from "../sql/statement.js";
export type { SqlStoreOptions, Tx, Work } from "../sql/store.js";
export type * from "./contract.js";

/**
 * A SQL database whose rows are locked and changed in transactions: by URL (`sqlite:PATH`,
 * `postgres://`, `mysql://`), or over a client of the caller's. No table is made in it.
 *
 * @throws TypeError or RangeError for a wrong target or option. UnavailableError when a file cannot
 *   be opened or a client library is missing.
 */
export async function rows<T extends SqlTarget>(
  target: T,
  options: Omit<SqlStoreOptions, "schema" | "migrate"> = {},
): Promise<Rows<DialectOf<T>>> {
  checkKnown(options, ["timeout", "runtime"]);
  return new Database(await openSqlStore(target, null, options));
}

class Database<K extends Dialect> implements Rows<K> {
  readonly dialect: K;
  readonly transaction: Rows<K>["transaction"];
  readonly #store: SqlStore<K>;

  constructor(store: SqlStore<K>) {
    this.#store = store;
    this.dialect = store.dialect;
    this.transaction = (work) => store.transaction("run the work", work);
  }

  transition(change: Transition): Promise<Transitioned> {
    const place = { dialect: this.dialect, isBusy };
    return this.#store.run("change a state", () => scripts.transition(place, change));
  }

  close(): Promise<void> {
    return this.#store.close();
  }
}

/**
 * Locks one row until the transaction ends, and answers it as the client library reads rows. Lock,
 * look and write in one transaction need no fence: others wait, or are told that the row is busy.
 *
 * Not on SQLite, which has no locks on rows: there it takes the write lock of the whole file, so
 * every writer waits, whichever row it wants.
 *
 * Not promised: that a frozen process lets go. The server ends its transaction only if the
 * caller, or `transaction` of {@link rows}, has set time-outs.
 *
 * @throws TypeError for wrong arguments, or what is no transaction. UnavailableError when others
 *   kept the lock for longer than the transaction waits: roll back then.
 */
export function lockRow<T extends AnyTx>(
  tx: T,
  table: string,
  key: RowKey,
  options: LockOptions = {},
): AnsweredIn<T, Locked> {
  const { run, place } = runnerIn(tx, options.dialect);
  const locked = run("lock a row", () => scripts.lockRow(place, table, key, options));
  return locked as AnsweredIn<T, Locked>;
}

/**
 * Changes the state of one row, if it is the expected one: in an open transaction, together with
 * whatever else is written there, or in one of its own.
 *
 * Not promised: anything about code that sets the column without looking at it.
 *
 * @throws TypeError or RangeError for wrong arguments, and for a change that `states` does not
 *   allow. UnavailableError when it did not happen.
 */
export function transition<T extends AnyTx | Rows<Dialect>>(
  where: T,
  change: Transition,
): T extends Rows<Dialect> ? Promise<Transitioned> : AnsweredIn<T, Transitioned> {
  type Answer = T extends Rows<Dialect> ? Promise<Transitioned> : AnsweredIn<T, Transitioned>;
  if (where instanceof Database) return where.transition(change) as Answer;
  const { run, place } = runnerIn(where as AnyTx, change?.dialect);
  return run("change a state", () => scripts.transition(place, change)) as Answer;
}

interface Runner {
  readonly run: Run<When>;
  readonly place: scripts.Place;
}

function runnerIn(tx: AnyTx, dialect: unknown): Runner {
  const known = dialectOf(tx, dialect);
  const place = { dialect: known, isBusy };
  if (known !== "sqlite") return { place, run: onServer(tx as CallersServer, known) };
  return { place, run: onSqlite(tx as CallersSqlite) };
}

const DIALECTS: readonly Dialect[] = ["sqlite", "postgres", "mysql"];

function dialectOf(tx: unknown, given: unknown): Dialect {
  if (given !== undefined) checkWord(given, "dialect", DIALECTS);
  if (tx instanceof SqliteWork) return "sqlite";
  if (tx instanceof ServerWork) return tx.dialect;
  const has = (name: string): boolean =>
    typeof (tx as Record<string, unknown> | null | undefined)?.[name] === "function";
  if (has("exec") && has("prepare")) return "sqlite";
  if (has("execute")) return "mysql";
  if (has("unsafe") || has("query")) return "postgres";
  if (typeof tx !== "function") {
    throw new ArgumentTypeError("tx", tx, "an open transaction of SQLite, Postgres or MySQL");
  }
  if (given !== undefined) return given as Dialect;
  throw new ArgumentTypeError("dialect", given, "given for a function that runs statements");
}

function onSqlite(tx: CallersSqlite): Run<"sqlite"> {
  const connection = connectionOf(tx, (database) => adoptSqlite(database, "tx"), undefined);
  const rendering = { dialect: "sqlite", schema: undefined, nowMs: () => 0n } as const;
  return (during, make) => {
    const script = make();
    try {
      return runOn(connection, rendering, script);
    } catch (error) {
      if (error instanceof Error && ("family" in error || error instanceof TypeError)) throw error;
      throw explainSqlite(error, { file: connection.file, during, backend: "sqlite" });
    }
  };
}

function onServer(tx: CallersServer, dialect: ServerDialect): Run<"promised"> {
  const { isContention, explainPostgres, sqlState } = postgresErrors;
  const { isContention: isMysqlContention, explainMysql, errorNumber } = mysqlErrors;
  const faults =
    dialect === "postgres"
      ? {
          isContention,
          isDuplicate: (error: unknown) => sqlState(error) === "23505",
          explain: explainPostgres,
        }
      : {
          isContention: isMysqlContention,
          isDuplicate: (error: unknown) => errorNumber(error) === 1062,
          explain: explainMysql,
        };
  const server = new ServerScripts(faults, dialect, undefined);
  const begin = askIn(tx, dialect);
  return async (during, make) => {
    const answer = server.run(during, begin(), make());
    return await (tx instanceof ServerWork ? tx.keep(answer) : answer);
  };
}
