/**
 * Messages: what is done in the store.
 *
 * Order. A number from a sequence is taken before its transaction commits, so a reader that
 * remembers the highest number it has seen skips what commits later with a lower one:
 *   1. A takes 5.   2. B takes 6 and commits.   3. The relay reads 6, and remembers it.
 *   4. A commits 5, which is never read.
 * Here nothing is remembered: the relay reads what is not published yet, whatever its number. What
 * is left is that 6 goes before 5. Between keys that is no order anybody asked for. Within a key it
 * cannot happen: a writer holds the lock of its key from before it takes a number until its
 * transaction has ended, so B waits in step 2, and of one key a message with a lower number never
 * shows up after one with a higher. Holding back everything behind the oldest open transaction
 * (`pg_snapshot_xmin`) would do, too; then one forgotten transaction anywhere in the database stops
 * all messages, where this stops those of its keys.
 *
 * On SQLite one transaction writes at a time, so numbers are in the order of commits.
 */
import { SupersededError } from "../core/errors.js";
import type { FencingToken } from "../core/token.js";
import { later } from "../sql/counter.js";
import { bigintOf, numberOf, orNull, textOf } from "../sql/reading.js";
import { onceLocked } from "../sql/row-locks.js";
import { insertNew, type Script } from "../sql/script.js";
import {
  byDialect,
  forUpdate,
  forUpdateSkipLocked,
  list,
  now,
  nowOnce,
  own,
  raw,
  sql,
} from "../sql/statement.js";

/** There is one relay. */
export const RELAY = "relay";

/** A message to write; checked. */
export interface WrittenMessage {
  readonly id: string;
  readonly key: string;
  readonly topic: string;
  readonly payload: string;
}

/** A message to publish. */
export interface WaitingMessage extends WrittenMessage {
  readonly seq: bigint;
  /** How often it was tried before. */
  readonly tries: number;
  readonly writtenMs: number;
}

/** Who relays. */
export interface Relaying {
  readonly holder: string;
  readonly token: FencingToken;
}

/** Writes a message; false where its id is there already. */
export function* writeMessage(message: WrittenMessage): Script<boolean> {
  const { id, key, topic, payload } = message;
  yield lockKey(key);
  return yield* insertNew(sql`INSERT INTO ${own("outbox_message")}
    (id, message_key, topic, payload, state, written_ms, due_ms, tries)
    VALUES (${id}, ${key}, ${topic}, ${payload}, 'waiting', ${now}, 0, 0)`);
}

/** A lock of the transaction, which needs no row; keys whose hashes are equal share one. */
function lockKey(key: string): ReturnType<typeof sql> {
  const lock = sql`pg_advisory_xact_lock(hashtextextended(${`tenure outbox ${key}`}, 0))`;
  return sql`SELECT ${byDialect({ sqlite: raw("1"), postgres: lock, mysql: raw("1") })} AS locked`;
}

/** The answer to who wants to relay. */
export type Claiming = { readonly token: FencingToken } | { readonly inMs: number };

/** Makes this holder the relay, unless another is. */
export function* claimRelay(holder: string, leaseMs: number): Script<Claiming> {
  const look = sql`SELECT token, until_ms - ${now} AS left_ms, ${now} * 1000 AS floor
    FROM ${own("outbox_relay")} WHERE name = ${RELAY} ${forUpdate}`;
  let [row] = yield look;
  if (row === undefined) {
    yield* insertNew(sql`INSERT INTO ${own("outbox_relay")} (name, token, until_ms)
      VALUES (${RELAY}, 0, 0)`);
    [row] = yield look;
  }
  const leftMs = numberOf(row?.["left_ms"]);
  if (leftMs > 0) return { inMs: leftMs };
  const token = later(bigintOf(row?.["token"]), bigintOf(row?.["floor"]));
  yield sql`UPDATE ${own("outbox_relay")} SET holder = ${holder}, token = ${token},
    until_ms = ${now} + ${leaseMs} WHERE name = ${RELAY}`;
  return { token };
}

function* isRelay({ holder, token }: Relaying): Script<boolean> {
  const [row] = yield onceLocked(
    sql`SELECT holder, token, until_ms FROM ${own("outbox_relay")} WHERE name = ${RELAY}
      ${forUpdate}`,
    sql`holder, token, CASE WHEN until_ms > ${now} THEN 1 ELSE 0 END AS lives`,
  );
  if (row === undefined || row["holder"] === null || numberOf(row["lives"]) === 0) return false;
  return textOf(row["holder"]) === holder && bigintOf(row["token"]) === token;
}

/** Sets the relay's time anew, from now; false when it is over. */
export function* extendRelay(relaying: Relaying, leaseMs: number): Script<boolean> {
  if (!(yield* isRelay(relaying))) return false;
  yield sql`UPDATE ${own("outbox_relay")} SET until_ms = ${now} + ${leaseMs}
    WHERE name = ${RELAY}`;
  return true;
}

/** Lets another relay. */
export function* leaveRelay(relaying: Relaying): Script<void> {
  if (!(yield* isRelay(relaying))) return;
  yield sql`UPDATE ${own("outbox_relay")} SET holder = NULL, until_ms = 0 WHERE name = ${RELAY}`;
}

/**
 * What is to be published now, in order: nothing of a key behind one that is to wait, and nothing
 * of keys that are busy.
 */
export function* readWaiting(
  limit: number,
  busyKeys: readonly string[] = [],
): Script<WaitingMessage[]> {
  const others =
    busyKeys.length === 0 ? raw("") : sql`AND one.message_key NOT IN (${list(busyKeys)})`;
  // The keys that wait are found once: for each message anew they were looked for among all.
  const rows = yield sql`WITH failed AS (
      SELECT message_key, min(seq) AS first_seq FROM ${own("outbox_message")}
      WHERE state = 'waiting' AND due_ms > ${nowOnce} GROUP BY message_key)
    SELECT one.seq, id, one.message_key, topic, payload, tries, written_ms
    FROM ${own("outbox_message")} one LEFT JOIN failed ON failed.message_key = one.message_key
    WHERE state = 'waiting' AND (first_seq IS NULL OR one.seq < first_seq) ${others}
    ORDER BY one.seq LIMIT ${limit}`;
  return rows.map((row) => ({
    seq: bigintOf(row["seq"]),
    id: textOf(row["id"]),
    key: textOf(row["message_key"]),
    topic: textOf(row["topic"]),
    payload: textOf(row["payload"]),
    tries: numberOf(row["tries"]),
    writtenMs: numberOf(row["written_ms"]),
  }));
}

/** A message that could not be published. */
export interface FailedMessage {
  readonly seq: bigint;
  /** How often it was tried before. */
  readonly tries: number;
  readonly reason: string;
  readonly retryInMs: number;
  /** It was its last try. */
  readonly isLast: boolean;
}

/** What became of some messages. */
export interface Outcome {
  readonly published: readonly bigint[];
  readonly failed: readonly FailedMessage[];
}

/**
 * Records it once, however often it is told: where the answer was lost, it may be there already.
 *
 * @throws SupersededError when another relays by now: it publishes these messages again.
 */
export function* recordOutcome(relaying: Relaying, outcome: Outcome): Script<void> {
  if (!(yield* isRelay(relaying))) {
    const text = `cannot record what was published with token ${relaying.token}: the lease is over`;
    throw new SupersededError(text, { resource: RELAY, token: relaying.token });
  }
  const { published, failed } = outcome;
  if (published.length > 0) {
    yield sql`UPDATE ${own("outbox_message")} SET state = 'published', ended_ms = ${now},
      tries = tries + 1, reason = NULL WHERE seq IN (${list(published)}) AND state = 'waiting'`;
  }
  for (const { seq, tries, reason, retryInMs, isLast } of failed) {
    yield sql`UPDATE ${own("outbox_message")} SET tries = tries + 1, reason = ${reason},
      due_ms = ${now} + ${retryInMs}, ended_ms = ${now}, state = ${isLast ? "dead" : "waiting"}
      WHERE seq = ${seq} AND state = 'waiting' AND tries = ${tries}`;
  }
}

/** Puts a dead message back; false where there is none with this id. */
export function* reviveMessage(id: string): Script<boolean> {
  const [row] = yield sql`SELECT seq FROM ${own("outbox_message")}
    WHERE id = ${id} AND state = 'dead' ${forUpdate}`;
  if (row === undefined) return false;
  yield sql`UPDATE ${own("outbox_message")} SET state = 'waiting', tries = 0, due_ms = 0,
    ended_ms = NULL WHERE seq = ${bigintOf(row["seq"])}`;
  return true;
}

/** Forgets what was published before `keepMs`, so many at most; answers how many. */
export function* sweepMessages(keepMs: number, most: number): Script<number> {
  const swept = yield sql`DELETE FROM ${own("outbox_message")} WHERE seq IN (
    SELECT seq FROM ${own("outbox_message")} WHERE state = 'published'
    AND ended_ms < ${nowOnce} - ${keepMs} ORDER BY ended_ms LIMIT ${most}
    ${forUpdateSkipLocked}) RETURNING 1 AS swept`;
  return swept.length;
}

/** An outbox in numbers. */
export interface OutboxStats {
  /** Messages that are neither published nor dead. */
  readonly waiting: number;
  /** Milliseconds since the oldest of these was written; null where none waits. */
  readonly oldestMs: number | null;
  /** Those of them that could not be published so far: each holds back its key. */
  readonly failing: number;
  /** Tries of the one that was tried most. */
  readonly mostTries: number;
  readonly dead: number;
  /** Published ones that are still kept. */
  readonly published: number;
  /** Whether somebody relays. */
  readonly isRelayed: boolean;
}

/** Counts everything. */
export function* outboxStats(): Script<OutboxStats> {
  const counts = yield sql`SELECT state, count(*) AS n, ${now} - min(written_ms) AS age,
    sum(CASE WHEN tries > 0 THEN 1 ELSE 0 END) AS failing, max(tries) AS most
    FROM ${own("outbox_message")} GROUP BY state`;
  const [relay] = yield sql`SELECT 1 AS there FROM ${own("outbox_relay")}
    WHERE name = ${RELAY} AND until_ms > ${now}`;
  const row = (state: string) => counts.find((one) => textOf(one["state"]) === state);
  const count = (state: string): number => numberOf(row(state)?.["n"] ?? 0);
  return {
    waiting: count("waiting"),
    oldestMs: orNull(row("waiting")?.["age"], numberOf),
    failing: numberOf(row("waiting")?.["failing"] ?? 0),
    mostTries: numberOf(row("waiting")?.["most"] ?? 0),
    dead: count("dead"),
    published: count("published"),
    isRelayed: relay !== undefined,
  };
}

/** A message that could not be published. */
export interface TroubledMessage {
  readonly id: string;
  readonly key: string;
  readonly topic: string;
  readonly payload: unknown;
  readonly tries: number;
  /** What the last try failed with. */
  readonly reason: string;
}

/** Messages that failed, the oldest first. */
export function* troubledMessages(
  state: "waiting" | "dead",
  limit: number,
): Script<TroubledMessage[]> {
  const rows = yield sql`SELECT id, message_key, topic, payload, tries, reason
    FROM ${own("outbox_message")} WHERE state = ${state} AND tries > 0
    ORDER BY seq LIMIT ${limit}`;
  return rows.map((row) => ({
    id: textOf(row["id"]),
    key: textOf(row["message_key"]),
    topic: textOf(row["topic"]),
    payload: JSON.parse(textOf(row["payload"])) as unknown,
    tries: numberOf(row["tries"]),
    reason: orNull(row["reason"], textOf) ?? "",
  }));
}
