/** The store of a fence on an SQL server: each step is one transaction, the mark's row first. */
import type { FenceCall, FenceStore, Ran, Work } from "./contract.js";
import { decide, rebase, type FenceRequest, type MarkRecord, type Verdict } from "./decide.js";
import { formatScope } from "./refusal.js";
import { runWork, type SqlDialect, type SqlTransaction, type SqlTx } from "./sql-work.js";

/** How the transactions of a fence run. */
export interface SqlTransactions {
  /**
   * One transaction; `read`: that sees one state and writes nothing. What `step` throws undoes it
   * and comes out as it is.
   *
   * @throws UnavailableError when nothing was committed, OutcomeUnknownError when that is open.
   *   LeaseLostError when the lease has no time for one.
   */
  run<R>(
    mode: "write" | "read",
    during: string,
    call: FenceCall,
    step: (transaction: SqlTransaction) => Promise<R>,
  ): Promise<R>;
  /** Runs statements of the fence itself: what goes wrong is told as an error of Tenure. */
  own<R>(during: string, statements: () => Promise<R>): Promise<R>;
}

/** The marks as rows. */
export interface SqlMarks {
  /** The mark as this transaction sees it. */
  load(transaction: SqlTransaction, resource: string): Promise<MarkRecord | null>;
  /**
   * Waits for whoever is writing under the mark, and keeps others out until the end. `makes`: a
   * mark will be saved where there is none.
   */
  lock(
    transaction: SqlTransaction,
    resource: string,
    makes: boolean,
  ): Promise<MarkRecord | null>;
  /**
   * Answers false when a mark was to be made and somebody else was faster; it can be locked then.
   * `proves`: whether the transaction may write the tables fenced by this resource.
   */
  save(
    transaction: SqlTransaction,
    resource: string,
    record: MarkRecord,
    how: { readonly isNew: boolean; readonly proves: boolean },
  ): Promise<boolean>;
  /** Ends the proof before COMMIT, where it does not end by itself. */
  unprove?(transaction: SqlTransaction, resource: string): Promise<void>;
  audit(
    transaction: SqlTransaction,
    event: "rebase" | "install" | "uninstall",
    subject: string,
    detail: string,
  ): Promise<void>;
}

/** What the steps of a fence are made of. */
export interface SqlStoreParts {
  readonly kind: SqlDialect;
  readonly transactions: SqlTransactions;
  readonly marks: SqlMarks;
  /** Resolves once the tables are there. */
  readonly setup: { ready(): Promise<void> };
  /** Resources with a transaction of the caller's that may not have ended. */
  readonly unsettled: Set<string>;
}

/** The store of one fence. */
export function sqlStore(parts: SqlStoreParts): FenceStore<SqlTx> {
  const { kind, transactions, marks, setup, unsettled } = parts;

  /** Decides on the stored mark and raises it; the mark stays locked. */
  async function judge(transaction: SqlTransaction, request: FenceRequest): Promise<Verdict> {
    const { resource } = request;
    for (;;) {
      const before = await marks.lock(transaction, resource, request.op === "arm");
      const verdict = decide(before, request);
      if (!verdict.accepted) return verdict;
      const how = { isNew: before === null, proves: request.op === "write" };
      if (await marks.save(transaction, resource, verdict.record, how)) return verdict;
    }
  }

  /** A transaction of the caller's may be committing still: what it wrote must be seen. */
  async function settle(resource: string, call: FenceCall): Promise<void> {
    if (!unsettled.has(resource)) return;
    await transactions.run("write", "read", call, (transaction) =>
      transactions.own("read", () => marks.lock(transaction, resource, false)),
    );
    unsettled.delete(resource);
  }

  return {
    kind,
    work: "async",
    readsCanEnd: true,
    load: async (resource, call) => {
      await setup.ready();
      return await transactions.run("read", "read a mark", call, (transaction) =>
        transactions.own("read a mark", () => marks.load(transaction, resource)),
      );
    },
    arm: async (request, call) => {
      await setup.ready();
      return await transactions.run("write", "arm", call, (transaction) =>
        transactions.own("arm", () => judge(transaction, request)),
      );
    },
    read: async <R>(request: FenceRequest, work: Work<SqlTx, R>, call: FenceCall) => {
      await setup.ready();
      await settle(request.resource, call);
      return await transactions.run<Ran<R>>("read", "read", call, async (transaction) => {
        const record = await transactions.own("read", () =>
          marks.load(transaction, request.resource),
        );
        const verdict = decide(record, request);
        if (!verdict.accepted) return verdict;
        return { accepted: true, result: await runWork(transaction, work, kind) };
      });
    },
    write: async <R>(request: FenceRequest, work: Work<SqlTx, R>, call: FenceCall) => {
      await setup.ready();
      return await transactions.run<Ran<R>>("write", "write", call, async (transaction) => {
        const verdict = await transactions.own("write", () => judge(transaction, request));
        if (!verdict.accepted) return verdict;
        const result = await runWork(transaction, work, kind);
        await transactions.own("write", async () => marks.unprove?.(transaction, request.resource));
        return { accepted: true, result };
      });
    },
    rebase: async (request, call) => {
      await setup.ready();
      const { resource, reason } = request;
      const step = async (transaction: SqlTransaction): Promise<Moved> => {
        for (;;) {
          const before = await marks.lock(transaction, resource, true);
          const after = rebase(before, request);
          if (after === before) return { before, after };
          const how = { isNew: before === null, proves: false };
          if (!(await marks.save(transaction, resource, after, how))) continue;
          const from = before === null ? "nowhere" : formatScope(before.scope);
          const detail = `from ${from} to ${formatScope(after.scope)}: ${reason}`;
          await marks.audit(transaction, "rebase", resource, detail);
          return { before, after };
        }
      };
      return await transactions.run("write", "rebase", call, (transaction) =>
        transactions.own("rebase", () => step(transaction)),
      );
    },
  };
}

interface Moved {
  readonly before: MarkRecord | null;
  readonly after: MarkRecord;
}
