/** What a held check on an SQL server says of a lease that is not where it looked. */
import { LeaseLostError } from "../core/errors.js";
import type { SqlTransaction } from "./sql-work.js";

/** Whose lease was looked for, and where. */
export interface NotHeld {
  readonly backend: "postgres" | "mysql";
  readonly lock: string;
  readonly token: bigint;
  /** Of the store that the lease is of. */
  readonly storeId: string;
  /** Where was looked, for people. */
  readonly place: string;
  /** Query for `id`, that of the store whose leases are kept there. */
  readonly storeIdSql: string;
}

/**
 * The error. Where the leases of another store were looked at, it says so: perhaps the lease was
 * lost all the same, since a store may be connected to under an id of the caller's.
 */
export async function notHeld(
  transaction: SqlTransaction,
  { backend, lock, token, storeId, place, storeIdSql }: NotHeld,
): Promise<LeaseLostError> {
  const lost = `the store no longer has token ${token} of this holder`;
  const { rows } = await transaction.query(storeIdSql);
  const id = String(rows[0]?.["id"]);
  const elsewhere =
    `; ${place} keeps the leases of store ${id}, and this one is of store ${storeId}: ` +
    "name the schema of its leases as leaseSchema";
  const text = id === storeId ? lost : lost + elsewhere;
  return new LeaseLostError(text, { reason: "absent", lock, backend });
}
