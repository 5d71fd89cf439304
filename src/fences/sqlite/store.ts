/** The fence's store on SQLite: each step is one transaction, with the mark's row first. */
import type { FenceCall, FenceStore, Ran, Work } from "../contract.js";
import { decide, rebase, type FenceRequest, type Verdict } from "../decide.js";
import { formatScope } from "../refusal.js";
import {
  keepStatements,
  transactionOf,
  type Connection,
  type SqliteParts,
  type SqliteReadTx,
  type SqliteTx,
} from "./connection.js";
import { Marks } from "./marks.js";
import { CREATE_TABLES_SQL } from "./schema.js";
import { Transactions } from "./transactions.js";

const UNBOUND: FenceCall = { signal: undefined, remainingMs: () => Infinity };

/** A connection with the fence's tables in it. */
export interface Opened {
  readonly connection: Connection;
  readonly transactions: Transactions;
  readonly marks: Marks;
}

/** Connects and makes the tables at the first use; tries again at the next after a failure. */
export class Opener {
  readonly #parts: SqliteParts;
  readonly #busyMs: number;
  #opened: Promise<Opened> | undefined;

  constructor(parts: SqliteParts, busyMs: number) {
    this.#parts = parts;
    this.#busyMs = busyMs;
  }

  async open(): Promise<Opened> {
    this.#opened ??= this.#open();
    try {
      return await this.#opened;
    } catch (error) {
      this.#opened = undefined;
      throw error;
    }
  }

  async close(): Promise<void> {
    const opened = await this.#opened?.catch(() => undefined);
    this.#opened = undefined;
    if (this.#parts.ownsConnection) opened?.connection.close();
  }

  async #open(): Promise<Opened> {
    const connection = keepStatements(await this.#parts.connect());
    try {
      const transactions = new Transactions(connection, this.#parts, this.#busyMs);
      const during = "make the tables of the fence";
      await transactions.write(during, UNBOUND, () =>
        transactions.own(during, () => connection.exec(CREATE_TABLES_SQL)),
      );
      return { connection, transactions, marks: new Marks(connection) };
    } catch (error) {
      if (this.#parts.ownsConnection) connection.close();
      throw error;
    }
  }
}

/** The store over an opener. */
export function sqliteStore(opener: Opener): FenceStore<SqliteTx, SqliteReadTx> {
  return {
    kind: "sqlite",
    work: "sync",
    readsCanEnd: true,
    load: async (resource, call) => {
      const { transactions, marks } = await opener.open();
      return await transactions.read("read a mark", call, () =>
        transactions.own("read a mark", () => marks.load(resource)),
      );
    },
    arm: async (request, call) => {
      const { transactions, marks } = await opener.open();
      return await transactions.write("arm", call, () =>
        transactions.own("arm", () => judge(marks, request)),
      );
    },
    read: async <R>(request: FenceRequest, work: Work<SqliteReadTx, R>, call: FenceCall) => {
      const { connection, transactions, marks } = await opener.open();
      return await transactions.read<Ran<R>>("read", call, () => {
        const record = transactions.own("read", () => marks.load(request.resource));
        const verdict = decide(record, request);
        if (!verdict.accepted) return verdict;
        return { accepted: true, result: runWork(connection, work) };
      });
    },
    write: async <R>(request: FenceRequest, work: Work<SqliteTx, R>, call: FenceCall) => {
      const { connection, transactions, marks } = await opener.open();
      return await transactions.write<Ran<R>>("write", call, () => {
        const verdict = transactions.own("write", () => {
          const answer = judge(marks, request);
          if (answer.accepted) marks.prove(request);
          return answer;
        });
        if (!verdict.accepted) return verdict;
        const result = runWork(connection, work);
        if (connection.inTransaction) transactions.own("write", () => marks.unprove());
        return { accepted: true, result };
      });
    },
    rebase: async (request, call) => {
      const { transactions, marks } = await opener.open();
      const { resource, reason } = request;
      return await transactions.write("rebase", call, () =>
        transactions.own("rebase", () => {
          const before = marks.load(resource);
          const after = rebase(before, request);
          if (after !== before) {
            marks.save(resource, after, before === null);
            const from = before === null ? "nowhere" : formatScope(before.scope);
            const detail = `from ${from} to ${formatScope(after.scope)}: ${reason}`;
            marks.audit("rebase", resource, detail);
          }
          return { before, after };
        }),
      );
    },
  };
}

/** Decides on the stored mark and raises it. */
function judge(marks: Marks, request: FenceRequest): Verdict {
  const before = marks.load(request.resource);
  const verdict = decide(before, request);
  if (verdict.accepted) marks.save(request.resource, verdict.record, before === null);
  return verdict;
}

/** Runs work on a transaction that is of no use afterwards. */
export function runWork<R>(connection: Connection, work: Work<SqliteTx, R>): R {
  let open = true;
  try {
    // The handle lets no promise through: work is synchronous here.
    return work(transactionOf(connection, () => open)) as R;
  } finally {
    open = false;
  }
}
