/** The statements, by schema. 64-bit integers come and go as text, other texts as hex digits. */
import { BYTES, quoteIdentifier } from "../../dialects/mysql.js";
import { msUntil } from "./procedures.js";

/** Text of each statement. */
export interface Statements {
  readonly acquire: string;
  readonly renew: string;
  /** Releases or breaks one lease. */
  readonly release: string;
  /** Releases several. */
  readonly releaseMany: string;
  readonly inspect: string;
  readonly page: string;
  readonly sweep: string;
  /** One row while a grant stands; locks it against everything but renewals until the end. */
  readonly heldCheck: string;
}

/** Names in one page of a list. */
export const PAGE = 500;

/** The statements for tables in a schema. */
export function statementsFor(schema: string): Statements {
  const s = quoteIdentifier(schema);
  const shown = `HEX(name) AS name, HEX(holder) AS holder, CAST(token AS CHAR) AS token,
    CAST(ttl_ms AS CHAR) AS ttl_ms, HEX(info) AS info, ${msUntil("expires")} AS left_ms`;
  return {
    acquire: `CALL ${s}.tenure_acquire_2(UNHEX(?), UNHEX(?), ?, UNHEX(?), ?)`,
    renew: `CALL ${s}.tenure_renew_2(?)`,
    release: `CALL ${s}.tenure_release_2(UNHEX(?), UNHEX(?), CAST(? AS SIGNED), ?)`,
    releaseMany: `CALL ${s}.tenure_release_many_2(?, ?)`,
    inspect: `SELECT ${shown} FROM ${s}.tenure_lease
      WHERE name = UNHEX(?) AND expires > UTC_TIMESTAMP(6)`,
    // No name in UTF-8 has a byte FF.
    page: `SELECT ${shown} FROM ${s}.tenure_lease
      WHERE name > ${BYTES} AND name >= ${BYTES} AND name < CONCAT(${BYTES}, X'FF')
        AND expires > UTC_TIMESTAMP(6)
      ORDER BY tenure_lease.name LIMIT ${PAGE}`,
    sweep: `CALL ${s}.tenure_sweep_1()`,
    // All columns are in the index, so that it is locked, and the row is not.
    heldCheck: `SELECT 1 AS held FROM ${s}.tenure_lease FORCE INDEX (tenure_grant)
      WHERE name = UNHEX(?) AND holder = UNHEX(?) AND token = CAST(? AS SIGNED)
      LOCK IN SHARE MODE`,
  };
}
