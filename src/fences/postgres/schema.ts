/**
 * The tables of the fence.
 *
 * - `fence_mark`: the mark of each resource; triggers keep it from sinking or going away. Its
 *   columns `writer` and `written` are the **proof**: the transaction that has shown the armed
 *   token, holder and arming, by its id and the moment it began. Transaction ids are never used
 *   again, and the moment tells them apart from those of another cluster that a dump came from. So
 *   a proof cannot outlive its transaction, on whatever pooled connection, and there is no setting
 *   that could be left over or made up. It is undone with its savepoint. Who has written the proof
 *   holds the row's lock until its end.
 * - `fence_table`: the tables whose writes need proof.
 * - `fence_audit`: rebases, bypasses, and tables put under the fence and taken from it. A bypass is
 *   its own entry here: it counts in the transaction that made it.
 *
 * The functions run with the rights of their owner, so that who writes a fenced table needs no
 * rights on these tables.
 */
import { beginSetup, quoteIdentifier } from "../../dialects/postgres.js";

/** Version of the tables and functions that this release makes and needs. */
export const SCHEMA_VERSION = 1;

/** SQLSTATE: a write of a fenced table without proof. */
export const UNPROVEN_STATE = "TN010";
/** SQLSTATE: what was shown as proof is not what is armed. */
export const NOT_ARMED_STATE = "TN011";
/** SQLSTATE: a mark would have sunk, or gone. */
const MARK_STATE = "TN012";

/** How functions run: as their owner, and finding only what they mean. */
export const AS_OWNER = "SECURITY DEFINER SET search_path = pg_catalog, pg_temp";

/** Makes tables and functions: one transaction's statements, harmless when run again. */
export function fenceTablesSql(schema: string): string {
  const s = quoteIdentifier(schema);
  return `${beginSetup(schema, "fence_version", SCHEMA_VERSION, "the fence has")}

CREATE TABLE IF NOT EXISTS ${s}.fence_version (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  version integer NOT NULL
);

CREATE TABLE IF NOT EXISTS ${s}.fence_mark (
  resource text COLLATE "C" PRIMARY KEY,
  store_id text NOT NULL,
  lock text NOT NULL,
  token bigint NOT NULL,
  holder text NOT NULL,
  arm bigint NOT NULL,
  n bigint NOT NULL,
  past text NOT NULL,
  writer xid8,
  written timestamptz
) WITH (fillfactor = 50);

CREATE TABLE IF NOT EXISTS ${s}.fence_table (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  relation regclass NOT NULL UNIQUE,
  resource_column text NOT NULL,
  prefix text NOT NULL
);

CREATE TABLE IF NOT EXISTS ${s}.fence_audit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT now(),
  event text NOT NULL,
  subject text NOT NULL,
  detail text NOT NULL,
  role text NOT NULL DEFAULT session_user,
  bypass xid8
);
CREATE INDEX IF NOT EXISTS fence_audit_bypass ON ${s}.fence_audit (bypass)
WHERE bypass IS NOT NULL;

${markTriggers(s)}

${writeFunction(s)}

CREATE OR REPLACE FUNCTION ${s}.fence_bypass(p_reason text) RETURNS void
LANGUAGE sql ${AS_OWNER} AS $tenure$
  INSERT INTO ${s}.fence_audit (event, subject, detail, bypass)
  VALUES ('bypass', '', p_reason, pg_current_xact_id())
$tenure$;
REVOKE EXECUTE ON FUNCTION ${s}.fence_bypass(text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION ${s}.fence_guard_truncate() RETURNS trigger
LANGUAGE plpgsql ${AS_OWNER} AS $tenure$
BEGIN
  IF NOT EXISTS (SELECT FROM ${s}.fence_audit AS a
    WHERE a.bypass = pg_current_xact_id() AND a.at = now())
  THEN
    RAISE EXCEPTION 'tenure: table % is fenced: it is truncated in a bypass only',
      TG_RELID::regclass
      USING ERRCODE = '${UNPROVEN_STATE}', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME;
  END IF;
  RETURN NULL;
END
$tenure$;

INSERT INTO ${s}.fence_version (version) VALUES (${SCHEMA_VERSION})
ON CONFLICT (only_row) DO UPDATE SET version = excluded.version
  WHERE fence_version.version < excluded.version;
`;
}

function markTriggers(s: string): string {
  const trigger = (name: string, on: string, each: string): string =>
    `DROP TRIGGER IF EXISTS ${name} ON ${s}.fence_mark;
CREATE TRIGGER ${name} BEFORE ${on} ON ${s}.fence_mark
  FOR EACH ${each} EXECUTE FUNCTION ${s}.fence_mark_keeps();
ALTER TABLE ${s}.fence_mark ENABLE ALWAYS TRIGGER ${name};`;
  return `CREATE OR REPLACE FUNCTION ${s}.fence_mark_keeps() RETURNS trigger
LANGUAGE plpgsql AS $tenure$
BEGIN
  IF TG_OP <> 'UPDATE' THEN
    RAISE EXCEPTION 'tenure: a mark is never deleted: without it, an old holder could write'
      USING ERRCODE = '${MARK_STATE}';
  END IF;
  IF NEW.resource <> OLD.resource OR NEW.store_id = OLD.store_id AND NEW.lock = OLD.lock AND (
    (NEW.token, NEW.arm, NEW.n) < (OLD.token, OLD.arm, OLD.n)
    OR NEW.token = OLD.token AND NEW.holder <> OLD.holder
  ) THEN
    RAISE EXCEPTION 'tenure: a mark never goes down' USING ERRCODE = '${MARK_STATE}';
  END IF;
  RETURN NEW;
END
$tenure$;
${trigger("fence_mark_row", "UPDATE OR DELETE", "ROW")}
${trigger("fence_mark_all", "TRUNCATE", "STATEMENT")}`;
}

/**
 * Gives the transaction that calls it the proof for one resource, from any client. The first
 * statement of a transaction, since it waits for the mark; the error of a refusal ends the
 * transaction.
 *
 * `p_idle_ms` lowers the time after which the server ends the session when no statement comes.
 */
function writeFunction(s: string): string {
  return `CREATE OR REPLACE FUNCTION ${s}.fence_write(
  p_resource text, p_token bigint, p_holder text, p_arm bigint, p_idle_ms bigint DEFAULT NULL
) RETURNS void LANGUAGE plpgsql ${AS_OWNER} AS $tenure$
DECLARE
  mark ${s}.fence_mark%ROWTYPE;
  why text;
  idle bigint;
BEGIN
  SELECT * INTO mark FROM ${s}.fence_mark AS m WHERE m.resource = p_resource FOR UPDATE;
  why := CASE
    WHEN mark.resource IS NULL THEN 'was never armed'
    WHEN p_token < mark.token THEN format('is armed with token %s, which is newer', mark.token)
    WHEN p_token > mark.token THEN format('is armed with token %s: arm first', mark.token)
    WHEN p_holder <> mark.holder THEN 'was armed by another holder with the same token'
    WHEN p_arm <> mark.arm THEN format('has arming %s, not this one', mark.arm)
    WHEN p_token IS NULL OR p_holder IS NULL OR p_arm IS NULL THEN 'needs token, holder and arming'
  END;
  IF why IS NOT NULL THEN
    RAISE EXCEPTION 'tenure: write with token % refused: resource % %', p_token, p_resource, why
      USING ERRCODE = '${NOT_ARMED_STATE}', DETAIL = CASE WHEN mark.resource IS NULL THEN 'null'
        ELSE json_build_object(
          'scope', json_build_object('storeId', mark.store_id, 'name', mark.lock),
          'token', mark.token::text, 'holder', mark.holder, 'arm', mark.arm, 'n', mark.n,
          'past', mark.past::json
        )::text END;
  END IF;
  UPDATE ${s}.fence_mark AS m SET writer = pg_current_xact_id(), written = now()
  WHERE m.resource = p_resource;
  IF p_idle_ms IS NOT NULL THEN
    SELECT setting::bigint INTO idle FROM pg_settings
    WHERE name = 'idle_in_transaction_session_timeout';
    IF idle = 0 OR idle > p_idle_ms THEN
      PERFORM set_config('idle_in_transaction_session_timeout', p_idle_ms::text, true);
    END IF;
  END IF;
END
$tenure$;`;
}
