/** What people look at, and what is swept. */
import { numberOf, orNull, textOf } from "../sql/reading.js";
import type { Script } from "../sql/script.js";
import { forUpdateSkipLocked, now, nowOnce, own, sql } from "../sql/statement.js";

/** Most rows that one sweep deletes. */
const SWEEP_ROWS = 1_000;

/** A queue in numbers. */
export interface QueueStats {
  /** Jobs that are not done and not dead; running ones included. */
  readonly waiting: number;
  /** Jobs under a lease that is not over. */
  readonly running: number;
  readonly dead: number;
  /** Jobs that are done, and whose ids are still kept. */
  readonly done: number;
  /** Milliseconds since the oldest waiting job was added; null where none waits. */
  readonly oldestMs: number | null;
}

/** A job that was set aside. */
export interface DeadJob {
  readonly id: string;
  readonly key: string;
  readonly payload: unknown;
  readonly tries: number;
  /** What it failed with the last time. */
  readonly reason: string;
  /** When it was set aside, milliseconds since 1970 by the store's clock. */
  readonly deadMs: number;
}

/** Counts everything. */
export function* queueStats(queue: string): Script<QueueStats> {
  const counts = yield sql`SELECT state, count(*) AS n, ${now} - min(added_ms) AS age
    FROM ${own("queue_job")} WHERE queue = ${queue} GROUP BY state`;
  const [running] = yield sql`SELECT count(*) AS n FROM ${own("queue_key")}
    WHERE queue = ${queue} AND holder IS NOT NULL AND until_ms > ${now}`;
  const row = (state: string) => counts.find((one) => textOf(one["state"]) === state);
  const count = (state: string): number => numberOf(row(state)?.["n"] ?? 0);
  return {
    waiting: count("waiting"),
    running: numberOf(running?.["n"] ?? 0),
    dead: count("dead"),
    done: count("done"),
    oldestMs: orNull(row("waiting")?.["age"], numberOf),
  };
}

/** The dead, the latest first. */
export function* deadJobs(queue: string, limit: number): Script<DeadJob[]> {
  const rows = yield sql`SELECT id, job_key, payload, tries, reason, ended_ms
    FROM ${own("queue_job")} WHERE queue = ${queue} AND state = 'dead'
    ORDER BY ended_ms DESC, seq DESC LIMIT ${limit}`;
  return rows.map((row) => ({
    id: textOf(row["id"]),
    key: textOf(row["job_key"]),
    payload: JSON.parse(textOf(row["payload"])) as unknown,
    tries: numberOf(row["tries"]),
    reason: orNull(row["reason"], textOf) ?? "",
    deadMs: numberOf(row["ended_ms"]),
  }));
}

/** Forgets jobs that were done before `keepMs`; answers whether there may be more. */
export function* sweepJobs(queue: string, keepMs: number): Script<boolean> {
  const swept = yield sql`DELETE FROM ${own("queue_job")}
    WHERE seq IN (SELECT seq FROM ${own("queue_job")}
    WHERE queue = ${queue} AND state = 'done' AND ended_ms < ${nowOnce} - ${keepMs}
    ORDER BY ended_ms LIMIT ${SWEEP_ROWS} ${forUpdateSkipLocked}) RETURNING 1 AS swept`;
  return swept.length === SWEEP_ROWS;
}
