/** The statements, by schema. 64-bit integers come and go as text. */
import { quoteIdentifier, UNFLUSHED } from "../../dialects/postgres.js";
import { msUntil } from "./schema.js";

/** Text of each statement. */
export interface Statements {
  readonly acquire: string;
  readonly renew: string;
  /** Breaks one lease. */
  readonly break: string;
  /** Releases one lease. */
  readonly release: string;
  /** Releases several. */
  readonly releaseMany: string;
  readonly inspect: string;
  readonly page: string;
  readonly sweep: string;
  /** Notes on a lease that its release is waited for. */
  readonly want: string;
  /** One row while a grant stands; locks it against everything but renewals until the end. */
  readonly heldCheck: string;
}

/** Names in one page of a list. */
export const PAGE = 500;
/** Most rows that one sweep removes. */
const SWEPT = 1_000;
/** The statements for tables in a schema. */
export function statementsFor(schema: string): Statements {
  const s = quoteIdentifier(schema);
  const shown = `name, holder, token::text AS token, ttl_ms::text AS ttl_ms, info,
    ${msUntil("expires")} AS left_ms`;
  return {
    acquire: `SELECT ${s}.acquire($1, $2, $3::bigint, $4, $5, $6::integer, $7) AS answer`,
    renew: `SELECT * FROM ${s}.renew($1)`,
    break: `SELECT ${s}.end_lease($1, NULL, $2::bigint, $3::integer) AS live`,
    // What a crash undoes is a lease that stands again until its TTL. The next grant follows in the
    // log, and its commit waits for both.
    release: `SELECT ${s}.end_lease($1, $2, $3::bigint, $4::integer) AS live, ${UNFLUSHED}`,
    // In the order of names, so that two calls cannot block each other.
    releaseMany: `SELECT a.i::text AS i, ${s}.end_lease(a.n, a.h, a.t, $2::integer) AS live,
        ${UNFLUSHED}
      FROM (
        SELECT * FROM ROWS FROM (json_to_recordset($1::text::json) AS (n text, h text, t bigint))
          WITH ORDINALITY AS b (n, h, t, i)
        ORDER BY b.n COLLATE "C" OFFSET 0
      ) AS a`,
    inspect: `SELECT ${shown} FROM ${s}.lease WHERE name = $1 AND expires > clock_timestamp()`,
    page: `SELECT ${shown} FROM ${s}.lease
      WHERE name > $1 AND name >= $2 AND starts_with(name, $2) AND expires > clock_timestamp()
      ORDER BY name LIMIT ${PAGE}`,
    sweep: `DELETE FROM ${s}.lease WHERE expires <= clock_timestamp() AND ctid = ANY (ARRAY(
      SELECT ctid FROM ${s}.lease WHERE expires <= clock_timestamp()
      LIMIT ${SWEPT} FOR UPDATE SKIP LOCKED))`,
    want: `UPDATE ${s}.lease SET wanted = true WHERE name = $1 AND NOT wanted`,
    heldCheck: `SELECT 1 FROM ${s}.lease
      WHERE name = $1 AND holder = $2 AND token = $3::bigint FOR KEY SHARE`,
  };
}
