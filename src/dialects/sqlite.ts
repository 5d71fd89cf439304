/** Whether a transaction on SQLite is still the one that was begun. */

/** A savepoint, on a connection of the caller's. */
const GUARD = "tenure_transaction";

interface Connection {
  prepare(text: string): { run(): unknown };
}

/** Right after BEGIN: the savepoint ends with the transaction. */
export function setGuard(connection: Connection): void {
  connection.prepare(`SAVEPOINT ${GUARD}`).run();
}

/** Right before COMMIT. False when it was ended, and perhaps another begun. */
export function isGuarded(connection: Connection): boolean {
  try {
    connection.prepare(`RELEASE ${GUARD}`).run();
    return true;
  } catch (error) {
    if (String(error).includes("no such savepoint")) return false;
    throw error;
  }
}

/** SQLite ends a transaction by itself after some errors, such as that of a full disk. */
export function isSqlites(error: unknown): boolean {
  const { code, cause } = (error ?? {}) as { code?: unknown; cause?: unknown };
  if (typeof code === "string" && code.includes("SQLITE")) return true;
  return cause !== undefined && isSqlites(cause);
}
