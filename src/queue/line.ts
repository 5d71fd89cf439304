/**
 * Jobs in line: what is done in the store.
 *
 * The row of a key is the lock of its line. Whoever takes, extends or ends a job locks that row for
 * change, so a key has one running job at most. Whoever adds a job only keeps the row from being
 * deleted, and so waits for nobody: neither for others that add, nor for the job that runs.
 *
 * The row of an empty line is deleted by the one who finds it empty, in this order, since the
 * other order loses a job:
 *   1. T looks for jobs of the key, and finds none.   2. A adds one, under the row that is there.
 *   3. A commits.   4. T deletes the row: nobody finds A's job.
 * So T first locks the row against those who add, and then looks. Mostly that is whoever completes
 * the last job of a line, and otherwise the next who takes.
 *
 * The order of a key is that of `seq`. Of two transactions that add at the same time either may be
 * first; one that began after the other's commit comes later.
 */
import { SupersededError } from "../core/errors.js";
import { nextToken } from "../sql/counter.js";
import { bigintOf, numberOf, orNull, textOf } from "../sql/reading.js";
import { forChange, forChangeSkipLocked, forShareOfKey, onceLocked } from "../sql/row-locks.js";
import { insertNew, type Script, type SqlRow } from "../sql/script.js";
import { forUpdateSkipLocked, now, nowOnce, own, sql } from "../sql/statement.js";
import { addAtOnce, clearAtOnce, completeAtOnce, takeAtOnce } from "./at-once.js";
import { scopeOf } from "./terms.js";
import type { AddedJob, Running, TakenJob, Taker, Taking } from "./terms.js";

/** A line that may have jobs which are not committed is looked at again so soon, milliseconds. */
const LOOK_AGAIN_MS = 250;
/**
 * So many lines without a job to take are dealt with in one transaction: what it finds out of more
 * would be lost with its time.
 */
const LOOKS = 50;

/**
 * Adds a job; false where its id is there already. The line comes first, always: two that add one
 * job of a new key would else each have what the other waits for.
 */
export function* addJob(job: AddedJob): Script<boolean> {
  if (yield* addAtOnce(job)) return true;
  const { queue, key, id, payload, delayMs } = job;
  yield* keepKey(queue, key);
  return yield* insertNew(sql`INSERT INTO ${own("queue_job")}
    (queue, job_key, id, payload, state, added_ms, due_ms, tries)
    VALUES (${queue}, ${key}, ${id}, ${payload}, 'waiting', ${now}, ${now} + ${delayMs}, 0)`);
}

/** Makes the row of a key, and keeps it from being deleted until this transaction ends. */
function* keepKey(queue: string, key: string): Script<void> {
  for (;;) {
    yield* insertNew(sql`INSERT INTO ${own("queue_key")} (queue, job_key, ready_ms, until_ms)
      VALUES (${queue}, ${key}, ${now}, 0)`);
    const [row] = yield sql`SELECT 1 AS kept FROM ${own("queue_key")}
      WHERE queue = ${queue} AND job_key = ${key} ${forShareOfKey}`;
    // It may have been deleted in between.
    if (row !== undefined) return;
  }
}

/** Takes the first job of the key whose turn it is, or says that there is more to look at. */
export function* takeJob(taker: Taker): Script<Taking> {
  for (;;) {
    const job = yield* takeAtOnce(taker);
    if (job !== undefined) return { job, inMs: null };
    const look = yield* clearAtOnce(taker.queue);
    if (look === undefined || (look.cleared === 0 && look.hasReady)) break;
    if (look.cleared === 0) return { job: null, inMs: look.inMs };
  }
  for (let looks = 0; looks < LOOKS; looks++) {
    const [free] = yield sql`SELECT job_key FROM ${own("queue_key")}
      WHERE queue = ${taker.queue} AND ready_ms <= ${nowOnce}
      ORDER BY ready_ms LIMIT 1 ${forChangeSkipLocked}`;
    if (free === undefined) return { job: null, inMs: yield* untilReady(taker.queue) };
    const key = textOf(free["job_key"]);
    const head = yield* headOf(taker.queue, key);
    if (head === undefined) yield* leaveLine(taker.queue, key);
    else if (head.dueInMs > 0) yield* lookAgain(taker.queue, key, head.dueInMs);
    else if (head.tries >= taker.maxTries) yield* setAside(head, NEVER_ENDED);
    else return { job: yield* grant(taker, key, head), inMs: null };
  }
  return { job: null, inMs: 0 };
}

const NEVER_ENDED = "taken too often without being completed: its workers died or were too slow";

interface Head {
  readonly seq: bigint;
  readonly id: string;
  readonly payload: string;
  readonly tries: number;
  readonly dueInMs: number;
  readonly reason: string | null;
}

function* headOf(queue: string, key: string): Script<Head | undefined> {
  const [row] = yield sql`SELECT seq, id, payload, tries, reason, due_ms - ${now} AS due_in
    FROM ${own("queue_job")}
    WHERE queue = ${queue} AND job_key = ${key} AND state = 'waiting' ORDER BY seq LIMIT 1`;
  if (row === undefined) return undefined;
  return {
    seq: bigintOf(row["seq"]),
    id: textOf(row["id"]),
    payload: textOf(row["payload"]),
    tries: numberOf(row["tries"]),
    dueInMs: numberOf(row["due_in"]),
    reason: orNull(row["reason"], textOf),
  };
}

function* grant(taker: Taker, key: string, head: Head): Script<TakenJob> {
  const { queue, holder, worker, leaseMs } = taker;
  const token = yield* nextToken("queue_counter", scopeOf(queue, key));
  const tries = head.tries + 1;
  const { seq, id, payload } = head;
  yield sql`UPDATE ${own("queue_key")} SET holder = ${holder}, worker = ${worker},
    token = ${token}, seq = ${seq}, ready_ms = ${now} + ${leaseMs}, until_ms = ${now} + ${leaseMs}
    WHERE queue = ${queue} AND job_key = ${key}`;
  yield sql`UPDATE ${own("queue_job")} SET tries = ${tries}, token = ${token} WHERE seq = ${seq}`;
  return { key, seq, id, payload, token, tries };
}

/** The line seems empty: its row goes, unless somebody is adding to it. */
function* leaveLine(queue: string, key: string): Script<void> {
  const [row] = yield sql`SELECT 1 AS free FROM ${own("queue_key")}
    WHERE queue = ${queue} AND job_key = ${key} ${forUpdateSkipLocked}`;
  if (row === undefined) return yield* lookAgain(queue, key, LOOK_AGAIN_MS);
  // Only now is the answer certain.
  if ((yield* headOf(queue, key)) !== undefined) return;
  yield sql`DELETE FROM ${own("queue_key")} WHERE queue = ${queue} AND job_key = ${key}`;
}

function* lookAgain(queue: string, key: string, inMs: number): Script<void> {
  yield sql`UPDATE ${own("queue_key")} SET holder = NULL, until_ms = 0,
    ready_ms = ${now} + ${inMs} WHERE queue = ${queue} AND job_key = ${key}`;
}

function* setAside({ seq, reason }: Pick<Head, "seq" | "reason">, why: string): Script<void> {
  yield sql`UPDATE ${own("queue_job")} SET state = 'dead', ended_ms = ${now},
    reason = ${reason ?? why} WHERE seq = ${seq}`;
}

function* untilReady(queue: string): Script<number | null> {
  const [row] = yield sql`SELECT min(ready_ms) - ${now} AS ready_in FROM ${own("queue_key")}
    WHERE queue = ${queue} AND ready_ms > ${nowOnce}`;
  return orNull(row?.["ready_in"], (value) => Math.max(1, numberOf(value)));
}

/** Whether the row still shows this holder, and its time is not over. Locks it. */
function* lockIfHeld({ queue, key, holder, token }: Running): Script<SqlRow | "held" | undefined> {
  const [row] = yield onceLocked(
    sql`SELECT holder, token, until_ms FROM ${own("queue_key")}
      WHERE queue = ${queue} AND job_key = ${key} ${forChange}`,
    sql`holder, token, CASE WHEN until_ms > ${now} THEN 1 ELSE 0 END AS lives`,
  );
  if (row === undefined || row["holder"] === null) return undefined;
  const isMine = textOf(row["holder"]) === holder && bigintOf(row["token"]) === token;
  return isMine && numberOf(row["lives"]) === 1 ? "held" : row;
}

/** Sets the lease anew, from now; false when it is over. */
export function* extendJob(running: Running, leaseMs: number): Script<boolean> {
  if ((yield* lockIfHeld(running)) !== "held") return false;
  yield sql`UPDATE ${own("queue_key")} SET ready_ms = ${now} + ${leaseMs},
    until_ms = ${now} + ${leaseMs}
    WHERE queue = ${running.queue} AND job_key = ${running.key}`;
  return true;
}

/**
 * Completes a job that may be completed already: an earlier answer may have been lost. Mostly in
 * one message, which passes over a line that somebody has locked: waiting for it would take time
 * of the lease, after that was looked at.
 */
export function* completeOnce(running: Running): Script<void> {
  if (yield* completeAtOnce(running)) return;
  if (!(yield* isDone(running))) yield* completeJob(running);
}

/** @throws SupersededError unless the row shows this holder, and its time is not over. */
export function* completeJob(running: Running): Script<void> {
  const seen = yield* lockIfHeld(running);
  if (seen !== "held") throw superseded(running, seen, "complete");
  yield sql`UPDATE ${own("queue_job")} SET state = 'done', ended_ms = ${now}
    WHERE seq = ${running.seq}`;
  yield* lookAgain(running.queue, running.key, 0);
}

/** Whether the job was completed with this token. */
export function* isDone({ seq, token }: Running): Script<boolean> {
  const [row] = yield sql`SELECT 1 AS done FROM ${own("queue_job")}
    WHERE seq = ${seq} AND state = 'done' AND token = ${token}`;
  return row !== undefined;
}

/** How a failed job goes on. */
export interface Failure {
  readonly reason: string;
  readonly retryInMs: number;
  readonly maxTries: number;
}

/** Puts a job back to the head of its line, or aside. @throws SupersededError as `completeJob`. */
export function* failJob(running: Running, failure: Failure): Script<"retry" | "dead"> {
  const seen = yield* lockIfHeld(running);
  if (seen !== "held") throw superseded(running, seen, "fail");
  const { reason, retryInMs, maxTries } = failure;
  const { queue, key, seq } = running;
  const [row] = yield sql`SELECT tries FROM ${own("queue_job")} WHERE seq = ${seq}`;
  if (numberOf(row?.["tries"] ?? 0) >= maxTries) {
    yield* setAside({ seq, reason }, reason);
    yield* lookAgain(queue, key, 0);
    return "dead";
  }
  yield sql`UPDATE ${own("queue_job")} SET reason = ${reason}, due_ms = ${now} + ${retryInMs}
    WHERE seq = ${seq}`;
  // Not always this one: a dead one before it may have been revived.
  const head = yield* headOf(queue, key);
  yield* lookAgain(queue, key, Math.max(0, head?.dueInMs ?? 0));
  return "retry";
}

/**
 * Puts a dead job back into its place in line; false where there is none with this id. The line is
 * looked at now, unless a job runs: what made it wait stands behind this one.
 */
export function* reviveJob(queue: string, id: string): Script<boolean> {
  const dead = sql`SELECT seq, job_key FROM ${own("queue_job")}
    WHERE queue = ${queue} AND id = ${id} AND state = 'dead'`;
  const [seen] = yield dead;
  if (seen === undefined) return false;
  const key = textOf(seen["job_key"]);
  yield* keepKey(queue, key);
  yield sql`SELECT 1 AS locked FROM ${own("queue_key")}
    WHERE queue = ${queue} AND job_key = ${key} ${forChange}`;
  const [row] = yield sql`${dead} ${forChange}`;
  if (row === undefined) return false;
  yield sql`UPDATE ${own("queue_job")} SET state = 'waiting', tries = 0, due_ms = ${now},
    ended_ms = NULL WHERE seq = ${bigintOf(row["seq"])}`;
  yield sql`UPDATE ${own("queue_key")} SET ready_ms = ${now}
    WHERE queue = ${queue} AND job_key = ${key} AND until_ms <= ${now}`;
  return true;
}

function superseded(
  { queue, key, holder, token }: Running,
  seen: SqlRow | undefined,
  doing: string,
): SupersededError {
  const resource = scopeOf(queue, key);
  const mark =
    seen === undefined
      ? undefined
      : { holder: textOf(seen["holder"]), token: bigintOf(seen["token"]) };
  const isOther = mark !== undefined && mark.holder !== holder;
  const why = isOther ? `it was taken again with token ${mark.token}` : "its lease is over";
  const text = `cannot ${doing} the job of ${JSON.stringify(resource)} with token ${token}: ${why}`;
  return new SupersededError(text, { resource, token, ...(isOther ? { mark } : {}) });
}
