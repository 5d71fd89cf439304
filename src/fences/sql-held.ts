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
 * lost all the same, since a store may be connected to under an id of the caller's. That it is not
 * there is certain, so whose leases these are may stay unknown.
 */
export async function notHeld(
  transaction: SqlTransaction,
  { backend, lock, token, storeId, place, storeIdSql }: NotHeld,
): Promise<LeaseLostError> {
  const lost = `the store no longer has token ${token} of this holder`;
  const about = { reason: "absent", lock, backend } as const;
  let id: string;
  try {
    const { rows: [row] } = await transaction.query(storeIdSql);
    id = row === undefined ? storeId : String(row["id"]);
  } catch (cause) {
    // A role that reads leases need not be allowed to read this.
    return new LeaseLostError(lost, { ...about, cause });
  }
  const elsewhere =
    `; ${place} keeps the leases of store ${id}, and this one is of store ${storeId}: ` +
    "name the schema of its leases as leaseSchema";
  return new LeaseLostError(id === storeId ? lost : lost + elsewhere, about);
}
