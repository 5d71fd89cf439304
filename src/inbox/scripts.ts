/** The inbox as scripts: a row for each event and consumer, inserted by the first. */
import { bigintOf, numberOf } from "../sql/reading.js";
import { insertNew, type Script } from "../sql/script.js";
import { now, own, raw, sql } from "../sql/statement.js";

const TABLE = own("inbox");

/** Notes an event; false when it was there. */
export function* record(event: string, consumer: string): Script<boolean> {
  return yield* insertNew(sql`INSERT INTO ${TABLE} (event, consumer, at_ms)
    VALUES (${event}, ${consumer}, ${now})`);
}

/** Whether an event is noted. */
export function* has(event: string, consumer: string): Script<boolean> {
  const [row] = yield sql`SELECT 1 AS there FROM ${TABLE}
    WHERE consumer = ${consumer} AND event = ${event}`;
  return row !== undefined;
}

/** The time before which something is older than so many milliseconds. */
export function* before(olderThanMs: number): Script<bigint> {
  const [row] = yield sql`SELECT ${now} - ${olderThanMs} AS limit_ms`;
  return bigintOf(row!["limit_ms"]);
}

/** Rows that one transaction deletes, about: a sweep must not keep others waiting. */
const BATCH = 1_000;

/** Deletes the oldest noted before a time; answers how many, 0 when none is left. */
export function* sweepSome(limitMs: bigint): Script<number> {
  const oldest = yield sql`SELECT at_ms FROM ${TABLE} WHERE at_ms < ${limitMs}
    ORDER BY at_ms LIMIT ${raw(String(BATCH))}`;
  const last = oldest.at(-1);
  if (last === undefined) return 0;
  const upTo = bigintOf(last["at_ms"]);
  const [row] = yield sql`SELECT count(*) AS n FROM ${TABLE} WHERE at_ms <= ${upTo}`;
  yield sql`DELETE FROM ${TABLE} WHERE at_ms <= ${upTo}`;
  return numberOf(row!["n"]);
}
