/** Names and texts in SQL for Postgres, and how every script of ours for it begins. */
import {
  ArgumentRangeError,
  ArgumentTypeError,
  OutcomeUnknownError,
  UnavailableError,
  type TenureError,
} from "../core/errors.js";
import { utf8Bytes } from "../core/names.js";

/** Schema for tables where none is named. */
export const DEFAULT_SCHEMA = "tenure";

/** SQLSTATE of our own: tables of a newer version. */
export const NEWER_VERSION_STATE = "TN001";

/** Longest identifier of Postgres, bytes: longer ones are cut, and could meet others. */
const MAX_IDENTIFIER_BYTES = 63;

/** A name as SQL. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** A text as SQL. */
export function quoteLiteral(text: string): string {
  const doubled = text.replaceAll("'", "''");
  // With a backslash in it, what stands between plain quotes depends on a setting of the server.
  return text.includes("\\") ? `E'${doubled.replaceAll("\\", "\\\\")}'` : `'${doubled}'`;
}

/**
 * A schema name as given.
 *
 * @throws TypeError or RangeError when Postgres cannot have it, or would cut it.
 */
export function checkSchema(schema: unknown, option = "schema"): string {
  // A dollar could end the quotes of a function's body.
  if (typeof schema !== "string" || /[\0-\x1f\x7f$]/.test(schema)) {
    throw new ArgumentTypeError(option, schema, "a name without control characters and $");
  }
  const bytes = utf8Bytes(schema);
  if (bytes < 1 || bytes > MAX_IDENTIFIER_BYTES) {
    throw new ArgumentRangeError(option, schema, `1 to ${MAX_IDENTIFIER_BYTES} bytes`);
  }
  if (/^pg_/.test(schema)) throw new ArgumentRangeError(option, schema, "none of Postgres' own");
  return schema;
}

/** The key under which scripts for one schema take turns, also those of other rooms. */
export function setupLock(schema: string): string {
  return `pg_advisory_xact_lock(hashtextextended(${quoteLiteral(`tenure ${schema}`)}, 0))`;
}

/**
 * The beginning of a script that makes tables, inside its transaction: it waits for others, refuses
 * tables of a newer version, and makes the schema.
 *
 * @param table with one row, in whose column `version` the tables' version is
 * @param what the subject of the refusal, with its verb
 */
export function beginSetup(schema: string, table: string, version: number, what: string): string {
  const s = quoteIdentifier(schema);
  return `SELECT ${setupLock(schema)};

DO $tenure$
DECLARE
  found_version integer;
BEGIN
  IF to_regclass(${quoteLiteral(`${s}.${table}`)}) IS NOT NULL THEN
    SELECT version INTO found_version FROM ${s}.${table};
  END IF;
  IF found_version > ${version} THEN
    RAISE EXCEPTION '${what} version %, this release of Tenure knows ${version}', found_version
      USING ERRCODE = '${NEWER_VERSION_STATE}';
  END IF;
  -- IF NOT EXISTS would want the right to make schemas even where there is nothing to make.
  IF to_regnamespace(${quoteLiteral(s)}) IS NULL THEN
    CREATE SCHEMA ${s};
  END IF;
END
$tenure$;`;
}

/** What the functions of a script are told apart by: those that never said are of revision 1. */
const REVISION_COMMENT = "Tenure, revision ";

/** SQL of the revision of the functions in a database; null where there are none. */
export function revisionSql(anchor: string): string {
  const there = `to_regprocedure(${quoteLiteral(anchor)})`;
  const comment = `obj_description(${there}, 'pg_proc')`;
  const told = `substring(${comment} FROM '^${REVISION_COMMENT}([0-9]+)$')`;
  return `CASE WHEN ${there} IS NOT NULL THEN coalesce(${told}, '1')::integer END`;
}

/**
 * The part of a script that makes functions, or replaces those of an older revision: tables that
 * are there stay, and so would functions whose text has changed since. Those of a newer one are
 * left: whoever starts last need not be the newest. Callers of either go on, so a revision keeps
 * names, arguments and what is answered; where it cannot, the tables' version is raised.
 *
 * @param anchor the function that carries the revision, with its types
 */
export function makeFunctions(
  anchor: string,
  revision: number,
  functions: readonly string[],
): string {
  const comment = quoteLiteral(REVISION_COMMENT + String(revision));
  return `DO $setup$
BEGIN
  IF coalesce(${revisionSql(anchor)}, 0) > ${revision} THEN RETURN; END IF;

${functions.join("\n\n")}

COMMENT ON FUNCTION ${anchor} IS ${comment};
END
$setup$;`;
}

/** What is said around a transaction, so that no other than the one that was begun is committed. */
export interface TransactionGuard {
  readonly first: string;
  readonly last: string;
  readonly end: "COMMIT" | "ROLLBACK";
  told(error: unknown): TenureError | undefined;
}

const ENDED = "the transaction was ended inside the work";

/**
 * A setting that ends with the transaction, and a statement that fails without it. Nothing is set
 * for longer than the transaction, also in a read: behind a pooler a session that was set to be
 * read-only is the next client's once the work has said COMMIT. A read ends with ROLLBACK.
 */
export function transactionGuard(mode: "write" | "read"): TransactionGuard {
  return {
    first: "SET LOCAL tenure.transaction = 'begun'",
    last: `SELECT CAST(CASE current_setting('tenure.transaction', true) WHEN 'begun' THEN '1'
      ELSE 'tenure: ${ENDED}' END AS integer)`,
    end: mode === "write" ? "COMMIT" : "ROLLBACK",
    told: (error) => {
      const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
      if (code === IN_FAILED_TRANSACTION) {
        const text = "a statement in the transaction failed: all of it was rolled back";
        return new UnavailableError(text, { backend: "postgres", cause: error });
      }
      if (code !== INVALID_TEXT || !String(message).includes(ENDED)) return undefined;
      return new OutcomeUnknownError(`${ENDED}: ${LEFT[mode]}`, { backend: "postgres" });
    },
  };
}

/** What may be left of what the work has sent. */
const LEFT = {
  write: "a part of it may be committed",
  read: "what the work wrote after that is no part of the read, and may be committed",
};

const IN_FAILED_TRANSACTION = "25P02";
const INVALID_TEXT = "22P02";

/**
 * In the list of a SELECT that is a transaction by itself: its commit does not wait until it is on
 * the disk or at a standby.
 */
export const UNFLUSHED = "set_config('synchronous_commit', 'off', true)";
