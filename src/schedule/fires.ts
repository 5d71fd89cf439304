/**
 * Fires: what is done in the store.
 *
 * A fire is a schedule's name and a time of its cron expression. It is dealt with once: under the
 * lock of the schedule's row, by whoever comes first, and it then has a row of its own under that
 * unique key. `upto_ms` is the latest fire that was dealt with and only grows, so a replica that is
 * late by any time finds it behind, also when the row was swept.
 *
 * A run is taken from its holder only under the lock of the fire's row, looked at again there: the
 * holder may have ended or extended it in a transaction that is still open.
 *   1. H completes its fire in a transaction, in time.   2. The lease passes, as far as C can see.
 *   3. H commits.   4. C writes itself into the row: what was done is done a second time.
 *
 * Time is the store's. A replica whose clock is ahead comes early, sees by the store's clock that
 * the time has not come, and is told how long to wait: no fire runs before its time by that clock.
 */
import { SupersededError } from "../core/errors.js";
import type { FencingToken } from "../core/token.js";
import { later } from "../sql/counter.js";
import { bigintOf, numberOf, orNull, textOf } from "../sql/reading.js";
import { onceLocked } from "../sql/row-locks.js";
import { insertNew, type Script, type SqlRow } from "../sql/script.js";
import { forUpdate, forUpdateSkipLocked, now, own, sql } from "../sql/statement.js";

/** What becomes of a fire while an earlier run of the schedule lasts. */
export type Overlap = "skip" | "wait" | "allow";
/** What becomes of a run whose process has died. */
export type Crashed = "rerun" | "leave";

/** Who claims, and by which rules. */
export interface Claimer {
  readonly name: string;
  readonly holder: string;
  readonly worker: string;
  readonly leaseMs: number;
  readonly overlap: Overlap;
  readonly crashed: Crashed;
  readonly maxTries: number;
  /** Fires after `uptoMs` that are to run at `nowMs`, the oldest first. */
  due(uptoMs: number, nowMs: number): Iterable<number>;
  /** The next fire after a time; null where there is none. */
  next(nowMs: number): number | null;
}

/** A fire that was claimed. */
export interface ClaimedFire {
  readonly fireMs: number;
  readonly token: FencingToken;
  readonly tries: number;
}

/** The answer to a claim: a fire, or how long until there may be one. */
export type Claiming = { readonly fire: ClaimedFire } | { readonly inMs: number | null };

/** Who runs a fire. */
export interface RunningFire {
  readonly name: string;
  readonly fireMs: number;
  readonly holder: string;
  readonly token: FencingToken;
}

/** Others look so often whether a run that a fire waits for has ended. */
const LOOK_AGAIN_MS = 1_000;

interface Seen {
  readonly uptoMs: number;
  readonly token: FencingToken;
  readonly nowMs: number;
}

/** Claims the next fire whose time has come. */
export function* claimFire(claimer: Claimer): Script<Claiming> {
  const seen = yield* lockName(claimer.name);
  const { lasting, left } = yield* runsOf(claimer.name);
  for (const { fireMs, tries } of left) {
    if (claimer.crashed === "rerun" && tries < claimer.maxTries) {
      return { fire: yield* grant(claimer, seen, fireMs, tries + 1) };
    }
    yield* endFire(claimer.name, fireMs, "crashed", "its process ended, or lost its lease");
  }
  const lastsMs = lasting.length === 0 ? null : Math.min(...lasting.map(({ leftMs }) => leftMs));
  for (const fireMs of claimer.due(seen.uptoMs, seen.nowMs)) {
    // What was due before the run began is made up for, and comes after it; not in its place.
    const waits = claimer.overlap === "wait" || lasting.some((run) => fireMs <= run.startedMs);
    if (lastsMs !== null && claimer.overlap !== "allow" && waits) {
      return { inMs: Math.min(lastsMs, LOOK_AGAIN_MS) };
    }
    const skips = lastsMs !== null && claimer.overlap === "skip";
    const isNew = yield* addFire(claimer.name, fireMs, skips);
    if (isNew && !skips) return { fire: yield* grant(claimer, seen, fireMs, 1) };
  }
  const nextMs = claimer.next(seen.nowMs);
  const inMs = nextMs === null ? null : nextMs - seen.nowMs;
  const waits = [inMs, lastsMs].filter((ms) => ms !== null);
  return { inMs: waits.length === 0 ? null : Math.min(...waits) };
}

/**
 * Claims one fire by its time, for those who keep time themselves; null where it was dealt with.
 * Before its time, by the store's clock, the answer is how long until then.
 */
export function* claimThisFire(
  claimer: Claimer,
  fireMs: number,
): Script<{ readonly fire: ClaimedFire } | { readonly inMs: number } | null> {
  const seen = yield* lockName(claimer.name, fireMs - 1);
  if (fireMs <= seen.uptoMs) return null;
  if (fireMs > seen.nowMs) return { inMs: fireMs - seen.nowMs };
  if (!(yield* addFire(claimer.name, fireMs, false))) return null;
  return { fire: yield* grant(claimer, seen, fireMs, 1) };
}

/** A schedule that is new begins now: what lies before is not missed. */
function* lockName(name: string, fromMs?: number): Script<Seen> {
  const look = sql`SELECT upto_ms, token, ${now} AS now_ms FROM ${own("schedule_name")}
    WHERE name = ${name} ${forUpdate}`;
  let [row] = yield look;
  if (row === undefined) {
    yield* insertNew(sql`INSERT INTO ${own("schedule_name")} (name, upto_ms, token)
      VALUES (${name}, ${fromMs ?? now}, 0)`);
    [row] = yield look;
  }
  const nowMs = bigintOf(row?.["now_ms"]);
  return {
    uptoMs: numberOf(row?.["upto_ms"]),
    token: later(bigintOf(row?.["token"]), nowMs * 1_000n),
    nowMs: Number(nowMs),
  };
}

interface Run {
  readonly fireMs: number;
  readonly startedMs: number;
  readonly leftMs: number;
  readonly tries: number;
}

/** Runs of a schedule: those that last, and those that were left by their holders, locked. */
function* runsOf(name: string): Script<{ readonly lasting: Run[]; readonly left: Run[] }> {
  const rows = yield sql`SELECT fire_ms, started_ms, until_ms - ${now} AS left_ms, tries
    FROM ${own("schedule_fire")} WHERE name = ${name} AND state = 'running' ORDER BY fire_ms`;
  const [lasting, left]: [Run[], Run[]] = [[], []];
  for (const row of rows) {
    const seen = runIn(row);
    if (seen.leftMs > 0) {
      lasting.push(seen);
      continue;
    }
    const [locked] = yield sql`SELECT fire_ms, started_ms, until_ms - ${now} AS left_ms, tries
      FROM ${own("schedule_fire")} WHERE name = ${name} AND fire_ms = ${seen.fireMs}
      AND state = 'running' ${forUpdateSkipLocked}`;
    // Its holder is at it, or has just ended it.
    const run = locked === undefined ? { ...seen, leftMs: LOOK_AGAIN_MS } : runIn(locked);
    (run.leftMs > 0 ? lasting : left).push(run);
  }
  return { lasting, left };
}

function runIn(row: SqlRow): Run {
  return {
    fireMs: numberOf(row["fire_ms"]),
    startedMs: numberOf(row["started_ms"]),
    leftMs: numberOf(row["left_ms"]),
    tries: numberOf(row["tries"]),
  };
}

/** From here on the fire is dealt with. */
function* addFire(name: string, fireMs: number, skips: boolean): Script<boolean> {
  const isNew = yield* insertNew(sql`INSERT INTO ${own("schedule_fire")}
    (name, fire_ms, state, tries, ended_ms, reason) VALUES (${name}, ${fireMs},
    ${skips ? "skipped" : "running"}, 0, ${skips ? now : null},
    ${skips ? "the run before it lasted" : null})`);
  yield sql`UPDATE ${own("schedule_name")} SET upto_ms = ${fireMs}
    WHERE name = ${name} AND upto_ms < ${fireMs}`;
  return isNew;
}

function* grant(
  { name, holder, worker, leaseMs }: Claimer,
  { token }: Seen,
  fireMs: number,
  tries: number,
): Script<ClaimedFire> {
  yield sql`UPDATE ${own("schedule_name")} SET token = ${token} WHERE name = ${name}`;
  yield sql`UPDATE ${own("schedule_fire")} SET state = 'running', holder = ${holder},
    worker = ${worker}, token = ${token}, until_ms = ${now} + ${leaseMs}, tries = ${tries},
    started_ms = ${now} WHERE name = ${name} AND fire_ms = ${fireMs}`;
  return { fireMs, token, tries };
}

function* endFire(
  name: string,
  fireMs: number,
  state: string,
  reason: string | null,
): Script<void> {
  yield sql`UPDATE ${own("schedule_fire")} SET state = ${state}, ended_ms = ${now},
    reason = ${reason} WHERE name = ${name} AND fire_ms = ${fireMs}`;
}

/** Whether this holder runs it, and its time is not over. Locks the fire. */
function* isRunning({ name, fireMs, holder, token }: RunningFire): Script<boolean> {
  const [row] = yield onceLocked(
    sql`SELECT holder, token, until_ms FROM ${own("schedule_fire")} WHERE name = ${name}
      AND fire_ms = ${fireMs} AND state = 'running' ${forUpdate}`,
    sql`holder, token, CASE WHEN until_ms > ${now} THEN 1 ELSE 0 END AS lives`,
  );
  if (row === undefined || numberOf(row["lives"]) === 0) return false;
  return textOf(row["holder"]) === holder && bigintOf(row["token"]) === token;
}

/** Sets the lease anew, from now; false when it is over. */
export function* extendFire(running: RunningFire, leaseMs: number): Script<boolean> {
  if (!(yield* isRunning(running))) return false;
  yield sql`UPDATE ${own("schedule_fire")} SET until_ms = ${now} + ${leaseMs}
    WHERE name = ${running.name} AND fire_ms = ${running.fireMs}`;
  return true;
}

/** @throws SupersededError when the lease is over. */
export function* finishFire(
  running: RunningFire,
  state: "done" | "failed",
  reason: string | null = null,
): Script<void> {
  const { name, fireMs, token } = running;
  if (yield* isRunning(running)) return yield* endFire(name, fireMs, state, reason);
  const text = `cannot end the run of ${JSON.stringify(name)} with token ${token}`;
  throw new SupersededError(`${text}: its lease is over`, { resource: name, token });
}

/** Whether the fire was completed with this token. */
export function* isFinished({ name, fireMs, token }: RunningFire): Script<boolean> {
  const [row] = yield sql`SELECT 1 AS done FROM ${own("schedule_fire")} WHERE name = ${name}
    AND fire_ms = ${fireMs} AND token = ${token} AND state = 'done'`;
  return row !== undefined;
}

/** Forgets fires that ended before `keepMs`. */
export function* sweepFires(name: string, keepMs: number): Script<void> {
  yield sql`DELETE FROM ${own("schedule_fire")} WHERE name = ${name} AND state <> 'running'
    AND ended_ms < ${now} - ${keepMs}`;
}

/** One fire, as people see it. Times in milliseconds since 1970, by the store's clock. */
export interface FireRecord {
  /** The time of the cron expression. */
  readonly fireMs: number;
  readonly state: "running" | "done" | "failed" | "crashed" | "skipped";
  /** How often it was begun. */
  readonly tries: number;
  readonly worker: string | null;
  readonly startedMs: number | null;
  readonly endedMs: number | null;
  readonly reason: string | null;
}

/** The latest fires, the latest first. */
export function* listFires(name: string, limit: number): Script<FireRecord[]> {
  const rows = yield sql`SELECT fire_ms, state, tries, worker, started_ms, ended_ms, reason
    FROM ${own("schedule_fire")} WHERE name = ${name} ORDER BY fire_ms DESC LIMIT ${limit}`;
  return rows.map((row) => ({
    fireMs: numberOf(row["fire_ms"]),
    state: textOf(row["state"]) as FireRecord["state"],
    tries: numberOf(row["tries"]),
    worker: orNull(row["worker"], textOf),
    startedMs: orNull(row["started_ms"], numberOf),
    endedMs: orNull(row["ended_ms"], numberOf),
    reason: orNull(row["reason"], textOf),
  }));
}
