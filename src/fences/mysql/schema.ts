/**
 * The tables of the fence.
 *
 * - `tenure_fence_mark`: the mark of each resource; triggers keep it from sinking or going away.
 *   Its columns `writer`, `connection` and `until` are the **proof**: a random number that the
 *   writing session knows in a variable, and its connection. The server has nothing that tells one
 *   transaction from the next, so the fence takes the proof away before its COMMIT: no other
 *   session ever sees it. The triggers read it with a lock: whoever writes has the mark locked, and
 *   what somebody has left behind ends with the next arming, or after a time. The row of the empty
 *   resource is that of a bypass.
 * - `tenure_fence_table`: the tables whose writes need proof.
 * - `tenure_fence_audit`: rebases, bypasses, and tables put under the fence and taken from it.
 *
 * Names are bytes. Procedures and triggers run with the rights of who made them.
 */

/** Version of the tables and procedures that this release makes and needs. */
export const SCHEMA_VERSION = 1;

/** SQLSTATE: a write of a fenced table without proof. */
export const UNPROVEN_STATE = "TN010";
/** SQLSTATE: what was shown as proof is not what is armed. */
export const NOT_ARMED_STATE = "TN011";
/** SQLSTATE: a mark would have sunk, or gone. */
const MARK_STATE = "TN012";

/** The session's variable that knows the proof. */
export const PROOF = "@tenure_fence_proof";
/** How long a proof counts that a client has asked for itself and not taken away. */
const LEFT_BEHIND_S = 30;
/** The token of a row that is about to become a mark. */
export const NO_TOKEN = -1;

const bytes = "VARBINARY(512) NOT NULL";

const TABLES: readonly string[] = [
  `CREATE TABLE IF NOT EXISTS tenure_fence_version (
    only_row TINYINT NOT NULL PRIMARY KEY, version INT NOT NULL) ENGINE = InnoDB`,
  `CREATE TABLE IF NOT EXISTS tenure_fence_mark (
    resource ${bytes} PRIMARY KEY, store_id ${bytes}, lock_name ${bytes}, token BIGINT NOT NULL,
    holder ${bytes}, arm BIGINT NOT NULL, n BIGINT NOT NULL, past MEDIUMBLOB NOT NULL,
    writer VARBINARY(36) NULL, connection BIGINT UNSIGNED NULL, until DATETIME(6) NULL
  ) ENGINE = InnoDB ROW_FORMAT = DYNAMIC`,
  `CREATE TABLE IF NOT EXISTS tenure_fence_table (
    id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    table_schema VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    table_name VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    resource_column VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    prefix VARBINARY(512) NOT NULL, UNIQUE KEY (table_schema, table_name)
  ) ENGINE = InnoDB ROW_FORMAT = DYNAMIC`,
  `CREATE TABLE IF NOT EXISTS tenure_fence_audit (
    id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, at DATETIME(3) NOT NULL,
    event VARCHAR(20) CHARACTER SET ascii NOT NULL, subject MEDIUMBLOB NOT NULL,
    detail MEDIUMBLOB NOT NULL, role VARBINARY(512) NOT NULL
  ) ENGINE = InnoDB ROW_FORMAT = DYNAMIC`,
];

const KEEP_MARKS: readonly string[] = [
  `CREATE TRIGGER IF NOT EXISTS tenure_fence_mark_stays BEFORE DELETE ON tenure_fence_mark
  FOR EACH ROW BEGIN
    SIGNAL SQLSTATE '${MARK_STATE}' SET MESSAGE_TEXT =
      'tenure: a mark is never deleted: without it, an old holder could write';
  END`,
  `CREATE TRIGGER IF NOT EXISTS tenure_fence_mark_grows BEFORE UPDATE ON tenure_fence_mark
  FOR EACH ROW BEGIN
    IF NEW.resource <> OLD.resource OR OLD.token <> ${NO_TOKEN}
      AND NEW.store_id = OLD.store_id AND NEW.lock_name = OLD.lock_name AND (
      (NEW.token, NEW.arm, NEW.n) < (OLD.token, OLD.arm, OLD.n)
      OR NEW.token = OLD.token AND NEW.holder <> OLD.holder)
    THEN
      SIGNAL SQLSTATE '${MARK_STATE}' SET MESSAGE_TEXT = 'tenure: a mark never goes down';
    END IF;
  END`,
];

const WRITE = `CREATE PROCEDURE IF NOT EXISTS tenure_fence_write_${SCHEMA_VERSION}(
  IN p_resource VARBINARY(512), IN p_token BIGINT, IN p_holder VARBINARY(512), IN p_arm BIGINT
) SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
  DECLARE seen_token, seen_arm BIGINT;
  DECLARE seen_holder VARBINARY(512);
  DECLARE why VARCHAR(128);
  SELECT token, holder, arm INTO seen_token, seen_holder, seen_arm
  FROM tenure_fence_mark WHERE resource = p_resource FOR UPDATE;
  SET why = CASE
    WHEN seen_token IS NULL THEN 'the resource was never armed'
    WHEN p_token < seen_token THEN CONCAT('the resource is armed with a newer one: ', seen_token)
    WHEN p_token > seen_token THEN CONCAT('the resource is armed with ', seen_token, ': arm first')
    WHEN p_holder <> seen_holder THEN 'another holder has armed with the same token'
    WHEN p_arm <> seen_arm THEN CONCAT('the resource has arming ', seen_arm, ', not this one')
    WHEN p_token IS NULL OR p_holder IS NULL OR p_arm IS NULL
      THEN 'token, holder and arming are needed'
  END;
  IF why IS NOT NULL THEN
    SET why = LEFT(CONCAT('tenure: write with token ', IFNULL(p_token, 'NULL'), ': ', why), 128);
    SIGNAL SQLSTATE '${NOT_ARMED_STATE}' SET MESSAGE_TEXT = why;
  END IF;
  SET ${PROOF} = UUID();
  UPDATE tenure_fence_mark SET writer = ${PROOF}, connection = CONNECTION_ID(),
    until = UTC_TIMESTAMP(6) + INTERVAL ${LEFT_BEHIND_S} SECOND
  WHERE resource = p_resource;
END`;

const DONE = `CREATE PROCEDURE IF NOT EXISTS tenure_fence_done_${SCHEMA_VERSION}(
  IN p_resource VARBINARY(512)
) SQL SECURITY DEFINER MODIFIES SQL DATA
BEGIN
  UPDATE tenure_fence_mark SET writer = NULL, connection = NULL, until = NULL
  WHERE resource = p_resource AND writer = ${PROOF};
  SET ${PROOF} = NULL;
END`;

/** Last: whoever finds the version finds all the rest. */
const VERSION = `INSERT INTO tenure_fence_version (only_row, version) VALUES (1, ${SCHEMA_VERSION})
  ON DUPLICATE KEY UPDATE version = GREATEST(version, ${SCHEMA_VERSION})`;

/** Statements that make tables, triggers and procedures; harmless when run again. */
export const FENCE_STATEMENTS: readonly string[] = [
  ...TABLES, ...KEEP_MARKS, WRITE, DONE, VERSION,
];

/** The procedures that clients call, without their schema. */
export const PROCEDURES: { readonly write: string; readonly done: string } = {
  write: `tenure_fence_write_${SCHEMA_VERSION}`,
  done: `tenure_fence_done_${SCHEMA_VERSION}`,
};
