import { parseDuration } from "../core/duration.js";
import { ArgumentTypeError } from "../core/errors.js";
import { checkName } from "../core/names.js";
import { checkKnown } from "../core/options.js";
import { openSqlStore, type DialectOf, type SqlTarget } from "../sql/open.js";
import { afterwards, type Run, type Script, type When } from "../sql/script.js";
import type { Dialect } from "../sql/statement.js";
import type { CallersTx, SqlStore, SqlStoreOptions, Tx, Work } from "../sql/store.js";
import type { Inbox } from "./contract.js";
import * as scripts from "./scripts.js";
import { INBOX_TABLES } from "./tables.js";

export type { DialectOf, SqlTarget } from "../sql/open.js";
export type { Answered } from "../sql/script.js";
export type { Dialect } from "../sql/statement.js";
export type { TableSqlOptions } from "../sql/tables.js";
export type { CallersTx, SqlStoreOptions, Tx, Work } from "../sql/store.js";
export type { Inbox } from "./contract.js";

export { tableSql } from "./tables.js";

/**
 * An inbox in a SQL database: by URL (`sqlite:PATH`, `postgres://`, `mysql://`), or over a client
 * of the caller's.
 *
 * @throws TypeError or RangeError for a wrong target or option. UnavailableError when the store
 *   cannot be opened, its client library is missing, or its tables are missing or newer.
 */
export async function inbox<T extends SqlTarget>(
  target: T,
  options: SqlStoreOptions = {},
): Promise<Inbox<DialectOf<T>>> {
  checkKnown(options, ["schema", "migrate", "timeout", "runtime"]);
  return inboxOver(await openSqlStore(target, INBOX_TABLES, options));
}

function inboxOver<K extends Dialect>(store: SqlStore<K>): Inbox<K> {
  const recording = (event: unknown, consumer: unknown): Script<boolean> =>
    scripts.record(checkName(event, "event"), checkName(consumer, "consumer"));
  return {
    async once<R>(event: string, consumer: string, effect: Work<K, R>): Promise<boolean> {
      if (typeof effect !== "function") throw new ArgumentTypeError("effect", effect, "a function");
      recording(event, consumer);
      let isFirst = false;
      const work = (tx: Tx<K>): unknown => {
        const run = store.within(tx as unknown as CallersTx<K>) as Run<When>;
        const recorded = run("note an event", () => recording(event, consumer));
        return afterwards(recorded, (first) => {
          isFirst = first;
          return first ? effect(tx) : undefined;
        });
      };
      const during = "run the effect of an event";
      await store.transaction(during, work, () => !isFirst);
      return isFirst;
    },
    record: (tx, event, consumer) =>
      store.within(tx)("note an event", () => recording(event, consumer)),
    has: (event, consumer) =>
      store.run("look for an event", () =>
        scripts.has(checkName(event, "event"), checkName(consumer, "consumer")),
      ),
    async sweep(options) {
      checkKnown(options, ["olderThan"]);
      const olderThanMs = parseDuration(options.olderThan, "olderThan");
      const limitMs = await store.run("look at the clock", () => scripts.before(olderThanMs));
      for (let swept = 0; ;) {
        const some = await store.run("sweep the inbox", () => scripts.sweepSome(limitMs));
        if (some === 0) return swept;
        swept += some;
      }
    },
    close: () => store.close(),
  };
}
