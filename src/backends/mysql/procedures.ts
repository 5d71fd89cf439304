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
  "tenure_acquire_2",
  "tenure_renew_2",
  "tenure_release_2",
  "tenure_release_many_2",
  "tenure_sweep_1",
];

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
 * One row: a grant (`granted`), who holds (`held`), or that a transaction which checks the old
 * lease does not let go of it (`locked`). Where others were faster between look and insert, it
 * fails with 1062, and has done nothing.
 *
 * Times are taken after all waiting, and never before the request has come: the holder counts from
 * before it sent it, so its deadline is never later than the row's.
 *
 * A free name takes the straight way through, since each statement on it is a tenth of the cost.
 * `LAST_INSERT_ID(…)` keeps what the counter was raised to; a SELECT would be a statement more.
 */
export function acquireProcedure(counters: number): string {
  const row = `holder, token, ttl_ms, expires, info
      INTO v_holder, v_token, v_ttl_ms, v_expires, v_info
      FROM tenure_lease WHERE name = p_name`;
  return `CREATE PROCEDURE IF NOT EXISTS tenure_acquire_2(
  p_name VARBINARY(512), p_holder VARBINARY(255), p_ttl_ms BIGINT, p_info MEDIUMBLOB,
  p_patience_s INT
) SQL SECURITY INVOKER
BEGIN
  ${PATIENCE}
  DECLARE v_answer VARCHAR(16) DEFAULT 'granted';
  DECLARE v_found BOOLEAN DEFAULT TRUE;
  DECLARE v_unlocked BOOLEAN;
  DECLARE v_holder VARBINARY(255);
  DECLARE v_token, v_ttl_ms BIGINT;
  DECLARE v_raised BIGINT DEFAULT LAST_INSERT_ID(0);
  DECLARE v_expires, v_now DATETIME(6);
  DECLARE v_info MEDIUMBLOB;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_found = FALSE;
  ${OR_ROLL_BACK}

  ${IF_WRITABLE}
  ${BEGIN}
  looking: BEGIN
    SELECT ${row};
    IF v_found THEN
      SET v_now = UTC_TIMESTAMP(6);
      IF v_expires <= v_now OR v_holder = p_holder THEN
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
          SET v_raised = v_token;
        END IF;
        LEAVE looking;
      END IF;

      IF v_found THEN
        SELECT COUNT(*) INTO v_unlocked FROM tenure_lease FORCE INDEX (tenure_grant)
        WHERE name = p_name AND holder = v_holder AND token = v_token FOR UPDATE SKIP LOCKED;
        IF NOT v_unlocked THEN
          SET v_answer = 'locked';
          LEAVE looking;
        END IF;
        DELETE FROM tenure_lease WHERE name = p_name;
      END IF;
    END IF;

    UPDATE tenure_counter
    SET token = LAST_INSERT_ID(
      GREATEST(token + 1, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))))
    WHERE slot = CRC32(p_name) % ${counters};
    SET v_raised = LAST_INSERT_ID(), v_now = UTC_TIMESTAMP(6);
    IF v_raised = 0 THEN
      SIGNAL SQLSTATE '${COUNTER_MISSING_STATE}' SET MESSAGE_TEXT = 'a token counter was deleted';
    END IF;
    INSERT INTO tenure_lease (name, holder, token, ttl_ms, expires, info)
    VALUES (p_name, p_holder, v_raised, p_ttl_ms,
      v_now + INTERVAL p_ttl_ms * 1000 MICROSECOND, p_info);
  END looking;
  COMMIT;
  ${PATIENCE_BACK}

  IF v_answer = 'granted' THEN
    SELECT v_answer AS answer, CAST(v_raised AS CHAR) AS token,
      CAST(@@GLOBAL.server_id AS CHAR) AS epoch;
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
 *
 * The time in the first statement is that of its start, which can be before a wait for the table.
 */
export function renewProcedure(): string {
  // Through the other index, a transaction that checks a lease would hold it back.
  const mine = `${ASKED} STRAIGHT_JOIN tenure_lease AS l FORCE INDEX (PRIMARY)
    ON l.name = UNHEX(a.n) AND l.holder = UNHEX(a.h) AND l.token = CAST(a.t AS SIGNED)`;
  return `CREATE PROCEDURE IF NOT EXISTS tenure_renew_2(p_leases LONGTEXT CHARACTER SET ascii)
SQL SECURITY INVOKER
BEGIN
  DECLARE v_renewed MEDIUMTEXT CHARACTER SET ascii;
  DECLARE v_first, v_now DATETIME(6);
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    ROLLBACK;
    RESIGNAL;
  END;
  ${IF_WRITABLE}
  SET SESSION group_concat_max_len = 1000000;
  ${BEGIN}
  SELECT GROUP_CONCAT(a.i), MIN(l.expires) INTO v_renewed, v_first
  FROM ${mine}
  WHERE l.expires > UTC_TIMESTAMP(6) FOR UPDATE SKIP LOCKED;
  SET v_now = UTC_TIMESTAMP(6);
  IF v_first <= v_now THEN
    SELECT GROUP_CONCAT(a.i) INTO v_renewed
    FROM ${mine}
    WHERE FIND_IN_SET(a.i, v_renewed) AND l.expires > v_now;
  END IF;
  IF v_renewed IS NOT NULL THEN
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
 * Ends the lease of a name, of this holder and this token unless they are null. Answers nothing if
 * it was live, else one row: whether one was there (`live` is 0) or none (null). A result is a
 * message more, which costs as much as a small statement.
 */
export function releaseProcedure(): string {
  return `CREATE PROCEDURE IF NOT EXISTS tenure_release_2(
  p_name VARBINARY(512), p_holder VARBINARY(255), p_token BIGINT, p_patience_s INT
) SQL SECURITY INVOKER
BEGIN
  ${PATIENCE}
  DECLARE v_expires DATETIME(6);
  DECLARE v_live BOOLEAN;
  ${OR_ROLL_BACK}
  ${IF_WRITABLE}
  ${BEGIN}
  ${endOne("p_name", "p_holder", "p_token")}
  COMMIT;
  ${PATIENCE_BACK}
  IF NOT COALESCE(v_live, FALSE) THEN
    SELECT v_live AS live;
  END IF;
END`;
}

/**
 * The same for several leases, all or none. Their order in the array is that of their names, so
 * that two calls cannot block each other. Answers the indexes of those that were there, above zero
 * where they were live, below where not.
 */
export function releaseManyProcedure(): string {
  return `CREATE PROCEDURE IF NOT EXISTS tenure_release_many_2(
  p_leases LONGTEXT CHARACTER SET ascii, p_patience_s INT
) SQL SECURITY INVOKER
BEGIN
  ${PATIENCE}
  DECLARE v_ended MEDIUMTEXT CHARACTER SET ascii;
  DECLARE v_i INT;
  DECLARE v_name VARBINARY(512);
  DECLARE v_holder VARBINARY(255);
  DECLARE v_token BIGINT;
  DECLARE v_expires DATETIME(6);
  DECLARE v_live, v_end BOOLEAN DEFAULT FALSE;
  DECLARE asked CURSOR FOR
    SELECT a.i, UNHEX(a.n), UNHEX(a.h), CAST(a.t AS SIGNED) FROM ${ASKED};
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_end = TRUE;
  ${OR_ROLL_BACK}
  ${IF_WRITABLE}
  ${BEGIN}
  OPEN asked;
  ending: LOOP
    FETCH asked INTO v_i, v_name, v_holder, v_token;
    IF v_end THEN
      LEAVE ending;
    END IF;
    ${endOne("v_name", "v_holder", "v_token")}
    IF v_expires IS NOT NULL THEN
      SET v_ended = CONCAT_WS(',', v_ended, IF(v_live, v_i, -v_i));
    END IF;
  END LOOP;
  CLOSE asked;
  COMMIT;
  ${PATIENCE_BACK}
  SELECT v_ended AS ended;
END`;
}

/**
 * Deletes a row into `v_expires`, null when there is none, and `v_live`. Both statements may wait:
 * for the row, and for transactions that check the lease. It was live if it is so after them.
 */
function endOne(name: string, holder: string, token: string): string {
  return `SELECT MAX(expires) INTO v_expires FROM tenure_lease FORCE INDEX (PRIMARY)
  WHERE name = ${name} AND (${holder} IS NULL OR holder = ${holder})
    AND (${token} IS NULL OR token = ${token}) FOR UPDATE;
  IF v_expires IS NOT NULL THEN
    DELETE FROM tenure_lease WHERE name = ${name};
    SET v_live = v_expires > UTC_TIMESTAMP(6);
  END IF;`;
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
