/**
 * Tokens of a pattern whose records do not stay: counters that many names share.
 *
 * A counter is raised under the lock of the name it is raised for, so two grants of one name come
 * in the order of their tokens. It is never below the store's time in microseconds: a store that
 * was put back from a copy does not hand out what it handed out before.
 *
 * Not promised: the latter, if the store's clock was set back as well.
 */
import { toToken, type FencingToken } from "../core/token.js";
import { bigintOf } from "./reading.js";
import { insertNew, type Script } from "./script.js";
import { byDialect, forUpdate, now, own, raw, sql, type SqlPiece } from "./statement.js";
import { column, type TableShape } from "./tables.js";

/** Grants of names in different slots do not wait for each other's commit. A power of two. */
const SLOTS = 32;

/** The table; to stand in a pattern's plan. */
export const counterTable: TableShape = {
  columns: sql`slot ${column.integer} NOT NULL PRIMARY KEY, token ${column.integer} NOT NULL`,
};

/** The next token for a name, from a table of {@link counterTable}'s shape. */
export function* nextToken(table: string, name: string): Script<FencingToken> {
  const slot = slotOf(name);
  const seen = sql`SELECT token, ${now} * 1000 AS floor FROM ${own(table)} WHERE slot = ${slot}
    ${forUpdate}`;
  let [row] = yield seen;
  if (row === undefined) {
    yield* insertNew(sql`INSERT INTO ${own(table)} (slot, token) VALUES (${slot}, ${0})`);
    [row] = yield seen;
  }
  const token = later(bigintOf(row?.["token"]), bigintOf(row?.["floor"]));
  yield sql`UPDATE ${own(table)} SET token = ${token} WHERE slot = ${slot}`;
  return token;
}

/**
 * As {@link nextToken}, within a statement of Postgres: the counter's slot, and what to set `token`
 * to. The name may be one that only the statement knows.
 */
export function nextTokenHere(name: SqlPiece): {
  readonly slot: SqlPiece;
  readonly token: SqlPiece;
} {
  return { slot: slotHere(name), token: sql`GREATEST(token + 1, ${now} * 1000)` };
}

/** The token after `last`, not below a time in microseconds. */
export function later(last: bigint, floor: bigint): FencingToken {
  return toToken(last >= floor ? last + 1n : floor);
}

/** The slot of a name, the same in every process. */
function slotOf(name: string): SqlPiece {
  const number = sql`${fnv1a(name) % SLOTS}`;
  return byDialect({ sqlite: number, mysql: number, postgres: slotHere(sql`${name}`) });
}

/** The hash is one that no version of the server changes. */
function slotHere(name: SqlPiece): SqlPiece {
  return sql`(get_byte(sha256(convert_to(${name}, 'UTF8')), 0) & ${raw(String(SLOTS - 1))})`;
}

/** Over the code units. */
function fnv1a(name: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) {
    hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193) >>> 0;
  }
  return hash;
}
