/**
 * Fence over the rows of a MySQL or MariaDB database: the check of the mark and the write are one
 * transaction, with the mark's row locked first.
 *
 * Not promised, for tables that are not under `install`: anything about code that writes them
 * without a handle; and for those that are, what `audit` lists.
 */
import { parseDuration } from "../../core/duration.js";
import { ArgumentTypeError } from "../../core/errors.js";
import { checkName } from "../../core/names.js";
import type { TokenBearer } from "../../core/token.js";
import { armAll } from "../arm-all.js";
import { checkBearer, throwIfAborted, type Armer } from "../bearer.js";
import type { ArmedHandle, Fence, FenceOptions, OnStale } from "../contract.js";
import { decide } from "../decide.js";
import { createFence } from "../fence.js";
import { notHeld } from "../sql-held.js";
import { UNBOUND } from "../sql-transactions.js";
import { refuse } from "../refusal.js";
import { sqlStore } from "../sql-store.js";
import { checkInstall, type FenceAudit, type InstallOptions } from "../sql-tables.js";
import { awaiting, runWork, type SqlTx } from "../sql-work.js";
import type { MysqlParts } from "./client.js";
import { Marks } from "./marks.js";
import { checkSchema, quoteIdentifier, toHex } from "../../dialects/mysql.js";
import { NOT_ARMED_STATE, PROCEDURES } from "./schema.js";
import { Setup } from "./setup.js";
import { settingsFor, mysqlTransactions } from "./transactions.js";
import { audit, install, uninstall } from "./unskippable.js";
import { hasState, isConflict, runnerOf, watchTransaction, type CallersTransaction } from "./within.js";

/** Options of a MySQL fence. */
export interface MysqlFenceOptions<S extends OnStale = "reject"> extends FenceOptions<S> {
  /** Schema for the fence's tables; made when missing. Default: the connection's. */
  readonly schema?: string;
  /**
   * Whether missing tables are made at the first use. Default true. With false they must be there,
   * made from what `fenceSchemaStatements` answers.
   */
  readonly migrate?: boolean;
  /** Schema of the tables that leases are in, for the held check. Default: the connection's. */
  readonly leaseSchema?: string;
  /**
   * Longest time of one transaction, where the lease does not leave less. It bounds how long a
   * frozen holder blocks its successor, rounded to whole seconds. Default 30 s.
   */
  readonly transactionMs?: number | string;
}

/** A handle of a MySQL fence. */
export type MysqlHandle<S extends OnStale = "reject"> = ArmedHandle<SqlTx, SqlTx, S>;

/** A fence over the rows of one MySQL or MariaDB database. Work may be asynchronous. */
export interface MysqlFence<S extends OnStale = "reject"> extends Fence<SqlTx, SqlTx, S> {
  /**
   * Checks the mark for a handle inside a transaction that the caller has begun, and lets it write
   * fenced tables while `work` runs. To be called before anything is read. The mark stays locked
   * until the caller's COMMIT or ROLLBACK, which must not be in `work`; while that runs, the server
   * ends the session if it stands idle for longer than the lease has left.
   *
   * Not promised: that the caller's transaction ends before the lease does, nor that a refusal
   * ends it: do not commit then. Nor that what `work` sends after a deadlock that it caught is
   * undone: autocommit is yours. It is told, but for a transaction that was then begun anew, and
   * for a function through which no savepoint can be set. Through one that answers rows alone,
   * savepoints that `work` sets are gone behind it; give one function for one transaction.
   *
   * @throws What a write of the handle throws, and what `work` throws; `onStale` does not apply.
   * @throws OutcomeUnknownError when the transaction was ended inside `work`.
   * @throws TypeError for a pool, and for a handle of another fence.
   */
  within<R>(
    transaction: CallersTransaction,
    handle: MysqlHandle<S>,
    work: () => R,
  ): Promise<Awaited<R>>;
  /**
   * Held check: for a lease kept in the same database, one transaction says that the lease's record
   * still has this holder and token and is not over, keeps it so, and writes. It needs no arming
   * and no mark, and blocks no renewal.
   *
   * Not promised: that tables written under a mark are safe from it: use one or the other for a
   * table, not both.
   *
   * @throws LeaseLostError when the record says otherwise; the work was not run.
   */
  held<R>(bearer: TokenBearer, work: (tx: SqlTx) => R): Promise<Awaited<R>>;
  /**
   * Puts a table under the fence: from here on every insert, update and delete, from whatever
   * program, needs a transaction that has shown the armed token of that row's resource, or is
   * refused with SQLSTATE `TN010`; but see `audit`. Calling it again brings the triggers up to
   * date.
   *
   * @throws TypeError for a table or column that is not there or cannot be covered; GuaranteeError
   *   for a table without transactions.
   */
  install(options: InstallOptions): Promise<void>;
  /** Takes a table from under the fence. @throws TypeError when it is not. */
  uninstall(options: Pick<InstallOptions, "table" | "schema">): Promise<void>;
  /** Which tables are covered, which are not, and what can get round the fence all the same. */
  audit(): Promise<FenceAudit>;
  /**
   * One transaction that may write every fenced table, for migrations and loads. Recorded in the
   * database with its reason, in the same transaction.
   */
  bypass<R>(reason: string, work: (tx: SqlTx) => R): Promise<Awaited<R>>;
}

const DEFAULT_TRANSACTION_MS = 30_000;
const BACKEND = "mysql";

/** @throws TypeError or RangeError for wrong options. */
export function createMysqlFence<S extends OnStale = "reject">(
  parts: MysqlParts,
  options: MysqlFenceOptions<S> = {},
): MysqlFence<S> {
  const { schema, leaseSchema, migrate = true } = options;
  if (schema !== undefined) checkSchema(schema, "schema");
  if (leaseSchema !== undefined) checkSchema(leaseSchema, "leaseSchema");
  if (typeof migrate !== "boolean") {
    throw new ArgumentTypeError("migrate", migrate, "true or false");
  }
  const ms = parseDuration(options.transactionMs ?? DEFAULT_TRANSACTION_MS, "transactionMs");
  const transactions = mysqlTransactions(parts, ms);
  const marks = new Marks(schema === undefined ? "" : `${quoteIdentifier(schema)}.`);
  const setup = new Setup(parts, schema, migrate);
  const unsettled = new Set<string>();
  const store = sqlStore({ kind: BACKEND, transactions, marks, setup, unsettled });
  const shared = createFence<SqlTx, SqlTx, S>(store, parts.runtime, options);
  const armers = new WeakMap<object, Armer>();

  const fence: MysqlFence<S> = {
    arm: async (bearer, resource) => {
      const handle = await shared.arm(bearer, resource);
      armers.set(handle, checkBearer(bearer));
      return handle;
    },
    armAll: async (bearer, resources) =>
      await armAll(bearer, resources.map((name) => fence.resource(name))),
    resource: (name) => {
      const resource = checkName(name, "resource");
      return { fence, resource, arm: (bearer) => fence.arm(bearer, resource) };
    },
    mark: (resource) => shared.mark(resource),
    rebase: (resource, to) => shared.rebase(resource, to),

    within: async <R>(
      transaction: CallersTransaction,
      handle: MysqlHandle<S>,
      work: () => R,
    ): Promise<Awaited<R>> => {
      const runSql = runnerOf(transaction);
      const armer = armers.get(handle);
      if (armer === undefined) throw new ArgumentTypeError("handle", handle, "armed by this fence");
      const { set, reset } = settingsFor(transactions.timeFor("write", armer));
      const { resource, scope, token, holder, arm } = handle;
      const watch = await watchTransaction(runSql, transaction);
      unsettled.add(resource);
      await runSql(set, []);
      try {
        const prove = `CALL ${marks.schema}${PROCEDURES.write}(UNHEX(?), ?, UNHEX(?), ?)`;
        await runSql(prove, [toHex(resource), String(token), toHex(holder), String(arm)]);
        throwIfAborted(armer);
        let result: Awaited<R>;
        try {
          result = await work();
        } catch (error) {
          // A conflict that was let through is what ended it: nothing is left.
          if (!isConflict(error, parts.faults)) await watch.end(error);
          throw error;
        }
        await watch.end();
        return result;
      } catch (error) {
        if (!hasState(error, NOT_ARMED_STATE)) throw error;
        const request = { op: "write", resource, scope, token, holder, arm, n: 0 } as const;
        const verdict = decide(await store.load(resource, UNBOUND), { ...request, op: "read" });
        if (verdict.accepted) throw error;
        throw refuse({ store, runtime: parts.runtime, onStale: "reject" }, request, verdict);
      } finally {
        watch.forget();
        await runSql(`CALL ${marks.schema}${PROCEDURES.done}(UNHEX(?))`, [toHex(resource)]);
        await runSql(reset, []);
      }
    },

    held: async <R>(bearer: TokenBearer, work: (tx: SqlTx) => R): Promise<Awaited<R>> => {
      const armer = checkBearer(bearer);
      const { scope: { name, storeId }, holder, token } = armer;
      const during = "write while held";
      return await transactions.run("write", during, armer, async (transaction) => {
        for (const text of parts.heldCheck(leaseSchema)) {
          const values = [toHex(name), toHex(holder), String(token)];
          const { rows } = await transactions.own(during, () => transaction.query(text, values));
          if (rows.length > 0) continue;
          const place =
            leaseSchema === undefined
              ? "the connection's own database"
              : `the database ${JSON.stringify(leaseSchema)}`;
          const looked = { place, storeIdSql: parts.storeIdSql(leaseSchema) };
          const about = { backend: BACKEND, lock: name, token, storeId, ...looked } as const;
          throw await notHeld(transaction, about);
        }
        return await runWork<Awaited<R>>(transaction, awaiting(work), BACKEND);
      });
    },

    install: async (what) => {
      checkInstall(what);
      await setup.ready();
      await setup.onConnection("install the fence", (on) => install(on, marks, what));
    },
    uninstall: async (what) => {
      checkName(what.table, "table");
      await setup.ready();
      await setup.onConnection("uninstall the fence", (on) => uninstall(on, marks, what));
    },
    audit: async () => {
      await setup.ready();
      return await setup.onConnection("audit the fence", (on) => audit(on, marks));
    },
    bypass: async <R>(reason: string, work: (tx: SqlTx) => R): Promise<Awaited<R>> => {
      checkName(reason, "reason");
      await setup.ready();
      const during = "bypass the fence";
      const result = await transactions.run("write", during, UNBOUND, async (transaction) => {
        await transactions.own(during, () => marks.proveBypass(transaction));
        const done = await runWork<Awaited<R>>(transaction, awaiting(work), BACKEND);
        await transactions.own(during, async () => {
          await marks.unprove(transaction, "");
          await marks.audit(transaction, "bypass", "", reason);
        });
        return done;
      });
      parts.runtime.events.publish({ type: "bypassed", name: "", backend: BACKEND, reason });
      return result;
    },
  };
  return fence;
}
