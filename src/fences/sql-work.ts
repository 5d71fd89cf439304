/** Work on a transaction of an SQL store, whose statements may be asynchronous. */
import { UnavailableError } from "../core/errors.js";
import { endsTransaction } from "../dialects/transaction-ends.js";
import type { Work } from "./contract.js";

/** The kinds of servers. */
export type SqlDialect = "postgres" | "mysql";

/** A row by column names; values are what the client library makes of them. */
export type Row = Readonly<Record<string, unknown>>;

/** A transaction under way. */
export interface SqlTransaction {
  /** The library's own object, on the connection of the transaction. */
  readonly native: unknown;
  query(text: string, values?: readonly unknown[]): Promise<{ readonly rows: readonly Row[] }>;
  /** Whether a part of it may be committed, so that cutting it off need not undo all. */
  readonly isInDoubt?: boolean;
}

/** What the work of a read or write is given: the connection, inside the transaction. */
export interface SqlTx {
  /**
   * One statement; answers its rows. Statements run one after the other. One that fails, and whose
   * failure the work hears of, is the work's business: on Postgres nothing more can be done in the
   * transaction, nor committed, until a ROLLBACK TO a savepoint.
   */
  query<R extends object = Row>(text: string, values?: readonly unknown[]): Promise<R[]>;
  /**
   * The library's own object on the connection of this transaction, for query builders: a client
   * of `pg`, the function that `postgres` hands to `begin`, a connection of `mysql2`. Not to be
   * kept beyond the work: what is sent later runs outside the transaction.
   */
  readonly native: unknown;
}

/** A statement that tells whether somebody will hear of its failure. */
class Answer<R> extends Promise<R> {
  isHeard = false;

  /** What `then` answers is nothing special. */
  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  override then<A = R, B = never>(
    done?: ((value: R) => A | PromiseLike<A>) | null,
    failed?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.isHeard = true;
    return super.then(done, failed);
  }

  /** What nobody hears of is not to end the process. */
  silence(): void {
    void super.then(undefined, () => undefined);
  }
}

/** The transaction of one piece of work. */
class WorkTransaction implements SqlTx {
  readonly #transaction: SqlTransaction;
  readonly #dialect: SqlDialect;
  readonly #pending = new Set<Promise<unknown>>();
  /** Statements that failed: what nobody hears of must not be committed over. */
  readonly #failed: { readonly answer: Answer<unknown>; readonly error: unknown }[] = [];
  #isOpen = true;

  constructor(transaction: SqlTransaction, dialect: SqlDialect) {
    this.#transaction = transaction;
    this.#dialect = dialect;
  }

  get native(): unknown {
    this.#check();
    return this.#transaction.native;
  }

  query<R extends object = Row>(text: string, values?: readonly unknown[]): Promise<R[]> {
    this.#check();
    if (endsTransaction(text, this.#dialect)) {
      throw new TypeError(`the fence begins and ends the transaction: ${text}`);
    }
    const rows = this.#transaction.query(text, values).then((answer) => answer.rows as R[]);
    const answer = new Answer<R[]>((resolve, reject) => void rows.then(resolve, reject));
    const settled = rows.then(
      () => undefined,
      (error: unknown) => {
        this.#failed.push({ answer, error });
        answer.silence();
      },
    );
    this.#pending.add(settled);
    void settled.then(() => this.#pending.delete(settled));
    return answer;
  }

  /** Of no use from here on. Rejects when a statement failed that nobody awaited. */
  async end(): Promise<void> {
    this.#isOpen = false;
    await Promise.all(this.#pending);
    const unheard = this.#failed.find(({ answer }) => !answer.isHeard);
    if (unheard !== undefined) throw unheard.error;
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
  backend: SqlDialect,
): Promise<R> {
  const tx = new WorkTransaction(transaction, backend);
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
