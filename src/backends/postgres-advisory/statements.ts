/** The statements, by schema. 64-bit integers come and go as text. */
import { quoteIdentifier, UNFLUSHED } from "../../dialects/postgres.js";
import { keySql, locksKeySql } from "./schema.js";

/** Text of each statement. */
export interface Statements {
  readonly acquire: string;
  readonly release: string;
  /** For the leases of one session: each with whether it stands. */
  readonly look: string;
  readonly inspect: string;
  readonly list: string;
  /** Ends the session that holds, unless it carries other locks as well. */
  readonly releaseForeign: string;
  /** Ends the session that holds, which ends all its leases. */
  readonly break: string;
  /** Removes rows whose session is gone, each under its own lock. */
  readonly sweep: string;
}

/** Most rows that one sweep removes. */
const SWEPT = 200;
/** How long to wait for a session that was ended to be gone, milliseconds. */
const END_WAIT_MS = 2_000;

/** The statements for tables in a schema. */
export function statementsFor(schema: string): Statements {
  const s = quoteIdentifier(schema);
  const lease = `${s}.advisory_lease`;
  const shown = "l.name, l.holder, l.token::text AS token, l.ttl_ms::text AS ttl_ms, l.info";
  const locked = `pg_locks AS k ON k.pid = l.pid AND ${locksKeySql(keySql("l.name"))}`;
  return {
    acquire: `SELECT * FROM ${s}.advisory_acquire($1, $2, $3::bigint, $4)`,
    // What a crash undoes is the row of a lock that is gone with its session. All leases of one TTL
    // share a session, and take turns.
    release: `SELECT ${s}.advisory_release($1, $2, $3::bigint) AS released, ${UNFLUSHED}`,
    look: `SELECT a.i::text AS i, k.pid IS NOT NULL AS live, ${shown},
        l.holder = a.h AND l.token = a.t AS same,
        l.holder = a.h AND l.token = a.t AND l.pid = pg_backend_pid() AS mine
      FROM ROWS FROM (json_to_recordset($1::text::json) AS (n text, h text, t bigint))
        WITH ORDINALITY AS a (n, h, t, i)
      LEFT JOIN ${lease} AS l ON l.name = a.n
      LEFT JOIN ${locked}`,
    inspect: `SELECT ${shown} FROM ${lease} AS l JOIN ${locked} WHERE l.name = $1`,
    list: `SELECT ${shown} FROM ${lease} AS l JOIN ${locked} WHERE starts_with(l.name, $1)`,
    releaseForeign: `SELECT CASE WHEN (
          SELECT count(*) FROM pg_locks AS o WHERE o.locktype = 'advisory' AND o.pid = l.pid
        ) = 1 THEN pg_terminate_backend(l.pid, ${END_WAIT_MS}) END AS released
      FROM ${lease} AS l JOIN ${locked}
      WHERE l.name = $1 AND l.holder = $2 AND l.token = $3::bigint`,
    break: `SELECT pg_terminate_backend(l.pid, ${END_WAIT_MS}) AS broken
      FROM ${lease} AS l JOIN ${locked} WHERE l.name = $1 AND l.token = $2::bigint`,
    // Run by a session without locks of its own: one lock of one session can be taken twice.
    sweep: `DELETE FROM ${lease} WHERE name IN (
        SELECT l.name FROM ${lease} AS l LEFT JOIN ${locked} WHERE k.pid IS NULL LIMIT ${SWEPT}
      ) AND pg_try_advisory_xact_lock(${keySql("name")})`,
  };
}
