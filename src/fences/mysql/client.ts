/** The part of a MySQL driver that the fence uses. */
import type { FenceRuntime } from "../contract.js";
import type { SqlFaults } from "../sql-transactions.js";
import type { SqlTransaction } from "../sql-work.js";

/** What is said around a transaction. */
export interface Texts {
  readonly before: readonly string[];
  readonly after: readonly string[];
  /** Set to false for statements that are no transaction. */
  readonly isOne?: boolean;
}

/** Where transactions run. */
export interface Database {
  begin<R>(
    work: (transaction: SqlTransaction) => Promise<R>,
    texts: Texts,
    limits: { readonly patience: AbortSignal; readonly signal: AbortSignal },
  ): Promise<R>;
}

/** How the driver's errors are read. */
export interface Faults extends SqlFaults {
  /** The server's number of an error. */
  errorNumber(error: unknown): number | undefined;
}

/** What the fence is given. */
export interface MysqlParts {
  readonly runtime: FenceRuntime;
  readonly database: Database;
  readonly faults: Faults;
  /**
   * Queries that each answer a row while a grant stands; the first keeps it so until the
   * transaction ends. Values: name and holder as hexadecimal digits, token as text.
   */
  heldCheck(leaseSchema: string | undefined): readonly string[];
  /** Query for `id`, that of the store whose leases are kept there. */
  storeIdSql(leaseSchema: string | undefined): string;
}
