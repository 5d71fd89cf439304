/**
 * The tables of lease rows, and the one function that grants.
 *
 * **Tokens.** A grant takes its token from a counter that many names share: 1,024 rows, by a hash
 * of the name. The counter is raised inside the transaction that grants and stays locked until its
 * commit, so that grants of one name commit in the order of their tokens:
 *
 * 1. A finds the name free, raises the counter to 41 and inserts its row; not committed yet.
 * 2. B found the name free as well. It wants the counter, and waits.
 * 3. A commits. B gets 42, but its insert meets A's row: B is refused, and 42 is never used.
 *
 * A sequence would give B its number before the wait, and a counter in the lease's own row would be
 * lost with the row. So rows may be deleted by anybody at any time, and nothing is kept per name.
 * A counter is also never below the server's clock in microseconds: a standby that was promoted
 * without the last grants, or a restored backup, goes on above them if its clock is right.
 *
 * **Locks** are taken in one order: first the lease's row, then the counter. While a counter is
 * held nothing is waited for but the commit of whoever is deleting a row; none of those wants a
 * counter. So there is no cycle, and a transaction that checks an old lease for long holds back
 * that name only.
 *
 * **A lease's token never changes**: a take-over deletes the row and inserts another. So a
 * transaction that has locked the row `FOR KEY SHARE` stops take-over, release and break until its
 * end, and no renewal, which touches no key.
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
export const FUNCTIONS_REVISION = 2;

/** SQLSTATE of our own: somebody deleted a counter. */
export const COUNTER_MISSING_STATE = "TN002";

/** Number of counters: 2^10, as many bits of a name's hash. */
const COUNTER_BITS = 10;

/** Settings of {@link schemaSql}. */
export interface SchemaOptions {
  /** Schema for the tables; made when missing. Default `tenure`. */
  readonly schema?: string;
}

/**
 * The SQL that makes tables and functions, as `open` runs it: one script, which does nothing wrong
 * when it runs again, or many times at once.
 *
 * The role that runs it owns the tables. Others need `USAGE` on the schema, `EXECUTE` on its
 * functions, and `SELECT, INSERT, UPDATE, DELETE` on its tables.
 *
 * @throws TypeError or RangeError for a schema name that Postgres cannot have.
 */
export function schemaSql(options: SchemaOptions = {}): string {
  const name = checkSchema(options.schema ?? DEFAULT_SCHEMA);
  const s = quoteIdentifier(name);
  return `-- Tables of Tenure, version ${SCHEMA_VERSION}. One transaction; safe to run again.
BEGIN;
${beginSetup(name, "store", SCHEMA_VERSION, "the tables have")}

CREATE TABLE IF NOT EXISTS ${s}.store (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  version integer NOT NULL,
  store_id text NOT NULL
);

CREATE TABLE IF NOT EXISTS ${s}.counter (
  slot integer PRIMARY KEY,
  token bigint NOT NULL
) WITH (fillfactor = 30);

CREATE TABLE IF NOT EXISTS ${s}.lease (
  name text COLLATE "C" PRIMARY KEY,
  holder text NOT NULL,
  token bigint NOT NULL,
  ttl_ms bigint NOT NULL,
  expires timestamptz NOT NULL,
  wanted boolean NOT NULL DEFAULT false,
  info text
) WITH (fillfactor = 70);

INSERT INTO ${s}.store (version, store_id) VALUES (${SCHEMA_VERSION}, gen_random_uuid()::text)
ON CONFLICT (only_row) DO NOTHING;

INSERT INTO ${s}.counter (slot, token)
SELECT slot, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM generate_series(0, ${2 ** COUNTER_BITS - 1}) AS slot
ON CONFLICT (slot) DO NOTHING;

${makeFunctions(revisionAnchor(name), FUNCTIONS_REVISION, functionTexts(name))}

UPDATE ${s}.store SET version = ${SCHEMA_VERSION} WHERE version < ${SCHEMA_VERSION};
COMMIT;
`;
}

/** The function that carries the revision. */
export function revisionAnchor(schema: string): string {
  return `${quoteIdentifier(schema)}.renew(text)`;
}

/** The functions of a schema. */
export function functionTexts(schema: string): readonly string[] {
  const s = quoteIdentifier(schema);
  return [acquireFunction(s), endFunction(s), renewFunction(s)];
}

/**
 * JSON: a grant, or who holds. NULL: others were faster between two looks; ask again. One value is
 * cheaper for server and client than a row of them.
 *
 * Times are taken after all waiting, and never before the request has come: the holder counts from
 * before it sent it, so its deadline is never later than the row's.
 */
function acquireFunction(s: string): string {
  return `CREATE OR REPLACE FUNCTION ${s}.acquire(
  p_name text, p_holder text, p_ttl_ms bigint, p_info text, p_wanted boolean,
  p_patience_ms integer, p_epoch boolean
) RETURNS text LANGUAGE plpgsql AS $tenure$
DECLARE
  seen ${s}.lease%ROWTYPE;
  raised bigint;
  ttl interval := p_ttl_ms * interval '1 millisecond';
  digest bytea;
  unused text;
BEGIN
  LOOP
    SELECT * INTO seen FROM ${s}.lease AS l WHERE l.name = p_name;
    EXIT WHEN NOT FOUND;
    -- An assignment is evaluated by itself; PERFORM would run a query.
    unused := set_config('lock_timeout', p_patience_ms::text, true);
    EXIT WHEN seen.expires <= clock_timestamp();
    IF seen.holder = p_holder THEN
      -- The same attempt again: the same grant, and its time from now.
      UPDATE ${s}.lease AS l SET expires = clock_timestamp() + ttl, ttl_ms = p_ttl_ms
      WHERE l.name = p_name AND l.holder = p_holder AND l.token = seen.token
        AND l.expires > clock_timestamp();
      CONTINUE WHEN NOT FOUND;
      raised := seen.token;
      EXIT;
    END IF;
    IF p_wanted AND NOT seen.wanted THEN
      UPDATE ${s}.lease AS l SET wanted = true
      WHERE l.name = p_name AND l.token = seen.token;
      -- Given back before it could see that somebody waits: look again.
      CONTINUE WHEN NOT FOUND;
    END IF;
    RETURN json_build_object('granted', false, 'holder', seen.holder, 'token', seen.token::text,
      'ttl_ms', seen.ttl_ms, 'left_ms', ${msUntil("seen.expires")}, 'info', seen.info);
  END LOOP;

  IF raised IS NULL THEN
    IF seen.name IS NOT NULL THEN
      -- Waits for transactions that check the old lease, before the counter is locked.
      PERFORM FROM ${s}.lease AS l WHERE l.name = p_name AND l.token = seen.token FOR UPDATE;
    END IF;
    digest := sha256(convert_to(p_name, 'UTF8'));
    UPDATE ${s}.counter AS c
    SET token = greatest(c.token + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
    WHERE c.slot = (get_byte(digest, 0) << 2) | (get_byte(digest, 1) >> 6)
    RETURNING c.token INTO raised;
    IF raised IS NULL THEN
      RAISE EXCEPTION 'a token counter was deleted' USING ERRCODE = '${COUNTER_MISSING_STATE}';
    END IF;
    IF seen.name IS NOT NULL THEN
      DELETE FROM ${s}.lease AS l
      WHERE l.name = p_name AND l.token = seen.token AND l.expires <= clock_timestamp();
    END IF;
    INSERT INTO ${s}.lease (name, holder, token, ttl_ms, expires, info)
    VALUES (p_name, p_holder, raised, p_ttl_ms, clock_timestamp() + ttl, p_info)
    ON CONFLICT (name) DO NOTHING;
    IF NOT FOUND THEN RETURN NULL; END IF;
  END IF;
  RETURN json_build_object('granted', true, 'token', raised::text,
    'epoch', CASE WHEN p_epoch THEN substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END);
END
$tenure$;`;
}

/**
 * Ends the lease of a name, of this holder and this token unless they are null, and tells the
 * waiters where there are any. Answers whether it was live; null where there was none.
 */
function endFunction(s: string): string {
  return `CREATE OR REPLACE FUNCTION ${s}.end_lease(
  p_name text, p_holder text, p_token bigint, p_patience_ms integer
) RETURNS boolean LANGUAGE plpgsql AS $tenure$
DECLARE
  was_live boolean;
  was_wanted boolean;
  unused text;
BEGIN
  unused := set_config('lock_timeout', p_patience_ms::text, true);
  DELETE FROM ${s}.lease AS l
  WHERE l.name = p_name AND l.holder = coalesce(p_holder, l.holder)
    AND l.token = coalesce(p_token, l.token)
  RETURNING l.expires > clock_timestamp(), l.wanted INTO was_live, was_wanted;
  IF was_wanted THEN
    PERFORM pg_notify('tenure_' || (SELECT store_id FROM ${s}.store), p_name);
  END IF;
  RETURN was_live;
END
$tenure$;`;
}

/**
 * Renews the leases of a JSON array of {n, h, t, d: TTL in ms}. A row that somebody has locked is
 * passed over, not waited for: it must not hold back the others. Waiters know until when a lease
 * runs, and are told where that comes sooner: of a renewal with a shorter TTL.
 */
function renewFunction(s: string): string {
  return `CREATE OR REPLACE FUNCTION ${s}.renew(p_leases text)
RETURNS TABLE (
  i bigint, renewed boolean, mine boolean, live boolean,
  holder text, token text, ttl_ms text, left_ms text, info text
) LANGUAGE sql AS $tenure$
  WITH asked AS MATERIALIZED (
    SELECT a.n, a.h, a.t, a.d, a.i
    FROM ROWS FROM (json_to_recordset(p_leases::json) AS (n text, h text, t bigint, d bigint))
      WITH ORDINALITY AS a (n, h, t, d, i)
  ), locked AS MATERIALIZED (
    SELECT l.name, a.i, a.d, l.expires, l.wanted
    FROM ${s}.lease AS l JOIN asked AS a ON l.name = a.n AND l.holder = a.h AND l.token = a.t
    WHERE l.expires > clock_timestamp()
    ORDER BY l.name
    FOR NO KEY UPDATE OF l SKIP LOCKED
  ), done AS (
    UPDATE ${s}.lease AS l
    SET expires = clock_timestamp() + k.d * interval '1 millisecond', ttl_ms = k.d
    FROM locked AS k WHERE l.name = k.name
    RETURNING k.i, CASE WHEN k.wanted AND l.expires < k.expires THEN
      pg_notify('tenure_' || (SELECT store_id FROM ${s}.store), l.name)::text END
  )
  SELECT a.i, done.i IS NOT NULL, l.holder = a.h AND l.token = a.t, l.expires > clock_timestamp(),
    l.holder, l.token::text, l.ttl_ms::text,
    ${msUntil("l.expires")}, l.info
  FROM asked AS a
  LEFT JOIN done ON done.i = a.i
  LEFT JOIN ${s}.lease AS l ON l.name = a.n
$tenure$;`;
}

/** Milliseconds until a time, as text, rounded up; 0 once it has passed. */
export function msUntil(time: string): string {
  const seconds = `extract(epoch FROM ${time} - clock_timestamp())`;
  return `greatest(0, ceil(${seconds} * 1000))::bigint::text`;
}
