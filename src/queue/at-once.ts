/**
 * What a queue on Postgres mostly does, each in one message: a statement that sessions keep, or
 * two. Of two the first locks what the second then sees as it is, since each sees what was
 * committed before it began. Elsewhere, and where others were in the way, nothing comes of it, and
 * the scripts of `line.ts` decide in a transaction.
 */
import { toToken } from "../core/token.js";
import { nextTokenHere } from "../sql/counter.js";
import { KeptSql, type Holes } from "../sql/kept-sql.js";
import { bigintOf, numberOf, orNull, textOf } from "../sql/reading.js";
import { forChangeSkipLocked, forShareOfKey } from "../sql/row-locks.js";
import { Shortcut, type Script } from "../sql/script.js";
import { forUpdateSkipLocked, now, nowOnce, own, raw, sql, type Sql } from "../sql/statement.js";
import { scopeOf, type AddedJob, type Running, type TakenJob, type Taker } from "./terms.js";

/** The row of a key: there from here on. */
const MAKE_LINE = new KeptSql<"queue" | "key">(
  ({ text }) => sql`INSERT INTO ${own("queue_key")} (queue, job_key, ready_ms, until_ms)
    VALUES (${text("queue")}, ${text("key")}, ${now}, 0) ON CONFLICT DO NOTHING`,
);
/** A job under it, unless it has gone again, or the job's id is there. */
const ADD_TO_LINE = new KeptSql<"queue" | "key" | "id" | "payload" | "delayMs">(
  ({ text, whole }) => sql`WITH kept AS (SELECT 1 FROM ${own("queue_key")}
      WHERE queue = ${text("queue")} AND job_key = ${text("key")} ${forShareOfKey})
    INSERT INTO ${own("queue_job")}
      (queue, job_key, id, payload, state, added_ms, due_ms, tries)
    SELECT ${text("queue")}, ${text("key")}, ${text("id")}, ${text("payload")}, 'waiting', ${now},
      ${now} + ${whole("delayMs")}, 0 FROM kept ON CONFLICT DO NOTHING RETURNING 1 AS added`,
);

/** Adds a job; false where that has to be looked at. */
export function* addAtOnce({ queue, key, id, payload, delayMs }: AddedJob): Script<boolean> {
  const [added] = yield new Shortcut(
    MAKE_LINE.with({ queue, key }),
    ADD_TO_LINE.with({ queue, key, id, payload, delayMs }),
  );
  return added !== undefined;
}

/**
 * As a take goes mostly: one statement. It locks a line that is free and that nobody has locked, so
 * that several takes at once come to several lines. Jobs are seen in it as they were when it began,
 * so what it changes is looked at again as it is, and where that is another state nothing comes of
 * it but a token that nobody gets.
 */
export function* takeAtOnce(taker: Taker): Script<TakenJob | undefined> {
  const { queue, holder, worker, leaseMs, maxTries } = taker;
  const scope = scopeOf(queue, "");
  const filled = TAKE.with({ queue, scope, holder, worker, leaseMs, maxTries });
  const [row] = yield new Shortcut(filled);
  if (row === undefined) return undefined;
  return {
    key: textOf(row["job_key"]),
    seq: bigintOf(row["seq"]),
    id: textOf(row["id"]),
    payload: textOf(row["payload"]),
    token: toToken(bigintOf(row["token"])),
    tries: numberOf(row["tries"]),
  };
}

const nextHere = nextTokenHere(sql`head.scope`);

const TAKE = new KeptSql<"queue" | "scope" | "holder" | "worker" | "leaseMs" | "maxTries">(
  ({ text, whole }) => sql`WITH line AS (
      SELECT job_key FROM ${own("queue_key")}
      WHERE queue = ${text("queue")} AND ready_ms <= ${nowOnce}
      ORDER BY ready_ms LIMIT 1 ${forChangeSkipLocked}),
    head AS (
      SELECT first.seq, ${text("scope")} || line.job_key AS scope
      FROM line CROSS JOIN LATERAL (
        SELECT j.seq FROM ${own("queue_job")} j WHERE j.queue = ${text("queue")}
          AND j.job_key = line.job_key AND j.state = 'waiting' ORDER BY j.seq LIMIT 1) first),
    counter AS (
      UPDATE ${own("queue_counter")} SET token = ${nextHere.token} FROM head
      WHERE slot = ${nextHere.slot} RETURNING token),
    job AS (
      UPDATE ${own("queue_job")} j SET tries = j.tries + 1, token = counter.token
      FROM head, counter WHERE j.seq = head.seq AND j.state = 'waiting' AND j.due_ms <= ${now}
        AND j.tries < ${whole("maxTries")}
      RETURNING j.job_key, j.seq, j.id, j.payload, j.tries, j.token)
    UPDATE ${own("queue_key")} k SET holder = ${text("holder")}, worker = ${text("worker")},
      token = job.token, seq = job.seq, ready_ms = ${now} + ${whole("leaseMs")},
      until_ms = ${now} + ${whole("leaseMs")}
    FROM job WHERE k.queue = ${text("queue")} AND k.job_key = job.job_key
    RETURNING job.job_key, job.seq, job.id, job.payload, job.tries, job.token`,
);

const CLEARED_AT_ONCE = 20;
/** What one statement of a message tells the next; it lasts as long as their transaction. */
const NOTE = raw("'tenure.note'");

/** Locks lines that are ready and seem to be empty, against those who add, and notes their keys. */
const LOCK_EMPTY = new KeptSql<"queue">(
  ({ text }) => sql`WITH empty AS (
      SELECT k.job_key FROM ${own("queue_key")} k WHERE k.queue = ${text("queue")}
        AND k.job_key IN (SELECT job_key FROM ${own("queue_key")}
          WHERE queue = ${text("queue")} AND ready_ms <= ${nowOnce}
          ORDER BY ready_ms LIMIT ${raw(String(CLEARED_AT_ONCE))})
        AND k.ready_ms <= ${now} AND NOT EXISTS (SELECT 1 FROM ${own("queue_job")} j
          WHERE j.queue = ${text("queue")} AND j.job_key = k.job_key AND j.state = 'waiting')
      FOR UPDATE OF k SKIP LOCKED)
    SELECT set_config(${NOTE}, coalesce(array_agg(job_key)::text, '{}'), true) FROM empty`,
);
/** Only now it is certain which are empty. */
const CLEAR = new KeptSql<"queue">(
  ({ text }) => sql`WITH gone AS (
      DELETE FROM ${own("queue_key")} k WHERE k.queue = ${text("queue")}
        AND k.job_key = ANY (CAST(current_setting(${NOTE}) AS text[]))
        AND NOT EXISTS (SELECT 1 FROM ${own("queue_job")} j
          WHERE j.queue = ${text("queue")} AND j.job_key = k.job_key AND j.state = 'waiting')
      RETURNING 1)
    SELECT (SELECT count(*) FROM gone) AS cleared,
      (SELECT min(ready_ms) - ${now} FROM ${own("queue_key")}
        WHERE queue = ${text("queue")}) AS first_in,
      (SELECT min(ready_ms) - ${now} FROM ${own("queue_key")}
        WHERE queue = ${text("queue")} AND ready_ms > ${nowOnce}) AS ready_in`,
);

interface LookAtLines {
  /** Empty ones that went. */
  readonly cleared: number;
  /** Whether one is ready all the same: its job is not, or somebody has it locked. */
  readonly hasReady: boolean;
  /** Milliseconds until the next of the others is. */
  readonly inMs: number | null;
}

/** Where a take has found nothing at once; undefined where that cannot be said at once, either. */
export function* clearAtOnce(queue: string): Script<LookAtLines | undefined> {
  const [row] = yield new Shortcut(LOCK_EMPTY.with({ queue }), CLEAR.with({ queue }));
  if (row === undefined) return undefined;
  const firstInMs = orNull(row["first_in"], numberOf);
  return {
    cleared: numberOf(row["cleared"]),
    hasReady: firstInMs !== null && firstInMs <= 0,
    inMs: orNull(row["ready_in"], (value) => Math.max(1, numberOf(value))),
  };
}

type RunningHoles = "queue" | "key" | "seq" | "holder" | "token";

const lineOf = ({ text }: Holes<RunningHoles>): Sql =>
  sql`queue = ${text("queue")} AND job_key = ${text("key")}`;
const heldBy = ({ text, whole }: Holes<RunningHoles>): Sql =>
  sql`holder = ${text("holder")} AND token = ${whole("token")} AND until_ms > ${now}`;
const isLast = ({ text, whole }: Holes<RunningHoles>): Sql =>
  sql`NOT EXISTS (SELECT 1 FROM ${own("queue_job")} WHERE queue = ${text("queue")}
    AND job_key = ${text("key")} AND state = 'waiting' AND seq <> ${whole("seq")})`;

/** Locks the line against those who add, if no other job seems to be in it, and notes that. */
const LOCK_LAST = new KeptSql<RunningHoles>(
  (holes) => sql`WITH last AS (SELECT 1 FROM ${own("queue_key")} WHERE ${lineOf(holes)}
      AND ${heldBy(holes)} AND ${isLast(holes)} ${forUpdateSkipLocked})
    SELECT set_config(${NOTE}, count(*)::text, true) FROM last`,
);
/** The line of the last job goes with it; that it is the last is certain only with the lock. */
const COMPLETE = new KeptSql<RunningHoles>(
  (holes) => sql`WITH held AS (
      SELECT current_setting(${NOTE}) = '1' AND ${isLast(holes)} AS is_last
      FROM ${own("queue_key")} WHERE ${lineOf(holes)} AND ${heldBy(holes)}
      ${forChangeSkipLocked}),
    gone AS (
      DELETE FROM ${own("queue_key")} WHERE ${lineOf(holes)}
        AND EXISTS (SELECT 1 FROM held WHERE is_last) RETURNING 1),
    freed AS (
      UPDATE ${own("queue_key")} SET holder = NULL, until_ms = 0, ready_ms = ${now}
      WHERE ${lineOf(holes)} AND EXISTS (SELECT 1 FROM held WHERE NOT is_last) RETURNING 1)
    UPDATE ${own("queue_job")} SET state = 'done', ended_ms = ${now}
    WHERE seq = ${holes.whole("seq")}
      AND (EXISTS (SELECT 1 FROM gone) OR EXISTS (SELECT 1 FROM freed)) RETURNING 1 AS done`,
);

/** Completes a job, and its line if that is empty then; false where that has to be looked at. */
export function* completeAtOnce(running: Running): Script<boolean> {
  const { queue, key, seq, holder, token } = running;
  const values = { queue, key, seq, holder, token };
  const [done] = yield new Shortcut(LOCK_LAST.with(values), COMPLETE.with(values));
  return done !== undefined;
}
