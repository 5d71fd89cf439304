/** Names and texts in SQL for Postgres, and how every script of ours for it begins. */
import { ArgumentRangeError, ArgumentTypeError } from "../core/errors.js";
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
