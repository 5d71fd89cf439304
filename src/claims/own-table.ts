/** Claims in a jobs table of the caller's own: the guarded UPDATE, to run wherever it is wanted. */
import { parseDuration, type Duration } from "../core/duration.js";
import { ArgumentTypeError } from "../core/errors.js";
import { checkKnown, checkWord } from "../core/options.js";
import { guardedUpdate, rowIs, type RowKey } from "../sql/guarded.js";
import {
  byDialect,
  given,
  identifier,
  raw,
  render,
  sql,
  type Dialect,
  type Rendered,
  type SqlPiece,
} from "../sql/statement.js";

/** A jobs table, and which of its columns say who has a row. */
export interface JobTable {
  readonly dialect: Dialect;
  /** Name, with a schema and a dot before it where needed. */
  readonly table: string;
  /** Column of the holder's id: text, NULL while nobody has the row. Default `holder`. */
  readonly holder?: string;
  /**
   * Column of the time until which it is held: `timestamptz` on Postgres, `DATETIME(6)` in UTC on
   * MySQL, milliseconds since 1970 as an integer on SQLite. Default `held_until`.
   */
  readonly heldUntil?: string;
  /** Column of a token: an integer, NOT NULL, that goes up with each claim. Default: none. */
  readonly token?: string;
}

/** Who takes which row. */
export interface JobClaim {
  /** A value for each column of a unique key. */
  readonly key: RowKey;
  /** A random id of this claim, not a host's name: it proves whose the row is. */
  readonly holder: string;
  readonly lease: Duration;
}

/** Statements for claims in a caller's own table. */
export interface JobStatements {
  /**
   * Takes the row if nobody has it, or the time of whoever had it is over by the database's clock.
   * It is taken exactly if one row was changed: `rowCount` of pg, `count` of postgres, `changes` of
   * better-sqlite3, `affectedRows` of mysql2.
   */
  take(claim: JobClaim): Rendered;
  /** Holds it for longer, if it is still this holder's; tells as `take` does. */
  extend(claim: JobClaim): Rendered;
  /** Gives it back, if it is still this holder's; tells as `take` does. */
  release(claim: Pick<JobClaim, "key" | "holder">): Rendered;
}

const JOB_OPTIONS: readonly string[] = ["dialect", "table", "holder", "heldUntil", "token"];
const DIALECTS: readonly Dialect[] = ["sqlite", "postgres", "mysql"];

/**
 * Statements that claim rows of a table of the caller's, as text and values for its own client, in
 * its own transaction if it likes. Names are quoted and values bound.
 *
 * Not promised: anything about code that writes the rows without looking at holder and token.
 *
 * @throws TypeError or RangeError for wrong names and values.
 */
export function jobStatements(options: JobTable): JobStatements {
  checkKnown(options, JOB_OPTIONS);
  const dialect = checkWord(options.dialect, "dialect", DIALECTS);
  const table = identifier(options.table, "table");
  const holder = identifier(options.holder ?? "holder", "holder");
  const until = identifier(options.heldUntil ?? "held_until", "heldUntil");
  const token = options.token === undefined ? undefined : identifier(options.token, "token");
  const rendered = (statement: SqlPiece): Rendered =>
    render(statement, { dialect, schema: undefined, nowMs: () => 0n });
  const whose = (id: unknown): SqlPiece => {
    if (typeof id === "string" && id !== "") return given(id);
    throw new ArgumentTypeError("holder", id, "a text");
  };
  const leaseMs = (lease: unknown): number => parseDuration(lease, "lease");
  return {
    take: ({ key, holder: id, lease }) =>
      rendered(
        guardedUpdate({
          table,
          set: [
            sql`${holder} = ${whose(id)}`,
            sql`${until} = ${after(leaseMs(lease))}`,
            ...(token === undefined ? [] : [sql`${token} = ${token} + 1`]),
          ],
          row: rowIs(key, "key"),
          guard: sql`(${holder} IS NULL OR ${until} < ${NOW})`,
        }),
      ),
    extend: ({ key, holder: id, lease }) =>
      rendered(
        guardedUpdate({
          table,
          set: [sql`${until} = ${after(leaseMs(lease))}`],
          row: rowIs(key, "key"),
          guard: sql`${holder} = ${whose(id)}`,
        }),
      ),
    release: ({ key, holder: id }) =>
      rendered(
        guardedUpdate({
          table,
          set: [sql`${holder} = NULL`, sql`${until} = NULL`],
          row: rowIs(key, "key"),
          guard: sql`${holder} = ${whose(id)}`,
        }),
      ),
  };
}

/** The database's clock, of the type that the column has. */
const NOW: SqlPiece = byDialect({
  sqlite: raw("CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"),
  postgres: raw("clock_timestamp()"),
  mysql: raw("UTC_TIMESTAMP(6)"),
});

function after(ms: number): SqlPiece {
  return byDialect({
    sqlite: sql`${NOW} + ${ms}`,
    postgres: sql`${NOW} + ${ms} * interval '1 millisecond'`,
    mysql: sql`${NOW} + INTERVAL ${ms} * 1000 MICROSECOND`,
  });
}
