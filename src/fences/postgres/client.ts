/** The part of a Postgres driver that the fence uses. */
import type { TransactionGuard } from "../../dialects/postgres.js";
import type { FenceRuntime } from "../contract.js";
import type { SqlFaults } from "../sql-transactions.js";
import type { SqlTransaction } from "../sql-work.js";

/** When to give up, and how to end it. */
export interface Limits {
  /** Aborted when no connection was free for too long: nothing was sent then. */
  readonly patience: AbortSignal;
  /** Aborted when nobody waits any more: the connection is cut off where that can be done. */
  readonly signal: AbortSignal;
  /** What is said first and last in it. */
  readonly guard: TransactionGuard;
}

/** Where transactions run. */
export interface Database {
  /** Runs `work` between BEGIN and COMMIT; rolls back when it throws. */
  begin<R>(work: (transaction: SqlTransaction) => Promise<R>, limits: Limits): Promise<R>;
}

/** How the driver's errors are read. */
export interface Faults extends SqlFaults {
  /** The server's code of an error. */
  sqlState(error: unknown): string | undefined;
}

/** What the fence is given. */
export interface PostgresParts {
  readonly runtime: FenceRuntime;
  readonly database: Database;
  readonly faults: Faults;
  /**
   * Query for one row while a grant stands, which keeps it so until the transaction ends. Values:
   * name, holder, token as text.
   */
  heldCheck(leaseSchema: string): string;
  /** Query for `id`, that of the store whose leases are kept there. */
  storeIdSql(leaseSchema: string): string;
}
