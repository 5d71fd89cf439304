import type { Connection } from "./client.js";
import type { Statements } from "./statements.js";

/**
 * Runs `work` inside `BEGIN IMMEDIATE … COMMIT`; rolls back and calls `undone` when it throws.
 *
 * Immediate, because a transaction that first reads and then writes fails at once when another
 * process has written in between.
 */
export function transact<R>(
  db: Connection,
  statements: Pick<Statements, "begin" | "commit" | "rollback">,
  work: () => R,
  undone: () => void,
): R {
  statements.begin.run();
  try {
    const result = work();
    statements.commit.run();
    return result;
  } catch (error) {
    undone();
    // Some errors (a full disk) have already rolled back.
    if (db.inTransaction) statements.rollback.run();
    throw error;
  }
}
