/**
 * The tables of the fence.
 *
 * - `tenure_fence_mark`: the mark of each resource; triggers keep it from sinking or going away.
 * - `tenure_fence_table`: the tables whose writes need proof.
 * - `tenure_fence_proof`: the proof. A row says that the running transaction belongs to an armed
 *   handle of `resource`, or, with the empty resource, to a bypass. It cannot be committed: it
 *   refers to a row that `tenure_fence_nothing` cannot have, by a constraint that COMMIT checks. So
 *   the fence deletes it before its own COMMIT, and a COMMIT by anybody else fails. That needs
 *   `foreign_keys` on, which the proof's trigger asks for.
 * - `tenure_fence_audit`: rebases, bypasses, and tables put under the fence and taken from it.
 */

const SAME_SCOPE = "NEW.store_id = OLD.store_id AND NEW.lock = OLD.lock";
const NOW = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')";

/** Makes the tables where they are missing. */
export const CREATE_TABLES_SQL: string = `
CREATE TABLE IF NOT EXISTS tenure_fence_mark (
  resource TEXT PRIMARY KEY NOT NULL,
  store_id TEXT NOT NULL,
  lock TEXT NOT NULL,
  token INTEGER NOT NULL,
  holder TEXT NOT NULL,
  arm INTEGER NOT NULL,
  n INTEGER NOT NULL,
  past TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tenure_fence_table (
  name TEXT PRIMARY KEY NOT NULL,
  resource_column TEXT NOT NULL,
  prefix TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tenure_fence_audit (
  id INTEGER PRIMARY KEY,
  at TEXT NOT NULL DEFAULT (${NOW}),
  event TEXT NOT NULL,
  subject TEXT NOT NULL,
  detail TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS tenure_fence_nothing (
  id INTEGER PRIMARY KEY CHECK (0)
);
CREATE TABLE IF NOT EXISTS tenure_fence_proof (
  resource TEXT PRIMARY KEY NOT NULL,
  token INTEGER NOT NULL,
  holder TEXT NOT NULL,
  arm INTEGER NOT NULL,
  uncommitted INTEGER NOT NULL DEFAULT 1
    REFERENCES tenure_fence_nothing (id) DEFERRABLE INITIALLY DEFERRED
) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS tenure_fence_mark_stays BEFORE DELETE ON tenure_fence_mark BEGIN
  SELECT RAISE(ABORT, 'tenure: a mark is never deleted: without it, an old holder could write');
END;
CREATE TRIGGER IF NOT EXISTS tenure_fence_mark_is_one BEFORE INSERT ON tenure_fence_mark
WHEN EXISTS (SELECT 1 FROM tenure_fence_mark WHERE resource = NEW.resource) BEGIN
  SELECT RAISE(ABORT, 'tenure: a mark is never replaced');
END;
CREATE TRIGGER IF NOT EXISTS tenure_fence_mark_grows BEFORE UPDATE ON tenure_fence_mark
WHEN NEW.resource <> OLD.resource OR ${SAME_SCOPE} AND (
  (NEW.token, NEW.arm, NEW.n) < (OLD.token, OLD.arm, OLD.n)
  OR NEW.token = OLD.token AND NEW.holder <> OLD.holder
) BEGIN
  SELECT RAISE(ABORT, 'tenure: a mark never goes down');
END;
CREATE TRIGGER IF NOT EXISTS tenure_fence_proof_is_true BEFORE INSERT ON tenure_fence_proof BEGIN
  SELECT RAISE(ABORT, 'tenure: a fenced table needs PRAGMA foreign_keys = ON on this connection')
    WHERE (SELECT foreign_keys FROM pragma_foreign_keys) = 0;
  SELECT RAISE(ABORT, 'tenure: this is not the armed holder')
    WHERE NEW.resource <> '' AND NOT EXISTS (SELECT 1 FROM tenure_fence_mark AS m
      WHERE m.resource = NEW.resource AND m.token = NEW.token AND m.holder = NEW.holder
        AND m.arm = NEW.arm);
END;
CREATE TRIGGER IF NOT EXISTS tenure_fence_bypass_is_audited AFTER INSERT ON tenure_fence_proof
WHEN NEW.resource = '' BEGIN
  INSERT INTO tenure_fence_audit (event, subject, detail) VALUES ('bypass', '', NEW.holder);
END;
`;
