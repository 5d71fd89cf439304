/**
 * The calls as scripts over the table.
 *
 * The unique key is the lock: of all that insert it one is first, whatever the clocks say. A claim
 * for a time is taken over under the row's lock, and its token is the row's token + 1, or the
 * store's time in microseconds if that is more.
 *
 * A key is looked at before it is locked, since most callers of a busy key are refused, and a lock
 * would only make them wait for one another. On Postgres and SQLite one statement does it all, and
 * needs no transaction around it; on SQLite the look comes before it, so that whoever is refused
 * waits for no writer.
 */
import { toToken } from "../core/token.js";
import { KeptSql } from "../sql/kept-sql.js";
import { bigintOf, numberOf, orNull, textOf } from "../sql/reading.js";
import { Alone, insertNew, LEFT_OUT, Look, type Script, type SqlRow } from "../sql/script.js";
import {
  byDialect,
  forUpdate,
  forUpdateSkipLocked,
  now,
  nowOnce,
  own,
  raw,
  sql,
  type SqlPiece,
} from "../sql/statement.js";
import type { Meant, Page } from "./arguments.js";
import type { Claim, ClaimRecord, ClaimState } from "./contract.js";
import { standing, superseded, type Present } from "./refusal.js";

/** Whoever asks for a claim. */
export interface Claimant {
  readonly owner: string;
  /** Random id of the claim that it will be. */
  readonly holder: string;
  readonly leaseMs: number | null;
  readonly storeId: string;
}

interface Row extends Present {
  readonly key: string;
  readonly leaseUntil: number | null;
  readonly reason: string | null;
  readonly body: unknown;
  /** When it was read, by the store's clock. */
  readonly atMs: number;
}

const TABLE = own("claim");
const COLUMNS = sql`name, state, owner, holder, token, lease_until, reason, body, ${now} AS at_ms`;
const NOTHING = raw("");

function bodyOf(row: SqlRow): unknown {
  const body = orNull(row["body"], textOf);
  return body === null ? null : JSON.parse(body);
}

function rowOf(row: SqlRow): Row {
  return {
    key: textOf(row["name"]),
    state: textOf(row["state"]) as ClaimState,
    owner: orNull(row["owner"], textOf),
    holder: orNull(row["holder"], textOf),
    token: orNull(row["token"], bigintOf),
    leaseUntil: orNull(row["lease_until"], numberOf),
    reason: orNull(row["reason"], textOf),
    body: bodyOf(row),
    atMs: numberOf(row["at_ms"]),
  };
}

function* read(key: string, lock: SqlPiece = NOTHING): Script<Row | null> {
  const [row] = yield sql`SELECT ${COLUMNS} FROM ${TABLE} WHERE name = ${key} ${lock}`;
  return row === undefined ? null : rowOf(row);
}

/** Adds a key that is pending. */
export function* add(key: string, body: string | null): Script<boolean> {
  return yield* insertNew(sql`INSERT INTO ${TABLE} (name, state, body)
    VALUES (${key}, ${"pending"}, ${body})`);
}

const IS_FREE = sql`CASE WHEN state = 'pending' OR (state = 'running' AND lease_until <= ${now})
  THEN 1 ELSE 0 END`;

const onServers = raw("GREATEST");
const GREATEST = byDialect({ sqlite: raw("max"), postgres: onServers, mysql: onServers });

/**
 * The key where it is new, or free: no row where it is neither. What is taken over has its times
 * from when its row is locked. What is new has them from before: it may have waited for somebody
 * who made the same key and rolled back, and then its lease may be over.
 */
const CLAIM = new KeptSql<"key" | "owner" | "holder" | "leaseMs">(
  ({ text, whole }) => sql`INSERT INTO ${TABLE} AS c
      (name, state, owner, holder, token, lease_ms, lease_until)
    SELECT ${text("key")}, 'running', ${text("owner")}, ${text("holder")}, ${now} * 1000,
      ${whole("leaseMs")}, ${now} + ${whole("leaseMs")}
    WHERE NOT EXISTS (
      SELECT 1 FROM ${TABLE} WHERE name = ${text("key")} AND ${IS_FREE} = 0)
    ON CONFLICT (name) DO UPDATE SET state = 'running', owner = excluded.owner,
      holder = excluded.holder, lease_ms = excluded.lease_ms,
      token = ${GREATEST}(coalesce(c.token, 0) + 1, ${now} * 1000),
      lease_until = ${now} + excluded.lease_ms
    WHERE c.state = 'pending' OR (c.state = 'running' AND c.lease_until <= ${now})
    RETURNING token, body, CASE WHEN lease_until <= ${now} THEN 1 ELSE 0 END AS is_over`,
);

/** Claims a key. */
export function* claim(key: string, claimant: Claimant): Script<Claim | null> {
  const { owner, holder, leaseMs } = claimant;
  const look = sql`SELECT ${IS_FREE} AS is_free FROM ${TABLE} WHERE name = ${key}`;
  const [known] = yield new Look(look);
  if (known !== undefined && numberOf(known["is_free"]) === 0) return null;
  const alone = yield new Alone(CLAIM.with({ key, owner, holder, leaseMs }));
  if (alone !== LEFT_OUT) {
    const [made] = alone;
    if (made === undefined) return null;
    const claimed = { key, token: bigintOf(made["token"]), body: bodyOf(made) };
    if (numberOf(made["is_over"]) === 0) return claimOf(claimed, claimant);
  }

  const insert = sql`INSERT INTO ${TABLE}
    (name, state, owner, holder, token, lease_ms, lease_until)
    VALUES (${key}, ${"running"}, ${owner}, ${holder}, ${now} * 1000, ${leaseMs},
      ${untilOf(leaseMs)})`;
  const seen = yield* read(key);
  if (seen !== null && !isFree(seen)) return null;
  if (seen === null && (yield* insertNew(insert))) {
    const made = (yield* read(key))!;
    // As above: what waited for longer than its lease is taken anew.
    return isFree(made) ? yield* take(made, claimant) : claimOf(made, claimant);
  }
  // Locked, also to see what an older snapshot of the caller's transaction does not show.
  const row = yield* read(key, forUpdate);
  return row !== null && isFree(row) ? yield* take(row, claimant) : null;
}

/** Claims the next key. */
export function* next(claimant: Claimant): Script<Claim | null> {
  const [over] = yield sql`SELECT ${COLUMNS} FROM ${TABLE} WHERE lease_until <= ${nowOnce}
    ORDER BY lease_until LIMIT 1 ${forUpdateSkipLocked}`;
  if (over !== undefined) return yield* take(rowOf(over), claimant);
  const [pending] = yield sql`SELECT ${COLUMNS} FROM ${TABLE} WHERE state = 'pending'
    ORDER BY seq LIMIT 1 ${forUpdateSkipLocked}`;
  return pending === undefined ? null : yield* take(rowOf(pending), claimant);
}

function isFree({ state, leaseUntil, atMs }: Row): boolean {
  if (state === "pending") return true;
  return state === "running" && leaseUntil !== null && leaseUntil <= atMs;
}

function untilOf(leaseMs: number | null): SqlPiece {
  return leaseMs === null ? raw("NULL") : sql`${now} + ${leaseMs}`;
}

/** The row is locked. */
function* take(row: Row, claimant: Claimant): Script<Claim> {
  const { owner, holder, leaseMs } = claimant;
  const fromTime = BigInt(row.atMs) * 1_000n;
  const after = (row.token ?? 0n) + 1n;
  const token = after > fromTime ? after : fromTime;
  yield sql`UPDATE ${TABLE} SET state = ${"running"}, owner = ${owner}, holder = ${holder},
    token = ${token}, lease_ms = ${leaseMs}, lease_until = ${untilOf(leaseMs)}
    WHERE name = ${row.key}`;
  return claimOf({ ...row, token }, claimant);
}

function claimOf(
  { key, token, body }: Pick<Row, "key" | "token" | "body">,
  { owner, holder, leaseMs, storeId }: Claimant,
): Claim {
  return { key, name: key, owner, holder, token: toToken(token!), storeId, leaseMs, body };
}

/** Ends a claim, if it is the present one. */
export function* end(
  meant: Meant,
  state: "done" | "failed",
  reason: string | null,
  backend: string,
): Script<void> {
  const row = yield* read(meant.key, forUpdate);
  if (row === null) throw superseded(meant, null, backend);
  switch (standing(meant, row, state, row.leaseUntil !== null)) {
    case "present":
      yield sql`UPDATE ${TABLE} SET state = ${state}, lease_until = NULL, reason = ${reason}
        WHERE name = ${meant.key}`;
      return;
    case "ended":
      return;
    case "other":
      throw superseded(meant, row, backend);
  }
}

/** One key as it is. */
export function* inspect(key: string): Script<ClaimRecord | null> {
  const row = yield* read(key);
  return row === null ? null : recordOf(row);
}

/** A page of keys. */
export function* list({ state, after, limit }: Page): Script<readonly ClaimRecord[]> {
  const only = state === undefined ? NOTHING : sql`AND state = ${state}`;
  const rows = yield sql`SELECT ${COLUMNS} FROM ${TABLE} WHERE name > ${after} ${only}
    ORDER BY name LIMIT ${raw(String(limit))}`;
  return rows.map((row) => recordOf(rowOf(row)));
}

function recordOf({ leaseUntil, atMs, ...row }: Row): ClaimRecord {
  const leaseLeftMs = leaseUntil === null ? null : Math.max(0, leaseUntil - atMs);
  const { key, state, owner, holder, token, reason, body } = row;
  return { key, state, owner, holder, token, leaseLeftMs, reason, body };
}
