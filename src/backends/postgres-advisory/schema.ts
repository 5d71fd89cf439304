/**
 * The tables beside session locks: they say who holds and count the tokens. What decides is the
 * lock alone: a row whose session does not hold its lock means nothing.
 */
import {
  beginSetup,
  checkSchema,
  DEFAULT_SCHEMA,
  makeFunctions,
  quoteIdentifier,
} from "../../dialects/postgres.js";

/** Version of the tables and functions that this release makes and needs. */
export const SCHEMA_VERSION = 1;

/** Revision of the functions: raised with every change of their text, and so of what they do. */
export const FUNCTIONS_REVISION = 1;

/** SQLSTATE of our own: somebody deleted a counter. */
const COUNTER_MISSING_STATE = "TN002";

const COUNTER_BITS = 10;

/** Settings of {@link schemaSql}. */
export interface SchemaOptions {
  /** Schema for the tables; made when missing. Default `tenure`. */
  readonly schema?: string;
}

/**
 * The number that Postgres locks for a name: the first 8 bytes of the SHA-256 of its UTF-8 text, as
 * a signed 64-bit integer, the first byte the highest. `report:daily` is 35641150926926140.
 *
 * @param name SQL of the name, as text
 */
export function keySql(name: string): string {
  const digest = `sha256(convert_to(${name}, 'UTF8'))`;
  return `('x' || encode(substr(${digest}, 1, 8), 'hex'))::bit(64)::bigint`;
}

/** Condition that a row `k` of `pg_locks` is a session's or transaction's lock of a key. */
export function locksKeySql(key: string): string {
  return `k.locktype = 'advisory' AND k.granted AND k.objsubid = 1
    AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND k.classid = ((${key}) >> 32 & 4294967295)::oid AND k.objid = ((${key}) & 4294967295)::oid`;
}

/**
 * The SQL that makes tables and functions, as `open` runs it: one script, which does nothing wrong
 * when it runs again, or many times at once.
 *
 * @throws TypeError or RangeError for a schema name that Postgres cannot have.
 */
export function schemaSql(options: SchemaOptions = {}): string {
  const name = checkSchema(options.schema ?? DEFAULT_SCHEMA);
  const s = quoteIdentifier(name);
  return `-- Tables of Tenure for session locks, version ${SCHEMA_VERSION}. Safe to run again.
BEGIN;
${beginSetup(name, "advisory_store", SCHEMA_VERSION, "the tables have")}

CREATE TABLE IF NOT EXISTS ${s}.advisory_store (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  version integer NOT NULL,
  store_id text NOT NULL
);

CREATE TABLE IF NOT EXISTS ${s}.advisory_counter (
  slot integer PRIMARY KEY,
  token bigint NOT NULL
) WITH (fillfactor = 30);

CREATE TABLE IF NOT EXISTS ${s}.advisory_lease (
  name text COLLATE "C" PRIMARY KEY,
  holder text NOT NULL,
  token bigint NOT NULL,
  ttl_ms bigint NOT NULL,
  pid integer NOT NULL,
  info text
);

INSERT INTO ${s}.advisory_store (version, store_id)
VALUES (${SCHEMA_VERSION}, gen_random_uuid()::text)
ON CONFLICT (only_row) DO NOTHING;

INSERT INTO ${s}.advisory_counter (slot, token)
SELECT slot, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM generate_series(0, ${2 ** COUNTER_BITS - 1}) AS slot
ON CONFLICT (slot) DO NOTHING;

${makeFunctions(revisionAnchor(name), FUNCTIONS_REVISION, functionTexts(name))}

UPDATE ${s}.advisory_store SET version = ${SCHEMA_VERSION} WHERE version < ${SCHEMA_VERSION};
COMMIT;
`;
}

/** The function that carries the revision. */
export function revisionAnchor(schema: string): string {
  return `${quoteIdentifier(schema)}.advisory_pid(text)`;
}

/** The functions of a schema. */
export function functionTexts(schema: string): readonly string[] {
  const s = quoteIdentifier(schema);
  return [pidFunction(s), acquireFunction(s), releaseFunction(s)];
}

/** The session that has locked a name. */
function pidFunction(s: string): string {
  return `CREATE OR REPLACE FUNCTION ${s}.advisory_pid(p_name text)
RETURNS integer LANGUAGE sql AS $tenure$
  SELECT k.pid FROM pg_locks AS k WHERE ${locksKeySql(keySql("p_name"))} LIMIT 1
$tenure$;`;
}

/**
 * One row: a grant, or who holds. The lock is never taken twice: Postgres would count, and one
 * release would leave it locked.
 */
function acquireFunction(s: string): string {
  return `CREATE OR REPLACE FUNCTION ${s}.advisory_acquire(
  p_name text, p_holder text, p_ttl_ms bigint, p_info text
) RETURNS TABLE (granted boolean, holder text, token text, ttl_ms text, info text)
LANGUAGE plpgsql AS $tenure$
#variable_conflict use_column
DECLARE
  key bigint := ${keySql("p_name")};
  digest bytea := sha256(convert_to(p_name, 'UTF8'));
  seen ${s}.advisory_lease%ROWTYPE;
  raised bigint;
BEGIN
  IF ${s}.advisory_pid(p_name) = pg_backend_pid() THEN
    SELECT * INTO seen FROM ${s}.advisory_lease AS l
    WHERE l.name = p_name AND l.pid = pg_backend_pid();
    IF FOUND THEN
      RETURN QUERY SELECT seen.holder = p_holder, seen.holder, seen.token::text,
        seen.ttl_ms::text, seen.info;
      RETURN;
    END IF;
    -- Its row was deleted, and its holder has lost it: the next grant gets a token of its own.
    PERFORM pg_advisory_unlock(key);
  END IF;
  IF NOT pg_try_advisory_lock(key) THEN
    RETURN QUERY SELECT false, l.holder, l.token::text, l.ttl_ms::text, l.info
    FROM ${s}.advisory_lease AS l WHERE l.name = p_name AND l.pid = ${s}.advisory_pid(p_name);
    RETURN;
  END IF;
  BEGIN
    UPDATE ${s}.advisory_counter AS c
    SET token = greatest(c.token + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
    WHERE c.slot = (get_byte(digest, 0) << 2) | (get_byte(digest, 1) >> 6)
    RETURNING c.token INTO raised;
    IF raised IS NULL THEN
      RAISE EXCEPTION 'a token counter was deleted' USING ERRCODE = '${COUNTER_MISSING_STATE}';
    END IF;
    INSERT INTO ${s}.advisory_lease (name, holder, token, ttl_ms, pid, info)
    VALUES (p_name, p_holder, raised, p_ttl_ms, pg_backend_pid(), p_info)
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, token = excluded.token,
      ttl_ms = excluded.ttl_ms, pid = excluded.pid, info = excluded.info;
  EXCEPTION WHEN OTHERS THEN
    -- A rollback does not unlock.
    PERFORM pg_advisory_unlock(key);
    RAISE;
  END;
  RETURN QUERY SELECT true, p_holder, raised::text, p_ttl_ms::text, NULL::text;
END
$tenure$;`;
}

/** Whether a lease of this session was ended: of this holder and, unless null, this token. */
function releaseFunction(s: string): string {
  return `CREATE OR REPLACE FUNCTION ${s}.advisory_release(
  p_name text, p_holder text, p_token bigint
) RETURNS boolean LANGUAGE plpgsql AS $tenure$
DECLARE
  was_mine boolean;
BEGIN
  IF ${s}.advisory_pid(p_name) IS DISTINCT FROM pg_backend_pid() THEN
    RETURN false;
  END IF;
  SELECT l.holder = p_holder AND l.token = coalesce(p_token, l.token) INTO was_mine
  FROM ${s}.advisory_lease AS l WHERE l.name = p_name AND l.pid = pg_backend_pid();
  IF NOT was_mine THEN
    RETURN false;
  END IF;
  DELETE FROM ${s}.advisory_lease AS l WHERE l.name = p_name AND l.pid = pg_backend_pid();
  PERFORM pg_advisory_unlock(${keySql("p_name")});
  RETURN was_mine IS NOT NULL;
END
$tenure$;`;
}
