/** The lock that lasts as long as a caller's own transaction. */
import { ArgumentTypeError, GuaranteeError, NotAcquiredError } from "../../core/errors.js";
import { checkName } from "../../core/names.js";
import type { Faults } from "../sql-client.js";
import { keySql, locksKeySql } from "./schema.js";

/** A transaction under way: a client of `pg` after BEGIN, or what `sql.begin` gives. */
export type AdvisoryTransaction =
  | { query(config: { text: string; values: unknown[] }): Promise<unknown> }
  | { unsafe(text: string, values: string[]): PromiseLike<unknown> };

const LOCK = `SELECT pg_advisory_xact_lock(${keySql("$1::text")})`;
const LOOK = `SELECT count(*)::integer AS locks FROM pg_locks AS k
  WHERE k.pid = pg_backend_pid() AND ${locksKeySql(keySql("$1::text"))}`;

/**
 * Runs `work` once the transaction has the lock of a name, which it keeps until its own end. Waits
 * as long as the transaction's `lock_timeout` lets it.
 *
 * It excludes session locks of the same name and database, too. There is no token: what the
 * transaction writes is the only thing that the lock protects, and becomes visible when it ends.
 *
 * @throws GuaranteeError outside a transaction, where the lock would be gone at once.
 * @throws NotAcquiredError when the lock was not free in time.
 * @throws What `work` throws.
 */
export async function lockInTransaction<R>(
  transaction: AdvisoryTransaction,
  name: string,
  work: () => Promise<R>,
  faults: Faults,
): Promise<R> {
  checkName(name);
  if (typeof work !== "function") throw new ArgumentTypeError("work", work, "a function");
  const ask = asker(transaction);
  try {
    await ask(LOCK, name);
  } catch (error) {
    const about = { backend: "postgres-advisory", lock: name, cause: error };
    if (faults.isContention(error)) {
      throw new NotAcquiredError(`${JSON.stringify(name)} was not free in time`, about);
    }
    throw faults.explain(error, { during: "lock a name", backend: "postgres-advisory" });
  }
  const [row] = await ask(LOOK, name);
  if (row?.locks !== 1) {
    throw new GuaranteeError(
      "there is no transaction: the lock was gone at the end of its statement; BEGIN one first",
      { backend: "postgres-advisory", lock: name },
    );
  }
  return work();
}

type Ask = (text: string, name: string) => Promise<readonly { readonly locks: unknown }[]>;

function asker(transaction: AdvisoryTransaction): Ask {
  if (typeof transaction === "object" || typeof transaction === "function") {
    if (transaction !== null && "unsafe" in transaction) {
      return async (text, name) => (await transaction.unsafe(text, [name])) as never;
    }
    if (transaction !== null && "query" in transaction) {
      return async (text, name) => {
        const answer = await transaction.query({ text, values: [name] });
        return (answer as { rows: readonly { locks: unknown }[] }).rows;
      };
    }
  }
  throw new ArgumentTypeError("transaction", transaction, "a transaction of pg or postgres");
}
