import type { Connection, Statement } from "./client.js";

/** All statements of the backend, compiled once: compiling costs more than running most of them. */
export interface Statements {
  readonly begin: Statement;
  readonly commit: Statement;
  readonly rollback: Statement;
  /** The store row. */
  readonly readStore: Statement;
  readonly takeBlock: Statement;
  readonly setPending: Statement;
  readonly setCeiling: Statement;
  /** Grants a free name, provided that this session took the last block of tokens. */
  readonly grantFree: Statement;
  readonly insertLease: Statement;
  readonly readLease: Statement;
  /** Ends an unexpired lease that nobody waits for. */
  readonly endLease: Statement;
  readonly deleteLease: Statement;
  readonly offerLease: Statement;
  readonly confirmLease: Statement;
  readonly renewLease: Statement;
  /** As `renewLease`, for a JSON object of `<token> <holder>` by name. */
  readonly renewLeases: Statement;
  readonly setQueued: Statement;
  readonly listLeases: Statement;
  readonly sweepEnd: Statement;
  readonly sweepLeases: Statement;
  readonly leasesOfSession: Statement;
  readonly offersOfSession: Statement;
  readonly insertWaiter: Statement;
  readonly firstWaiter: Statement;
  readonly waiterBefore: Statement;
  readonly findWaiter: Statement;
  readonly hasWaiter: Statement;
  readonly countWaiters: Statement;
  readonly deleteWaiter: Statement;
  readonly waitersOfSession: Statement;
  readonly readSession: Statement;
  readonly listSessions: Statement;
  readonly setSeen: Statement;
  readonly deleteSession: Statement;
  readonly walFrames: Statement;
  readonly checkpoint: Statement;
}

const LEASE = "name, holder, token, ttl, expires, info, session, offered, queued";

/** Compiles the statements; the tables must exist. */
export function prepareStatements(db: Connection): Statements {
  const sql = (text: string): Statement => db.prepare(text);
  return {
    begin: sql("BEGIN IMMEDIATE"),
    commit: sql("COMMIT"),
    rollback: sql("ROLLBACK"),

    readStore: sql("SELECT * FROM tenure_store"),
    takeBlock: sql("UPDATE tenure_store SET next = ?, taker = ?"),
    setPending: sql("UPDATE tenure_store SET pending = max(pending, ?)"),
    setCeiling: sql("UPDATE tenure_store SET ceiling = max(ceiling, ?)"),

    grantFree: sql(`INSERT INTO tenure_lease (${LEASE})
      SELECT ?, ?, ?, ?, ?, ?, ?, 0, 0 FROM tenure_store WHERE taker = ?
      ON CONFLICT DO NOTHING`),
    insertLease: sql(`INSERT INTO tenure_lease (${LEASE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)`),
    readLease: sql(`SELECT ${LEASE} FROM tenure_lease WHERE name = ?`),
    endLease: sql(`DELETE FROM tenure_lease
      WHERE name = ? AND holder = ? AND token = ? AND queued = 0 AND expires > ?`),
    deleteLease: sql("DELETE FROM tenure_lease WHERE name = ?"),
    // Replaces the row of the lease before it, or makes one where somebody deleted it by hand.
    offerLease: sql(`INSERT OR REPLACE INTO tenure_lease (${LEASE})
      VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?)`),
    confirmLease: sql(`UPDATE tenure_lease SET ttl = ?, expires = ?, session = ?, offered = 0
      WHERE name = ?`),
    renewLease: sql(`UPDATE tenure_lease SET ttl = ?, expires = ?, session = ?, offered = 0
      WHERE name = ? AND holder = ? AND token = ? AND expires > ?`),
    renewLeases: sql(`UPDATE tenure_lease SET ttl = ?, expires = ?, session = ?, offered = 0
      FROM json_each(?) AS wanted
      WHERE name = wanted.key AND token || ' ' || holder = wanted.value AND expires > ?`),
    setQueued: sql("UPDATE tenure_lease SET queued = ? WHERE name = ?"),
    listLeases: sql(`SELECT ${LEASE} FROM tenure_lease WHERE name > ? ORDER BY name LIMIT 500`),
    sweepEnd: sql(`SELECT max(name) AS name, count(*) AS n FROM
      (SELECT name FROM tenure_lease WHERE name > ? ORDER BY name LIMIT ?)`),
    sweepLeases: sql(`DELETE FROM tenure_lease
      WHERE name > ? AND name <= ? AND expires <= ? AND queued = 0`),
    leasesOfSession: sql("SELECT name FROM tenure_lease WHERE session = ? LIMIT ?"),
    offersOfSession: sql("SELECT name FROM tenure_lease WHERE session = ? AND offered = 1"),

    insertWaiter: sql(`INSERT INTO tenure_waiter (name, id, holder, ttl, info, session)
      SELECT ?, coalesce(max(id), 0) + 1, ?, ?, ?, ? FROM tenure_waiter WHERE name = ?`),
    firstWaiter: sql(`SELECT w.id, w.holder, w.ttl, w.info, w.session, s.seen, s.address
      FROM tenure_waiter w LEFT JOIN tenure_session s ON s.id = w.session
      WHERE w.name = ? ORDER BY w.id LIMIT 1`),
    waiterBefore: sql(`SELECT session FROM tenure_waiter
      WHERE name = ? AND id < ? ORDER BY id DESC LIMIT 1`),
    findWaiter: sql("SELECT id FROM tenure_waiter WHERE name = ? AND holder = ?"),
    hasWaiter: sql("SELECT id, holder FROM tenure_waiter WHERE name = ? AND id >= ? LIMIT 1"),
    countWaiters: sql("SELECT count(*) AS n FROM tenure_waiter WHERE name = ?"),
    deleteWaiter: sql("DELETE FROM tenure_waiter WHERE name = ? AND id = ?"),
    waitersOfSession: sql("SELECT name, id FROM tenure_waiter WHERE session = ? LIMIT ?"),

    readSession: sql("SELECT id AS session, address FROM tenure_session WHERE id = ?"),
    listSessions: sql("SELECT id AS session, address FROM tenure_session WHERE id <> ?"),
    setSeen: sql("UPDATE tenure_session SET seen = ? WHERE id = ?"),
    deleteSession: sql("DELETE FROM tenure_session WHERE id = ?"),

    walFrames: sql("PRAGMA wal_checkpoint(NOOP)"),
    checkpoint: sql("PRAGMA wal_checkpoint(RESTART)"),
  };
}
