/** Work on a transaction of an SQL store, whose statements may be asynchronous. */
import { UnavailableError } from "../core/errors.js";
import type { Work } from "./contract.js";

/** A row by column names; values are what the client library makes of them. */
export type Row = Readonly<Record<string, unknown>>;

/** A transaction under way. */
export interface SqlTransaction {
  /** The library's own object, on the connection of the transaction. */
  readonly native: unknown;
  query(text: string, values?: readonly unknown[]): Promise<{ readonly rows: readonly Row[] }>;
}

/** What the work of a read or write is given: the connection, inside the transaction. */
export interface SqlTx {
  /** One statement; answers its rows. Statements run one after the other. */
  query<R extends object = Row>(text: string, values?: readonly unknown[]): Promise<R[]>;
  /**
   * The library's own object on the connection of this transaction, for query builders: a client
   * of `pg`, the function that `postgres` hands to `begin`, a connection of `mysql2`. Not to be
   * kept beyond the work: what is sent later runs outside the transaction.
   */
  readonly native: unknown;
}

const ENDS_IT = /^\s*(BEGIN|START|COMMIT|END|ABORT|PREPARE\s+TRANSACTION|ROLLBACK(?!.*\bTO\b))\b/i;

/** The transaction of one piece of work. */
class WorkTransaction implements SqlTx {
  readonly #transaction: SqlTransaction;
  readonly #pending = new Set<Promise<unknown>>();
  #isOpen = true;

  constructor(transaction: SqlTransaction) {
    this.#transaction = transaction;
  }

  get native(): unknown {
    this.#check();
    return this.#transaction.native;
  }

  query<R extends object = Row>(text: string, values?: readonly unknown[]): Promise<R[]> {
    this.#check();
    if (ENDS_IT.test(text)) {
      throw new TypeError(`the fence begins and ends the transaction: ${text}`);
    }
    const answer = this.#transaction.query(text, values).then(({ rows }) => rows as R[]);
    this.#pending.add(answer);
    answer.then(
      () => this.#pending.delete(answer),
      // Kept: nobody may be awaiting it, and it must not be committed over.
      () => undefined,
    );
    return answer;
  }

  /** Of no use from here on. Rejects when a statement failed that nobody awaited. */
  async end(): Promise<void> {
    this.#isOpen = false;
    await Promise.all(this.#pending);
  }

  /** Of no use from here on, whatever becomes of its statements. */
  abandon(): void {
    this.#isOpen = false;
  }

  #check(): void {
    if (!this.#isOpen) throw new TypeError("this transaction has ended");
  }
}

/** Runs work on a transaction that is of no use afterwards. */
export async function runWork<R>(
  transaction: SqlTransaction,
  work: Work<SqlTx, R>,
  backend: string,
): Promise<R> {
  const tx = new WorkTransaction(transaction);
  let result: R;
  try {
    result = await work(tx);
  } catch (error) {
    tx.abandon();
    throw error;
  }
  try {
    await tx.end();
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new UnavailableError(`a statement of the work failed, and nobody awaited it: ${why}`, {
      backend,
      cause,
    });
  }
  return result;
}

/** Work as the caller gives it, with the result that awaiting it has. */
export function awaiting<R>(work: (tx: SqlTx) => R): Work<SqlTx, Awaited<R>> {
  return async (tx): Promise<Awaited<R>> => {
    const result = await work(tx);
    return result;
  };
}
