/**
 * The procedures, as SQL that MariaDB 10.6 and MySQL 8 both understand. Names, holders and info are
 * bytes; 64-bit integers leave as text. See `schema.ts` for the reasons.
 *
 * The version stands in their names: a release with other procedures makes its own, and those that
 * still run go on with theirs.
 */

/** SQLSTATE of our own: somebody deleted a counter. */
export const COUNTER_MISSING_STATE = "TN002";

/** Names of the procedures. */
export const PROCEDURE_NAMES: readonly string[] = [
  "tenure_acquire_1",
  "tenure_renew_1",
  "tenure_release_1",
  "tenure_sweep_1",
];

/** Looks before a name is called contended. */
const LOOKS = 3;
/** Most rows that one sweep removes. */
const SWEPT = 500;

/** READ COMMITTED: no gaps are locked, and each look sees what is committed now. */
const BEGIN = `SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;`;

/**
 * The session's own patience, kept and put back, since it is a caller's connection. A lock that is
 * not free in time fails the statement only: all of it is rolled back.
 */
const PATIENCE = `DECLARE v_patience INT DEFAULT @@SESSION.innodb_lock_wait_timeout;`;
const OR_ROLL_BACK = `DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    ROLLBACK;
    SET SESSION innodb_lock_wait_timeout = v_patience;
    RESIGNAL;
  END;
  SET SESSION innodb_lock_wait_timeout = p_patience_s;`;
const PATIENCE_BACK = "SET SESSION innodb_lock_wait_timeout = v_patience;";

/** Who has all rights may write to a replica, too: to a primary that was replaced. */
const IF_WRITABLE = `IF CONCAT(@@GLOBAL.read_only) NOT IN ('0', 'OFF') THEN
    SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1290, MESSAGE_TEXT = 'the server is read-only';
  END IF;`;

/** Milliseconds until a time, as text, rounded up; 0 once it has passed. */
export function msUntil(time: string, now = "UTC_TIMESTAMP(6)"): string {
  return `CAST(GREATEST(0, CEIL(TIMESTAMPDIFF(MICROSECOND, ${now}, ${time}) / 1000)) AS CHAR)`;
}

/** Leases of a JSON array of {i, n, h, t, d}: index, name, holder, token, TTL in ms. */
const ASKED = `JSON_TABLE(p_leases, '$[*]' COLUMNS (
      i INT PATH '$.i', n VARCHAR(1024) PATH '$.n', h VARCHAR(510) PATH '$.h',
      t VARCHAR(20) PATH '$.t', d BIGINT PATH '$.d'
    )) AS a`;

/**
 * One row: a grant (`granted`), who holds (`held`), or neither: a transaction that checks the old
 * lease does not let go of it (`locked`), or others were faster at each look (`overtaken`).
 *
 * Times are taken after all waiting, and never before the request has come: the holder counts from
 * before it sent it, so its deadline is never later than the row's.
 */
export function acquireProcedure(counters: number): string {
  const slot = `CRC32(p_name) % ${counters}`;
  const row = `holder, token, ttl_ms, expires, info
      INTO v_holder, v_token, v_ttl_ms, v_expires, v_info
      FROM tenure_lease WHERE name = p_name`;
  return `CREATE PROCEDURE IF NOT EXISTS tenure_acquire_1(
  p_name VARBINARY(512), p_holder VARBINARY(255), p_ttl_ms BIGINT, p_info MEDIUMBLOB,
  p_patience_s INT
) SQL SECURITY INVOKER
BEGIN
  ${PATIENCE}
  DECLARE v_answer VARCHAR(16) DEFAULT 'overtaken';
  DECLARE v_looks INT DEFAULT 0;
  DECLARE v_found, v_unlocked BOOLEAN;
  DECLARE v_holder VARBINARY(255);
  DECLARE v_token, v_ttl_ms, v_raised BIGINT;
  DECLARE v_expires, v_now DATETIME(6);
  DECLARE v_info MEDIUMBLOB;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_found = FALSE;
  ${OR_ROLL_BACK}

  ${IF_WRITABLE}

  looking: WHILE v_looks < ${LOOKS} DO
    SET v_looks = v_looks + 1;
    ${BEGIN}
    SET v_found = TRUE;
    SELECT ${row};
    SET v_now = UTC_TIMESTAMP(6);
    IF v_found AND (v_expires <= v_now OR v_holder = p_holder) THEN
      SELECT ${row} FOR UPDATE;
      SET v_now = UTC_TIMESTAMP(6);
    END IF;

    IF v_found AND v_expires > v_now THEN
      IF v_holder <> p_holder THEN
        SET v_answer = 'held';
      ELSE
        -- The same attempt again: the same grant, and its time from now.
        UPDATE tenure_lease
        SET expires = v_now + INTERVAL p_ttl_ms * 1000 MICROSECOND, ttl_ms = p_ttl_ms
        WHERE name = p_name;
        SET v_answer = 'granted', v_raised = v_token;
      END IF;
      COMMIT;
      LEAVE looking;
    END IF;

    IF v_found THEN
      SELECT COUNT(*) INTO v_unlocked FROM tenure_lease FORCE INDEX (tenure_grant)
      WHERE name = p_name AND holder = v_holder AND token = v_token FOR UPDATE SKIP LOCKED;
      IF NOT v_unlocked THEN
        SET v_answer = 'locked';
        ROLLBACK;
        LEAVE looking;
      END IF;
      DELETE FROM tenure_lease WHERE name = p_name;
    END IF;

    UPDATE tenure_counter
    SET token =
      GREATEST(token + 1, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)))
    WHERE slot = ${slot};
    SET v_raised = NULL;
    SELECT token INTO v_raised FROM tenure_counter WHERE slot = ${slot};
    IF v_raised IS NULL THEN
      SIGNAL SQLSTATE '${COUNTER_MISSING_STATE}' SET MESSAGE_TEXT = 'a token counter was deleted';
    END IF;
    SET v_now = UTC_TIMESTAMP(6);
    BEGIN
      DECLARE EXIT HANDLER FOR 1062 ROLLBACK;
      INSERT INTO tenure_lease (name, holder, token, ttl_ms, expires, info)
      VALUES (p_name, p_holder, v_raised, p_ttl_ms,
        v_now + INTERVAL p_ttl_ms * 1000 MICROSECOND, p_info);
      COMMIT;
      SET v_answer = 'granted', v_ttl_ms = p_ttl_ms;
    END;
    IF v_answer = 'granted' THEN
      LEAVE looking;
    END IF;
  END WHILE;

  ${PATIENCE_BACK}
  IF v_answer = 'granted' THEN
    SELECT v_answer AS answer, HEX(p_holder) AS holder, CAST(v_raised AS CHAR) AS token,
      CAST(p_ttl_ms AS CHAR) AS ttl_ms, CAST(@@GLOBAL.server_id AS CHAR) AS epoch;
  ELSEIF v_answer = 'held' THEN
    SELECT v_answer AS answer, HEX(v_holder) AS holder, CAST(v_token AS CHAR) AS token,
      CAST(v_ttl_ms AS CHAR) AS ttl_ms, ${msUntil("v_expires", "v_now")} AS left_ms,
      HEX(v_info) AS info;
  ELSE
    SELECT v_answer AS answer;
  END IF;
END`;
}

/**
 * Renews leases. A row that somebody has locked is passed over, not waited for: it must not hold
 * back the others. Runs on a connection of our own.
 */
export function renewProcedure(): string {
  // Through the other index, a transaction that checks a lease would hold it back.
  const mine = `${ASKED} STRAIGHT_JOIN tenure_lease AS l FORCE INDEX (PRIMARY)
    ON l.name = UNHEX(a.n) AND l.holder = UNHEX(a.h) AND l.token = CAST(a.t AS SIGNED)`;
  return `CREATE PROCEDURE IF NOT EXISTS tenure_renew_1(p_leases LONGTEXT CHARACTER SET ascii)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_renewed MEDIUMTEXT CHARACTER SET ascii;
  DECLARE v_now DATETIME(6);
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    ROLLBACK;
    RESIGNAL;
  END;
  ${IF_WRITABLE}
  SET SESSION group_concat_max_len = 1000000;
  ${BEGIN}
  SELECT GROUP_CONCAT(a.i) INTO v_renewed
  FROM ${mine}
  WHERE l.expires > UTC_TIMESTAMP(6) FOR UPDATE SKIP LOCKED;
  IF v_renewed IS NOT NULL THEN
    SET v_now = UTC_TIMESTAMP(6);
    UPDATE ${mine}
    SET l.expires = v_now + INTERVAL a.d * 1000 MICROSECOND, l.ttl_ms = a.d
    WHERE FIND_IN_SET(a.i, v_renewed);
  END IF;
  COMMIT;
  SELECT a.i, FIND_IN_SET(a.i, v_renewed) > 0 AS renewed,
    l.holder = UNHEX(a.h) AND l.token = CAST(a.t AS SIGNED) AS mine,
    l.expires > UTC_TIMESTAMP(6) AS live, HEX(l.holder) AS holder, CAST(l.token AS CHAR) AS token,
    CAST(l.ttl_ms AS CHAR) AS ttl_ms, ${msUntil("l.expires")} AS left_ms, HEX(l.info) AS info
  FROM ${ASKED} LEFT JOIN tenure_lease AS l ON l.name = UNHEX(a.n);
END`;
}

/**
 * Ends leases, of any holder or token where none is given. Their order in the array is that of
 * their names, so that two calls cannot block each other. Answers the indexes of those that were
 * there, above zero where they were live, below where not.
 */
export function releaseProcedure(): string {
  const theirs = `${ASKED} STRAIGHT_JOIN tenure_lease AS l FORCE INDEX (PRIMARY)
    ON l.name = UNHEX(a.n) AND (a.h IS NULL OR l.holder = UNHEX(a.h))
    AND (a.t IS NULL OR l.token = CAST(a.t AS SIGNED))`;
  return `CREATE PROCEDURE IF NOT EXISTS tenure_release_1(
  p_leases LONGTEXT CHARACTER SET ascii, p_patience_s INT
) SQL SECURITY INVOKER
BEGIN
  ${PATIENCE}
  DECLARE v_ended MEDIUMTEXT CHARACTER SET ascii;
  ${OR_ROLL_BACK}
  ${IF_WRITABLE}
  ${BEGIN}
  SELECT GROUP_CONCAT(IF(l.expires > UTC_TIMESTAMP(6), a.i, -a.i)) INTO v_ended
  FROM ${theirs}
  FOR UPDATE;
  IF v_ended IS NOT NULL THEN
    DELETE l FROM ${theirs};
  END IF;
  COMMIT;
  ${PATIENCE_BACK}
  SELECT v_ended AS ended;
END`;
}

/** Removes rows of leases that have ended and that nobody works on. Never lowers a counter. */
export function sweepProcedure(): string {
  return `CREATE PROCEDURE IF NOT EXISTS tenure_sweep_1() SQL SECURITY INVOKER
BEGIN
  DECLARE v_name VARBINARY(512);
  DECLARE v_holder VARBINARY(255);
  DECLARE v_token BIGINT;
  DECLARE v_unlocked, v_end BOOLEAN DEFAULT FALSE;
  DECLARE expired CURSOR FOR
    SELECT name, holder, token FROM tenure_lease WHERE expires <= UTC_TIMESTAMP(6) LIMIT ${SWEPT};
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_end = TRUE;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    ROLLBACK;
    RESIGNAL;
  END;
  ${IF_WRITABLE}
  ${BEGIN}
  OPEN expired;
  sweeping: LOOP
    FETCH expired INTO v_name, v_holder, v_token;
    IF v_end THEN
      LEAVE sweeping;
    END IF;
    SELECT COUNT(*) INTO v_unlocked FROM tenure_lease FORCE INDEX (tenure_grant)
    WHERE name = v_name AND holder = v_holder AND token = v_token
      AND expires <= UTC_TIMESTAMP(6) FOR UPDATE SKIP LOCKED;
    IF v_unlocked THEN
      DELETE FROM tenure_lease WHERE name = v_name;
    END IF;
  END LOOP;
  CLOSE expired;
  COMMIT;
END`;
}
