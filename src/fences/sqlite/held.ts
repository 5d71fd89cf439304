/** The held check: whether the record of a lease in the same file still stands. */
import { GuaranteeError, LeaseLostError } from "../../core/errors.js";
import type { Scope } from "../decide.js";
import type { Connection, HeldCheck, Value } from "./connection.js";
import type { Transactions } from "./transactions.js";

/** Whose lease is looked for. */
interface Bearer {
  readonly scope: Scope;
  readonly holder: string;
  readonly token: bigint;
}

/** Looks at the record inside the transaction; answers why it does not stand, if it does not. */
export function whyNotHeld(
  { connection, transactions }: { connection: Connection; transactions: Transactions },
  check: HeldCheck,
  { scope, holder, token }: Bearer,
  now: () => readonly Value[],
): GuaranteeError | LeaseLostError | undefined {
  const one = (sql: string, ...values: Value[]): unknown =>
    transactions.own("test the lease", () => connection.prepare(sql).get(...values));
  const file = connection.file || "the database";
  const about = { lock: scope.name, backend: "sqlite" };
  try {
    if (one(check.sql, scope.name, holder, token, ...now()) !== undefined) return undefined;
  } catch (error) {
    if (one(check.keepsLeasesSql) !== undefined) throw error;
    const text =
      `${file} keeps no leases: a held check is for a lease in the same file as the rows; ` +
      "for a lease from elsewhere, arm the fence with it";
    return new GuaranteeError(text, about);
  }
  const lost = `the store no longer has token ${token} of this holder`;
  const { id } = one(check.storeIdSql) as { readonly id: string };
  // Perhaps lost all the same: a store may be connected to under an id of the caller's.
  const elsewhere =
    `; ${file} keeps the leases of store ${id}, and this one is of store ${scope.storeId}: ` +
    "a held check is for a lease in the same file";
  const text = id === scope.storeId ? lost : lost + elsewhere;
  return new LeaseLostError(text, { ...about, reason: "absent" });
}
