/**
 * Fence over the rows of a SQLite file: the check of the mark and the write are one transaction.
 *
 * Not promised: that a process stopped inside a transaction lets others in; and, for tables that
 * are not under `install`, anything about code that writes them without a handle.
 */
import { parseDuration } from "../../core/duration.js";
import { ArgumentTypeError } from "../../core/errors.js";
import { checkName } from "../../core/names.js";
import { checkObject } from "../../core/options.js";
import type { TokenBearer } from "../../core/token.js";
import { checkBearer } from "../bearer.js";
import type { Fence, FenceCall, FenceOptions, OnStale } from "../contract.js";
import { createFence } from "../fence.js";
import { checkWork } from "../handle.js";
import type { SqliteParts, SqliteReadTx, SqliteTx } from "./connection.js";
import { whyNotHeld } from "./held.js";
import { Opener, runWork, sqliteStore, type Opened } from "./store.js";
import { audit, install, uninstall, type FenceAudit, type InstallOptions } from "./unskippable.js";

/** Options of a SQLite fence. */
export interface SqliteFenceOptions<S extends OnStale = "reject"> extends FenceOptions<S> {
  /** Longest wait for the write lock of the file, milliseconds. Default 5000. */
  readonly busyMs?: number;
}

/** A fence over the rows of one SQLite file. Work is synchronous. */
export interface SqliteFence<S extends OnStale = "reject">
  extends Fence<SqliteTx, SqliteReadTx, S> {
  /**
   * Held check: for a lease kept in the same file, one transaction says that the lease's record
   * still has this holder and token and is not over, and writes. It needs no arming and no mark.
   *
   * Not promised: that tables written under a mark are safe from it: use one or the other for a
   * table, not both.
   *
   * @throws LeaseLostError when the record says otherwise; GuaranteeError when the file keeps no
   *   leases. The work was not run.
   */
  held<R>(bearer: TokenBearer, work: (tx: SqliteTx) => R): Promise<R>;
  /**
   * Puts a table under the fence: from here on every insert, update and delete, from whatever
   * program, needs the proof that only `write` of the armed handle of that row's resource gives,
   * or is refused by SQLite. Calling it again brings the triggers up to date.
   *
   * @throws GuaranteeError with `foreign_keys` off, or for a table with a partial unique index or
   *   one on an expression.
   */
  install(options: InstallOptions): Promise<void>;
  /** Takes a table from under the fence. */
  uninstall(options: { readonly table: string }): Promise<void>;
  /** Which tables are covered, which are not, and what can get round the fence all the same. */
  audit(): Promise<FenceAudit>;
  /**
   * One transaction that may write every fenced table, for migrations and loads. Recorded in the
   * file with its reason, in the same transaction.
   */
  bypass<R>(reason: string, work: (tx: SqliteTx) => R): Promise<R>;
  /** Closes the connection, if it was opened by the fence. */
  close(): Promise<void>;
}

const UNBOUND: FenceCall = { signal: undefined, remainingMs: () => Infinity };

/** @throws TypeError or RangeError for wrong options. */
export function createSqliteFence<S extends OnStale = "reject">(
  parts: SqliteParts,
  options: SqliteFenceOptions<S> = {},
): SqliteFence<S> {
  checkObject(options, "options");
  const busyMs = parseDuration(options.busyMs ?? 5_000, "busyMs");
  const opener = new Opener(parts, busyMs);
  const fence = createFence<SqliteTx, SqliteReadTx, S>(sqliteStore(opener), parts.runtime, options);

  /** A transaction of the fence's own making, outside the protocol of the marks. */
  async function transact<R>(
    during: string,
    call: FenceCall,
    step: (opened: Opened) => R,
  ): Promise<R> {
    const opened = await opener.open();
    return await opened.transactions.write(during, call, () => step(opened));
  }

  return {
    arm: (bearer, resource) => fence.arm(bearer, resource),
    armAll: (bearer, resources) => fence.armAll(bearer, resources),
    resource: (name) => fence.resource(name),
    mark: (resource) => fence.mark(resource),
    rebase: (resource, to) => fence.rebase(resource, to),

    held: async (bearer, work) => {
      const armer = checkBearer(bearer);
      checkWork(work);
      const now = await parts.heldCheck.clock();
      return await transact("write while held", armer, (opened) => {
        const why = whyNotHeld(opened, parts.heldCheck, armer, now);
        if (why !== undefined) throw why;
        return sync(runWork(opened.connection, work));
      });
    },

    install: async (what) => {
      checkObject(what, "options");
      await transact("install the fence", UNBOUND, ({ connection, marks }) =>
        install(connection, marks, what),
      );
    },
    uninstall: async (what) => {
      checkObject(what, "options");
      await transact("uninstall the fence", UNBOUND, ({ connection, marks }) =>
        uninstall(connection, marks, what.table),
      );
    },
    audit: async () => {
      const { connection, transactions } = await opener.open();
      return await transactions.read("audit the fence", UNBOUND, () => audit(connection));
    },
    bypass: async (reason, work) => {
      checkName(reason, "reason");
      checkWork(work);
      const result = await transact("bypass the fence", UNBOUND, (opened) => {
        const { connection, transactions, marks } = opened;
        transactions.own("bypass the fence", () => marks.proveBypass(reason));
        const done = sync(runWork(connection, work));
        if (connection.inTransaction) marks.unprove();
        return done;
      });
      parts.runtime.events.publish({
        type: "bypassed", name: "", backend: "sqlite", reason,
      });
      return result;
    },
    close: () => opener.close(),
  };
}

function sync<R>(result: R): R {
  if (typeof (result as { then?: unknown } | null | undefined)?.then !== "function") return result;
  (result as PromiseLike<unknown>).then(undefined, () => undefined);
  throw new ArgumentTypeError("work", result, "synchronous: this store awaits no promise");
}
