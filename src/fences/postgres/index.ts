/**
 * Fence over the rows of a Postgres database: the check of the mark and the write are one
 * transaction, with the mark's row locked first.
 *
 * Not promised, for tables that are not under `install`: anything about code that writes them
 * without a handle.
 */
import { parseDuration } from "../../core/duration.js";
import { ArgumentTypeError } from "../../core/errors.js";
import { checkName } from "../../core/names.js";
import type { TokenBearer } from "../../core/token.js";
import { armAll } from "../arm-all.js";
import { checkBearer, throwIfAborted, type Armer } from "../bearer.js";
import type { ArmedHandle, Fence, FenceOptions, OnStale } from "../contract.js";
import { createFence } from "../fence.js";
import { notHeld } from "../sql-held.js";
import { UNBOUND } from "../sql-transactions.js";
import { refuse } from "../refusal.js";
import { sqlStore } from "../sql-store.js";
import { checkInstall, type FenceAudit, type InstallOptions } from "../sql-tables.js";
import { awaiting, runWork, type SqlTransaction, type SqlTx } from "../sql-work.js";
import type { PostgresParts } from "./client.js";
import { Marks } from "./marks.js";
import { checkSchema } from "../../dialects/postgres.js";
import { Setup } from "./setup.js";
import { postgresTransactions } from "./transactions.js";
import { audit, install, uninstall } from "./unskippable.js";
import { checkInside, refusalIn, runnerOf, type CallersTransaction } from "./within.js";

/** Options of a Postgres fence. */
export interface PostgresFenceOptions<S extends OnStale = "reject"> extends FenceOptions<S> {
  /** Schema for the fence's tables; made when missing. Default `tenure`. */
  readonly schema?: string;
  /**
   * Whether missing tables are made at the first use. Default true. With false they must be there,
   * made from what `fenceSchemaSql` answers.
   */
  readonly migrate?: boolean;
  /** Schema of the tables that leases are in, for the held check. Default `tenure`. */
  readonly leaseSchema?: string;
  /**
   * Longest time of one transaction, where the lease does not leave less. It bounds how long a
   * frozen holder blocks its successor. Default 30 s.
   */
  readonly transactionMs?: number | string;
}

/** A handle of a Postgres fence. */
export type PostgresHandle<S extends OnStale = "reject"> = ArmedHandle<SqlTx, SqlTx, S>;

/** A fence over the rows of one Postgres database. Work may be asynchronous. */
export interface PostgresFence<S extends OnStale = "reject">
  extends Fence<SqlTx, SqlTx, S> {
  /**
   * Checks the mark for a handle inside a transaction that the caller has begun, and proves the
   * transaction to fenced tables: from here to its end it may write. To be called first, at READ
   * COMMITTED or with nothing read before. The mark stays locked until the caller's COMMIT or
   * ROLLBACK, and the server ends the session if it stands idle for longer than the lease has left.
   * A refusal ends the transaction: nothing of it can be committed.
   *
   * Not promised: that the caller's transaction ends before the lease does.
   *
   * @throws What a write of the handle throws; `onStale` does not apply.
   * @throws TypeError for a pool, for a handle of another fence, and outside a transaction.
   */
  within(transaction: CallersTransaction, handle: PostgresHandle<S>): Promise<void>;
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
   * Puts a table under the fence: from here on every insert, update, delete and truncate, from
   * whatever program, needs a transaction that has shown the armed token of that row's resource, or
   * is refused with SQLSTATE `TN010`. Calling it again brings the triggers up to date.
   *
   * @throws TypeError for a table or column that is not there or cannot be covered.
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

const DEFAULT_SCHEMA = "tenure";
const DEFAULT_TRANSACTION_MS = 30_000;
const BACKEND = "postgres";

/** @throws TypeError or RangeError for wrong options. */
export function createPostgresFence<S extends OnStale = "reject">(
  parts: PostgresParts,
  options: PostgresFenceOptions<S> = {},
): PostgresFence<S> {
  const schema = checkSchema(options.schema ?? DEFAULT_SCHEMA, "schema");
  const leaseSchema = checkSchema(options.leaseSchema ?? DEFAULT_SCHEMA, "leaseSchema");
  const { migrate = true } = options;
  if (typeof migrate !== "boolean") {
    throw new ArgumentTypeError("migrate", migrate, "true or false");
  }
  const ms = parseDuration(options.transactionMs ?? DEFAULT_TRANSACTION_MS, "transactionMs");
  const transactions = postgresTransactions(parts, ms);
  const marks = new Marks(schema);
  const setup = new Setup(transactions, parts.faults, { schema, migrate });
  const guarding = { marks, schema };
  const unsettled = new Set<string>();
  const store = sqlStore({ kind: BACKEND, transactions, marks, setup, unsettled });
  const shared = createFence<SqlTx, SqlTx, S>(store, parts.runtime, options);
  const armers = new WeakMap<object, Armer>();

  /** A step of the fence's own, outside the protocol of the marks. */
  async function run<R>(
    mode: "write" | "read",
    during: string,
    step: (transaction: SqlTransaction) => Promise<R>,
  ): Promise<R> {
    await setup.ready();
    return await transactions.run(mode, during, UNBOUND, (transaction) =>
      transactions.own(during, () => step(transaction)),
    );
  }

  const fence: PostgresFence<S> = {
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

    within: async (transaction, handle) => {
      const runSql = runnerOf(transaction);
      const armer = armers.get(handle);
      if (armer === undefined) throw new ArgumentTypeError("handle", handle, "armed by this fence");
      const during = "write within a transaction";
      const idleMs = transactions.timeFor(during, armer);
      const { resource, token, holder, arm } = handle;
      await checkInside(runSql, transaction);
      unsettled.add(resource);
      try {
        await runSql(
          `SELECT ${marks.schema}.fence_write(
            $1::text, $2::bigint, $3::text, $4::bigint, $5::bigint)`,
          [resource, String(token), holder, String(arm), String(idleMs)],
        );
      } catch (error) {
        const refusal = refusalIn(error, handle);
        if (refusal === undefined || refusal.verdict.accepted) throw error;
        const at = { store, runtime: parts.runtime, onStale: "reject" } as const;
        throw refuse(at, refusal.request, refusal.verdict);
      }
      throwIfAborted(armer);
    },

    held: async <R>(bearer: TokenBearer, work: (tx: SqlTx) => R): Promise<Awaited<R>> => {
      const armer = checkBearer(bearer);
      const { scope: { name, storeId }, holder, token } = armer;
      const during = "write while held";
      return await transactions.run("write", during, armer, async (transaction) => {
        const { rows } = await transactions.own(during, () =>
          transaction.query(parts.heldCheck(leaseSchema), [name, holder, String(token)]),
        );
        if (rows.length > 0) return await runWork<Awaited<R>>(transaction, awaiting(work), BACKEND);
        const looked = {
          place: `the schema ${JSON.stringify(leaseSchema)}`,
          storeIdSql: parts.storeIdSql(leaseSchema),
        };
        const about = { backend: BACKEND, lock: name, token, storeId, ...looked } as const;
        throw await notHeld(transaction, about);
      });
    },

    install: async (what) => {
      checkInstall(what);
      await run("write", "install the fence", (transaction) =>
        install(transaction, guarding, what),
      );
    },
    uninstall: async (what) => {
      checkName(what.table, "table");
      await run("write", "uninstall the fence", (transaction) =>
        uninstall(transaction, guarding, what),
      );
    },
    audit: () => run("read", "audit the fence", (transaction) => audit(transaction, guarding)),
    bypass: async <R>(reason: string, work: (tx: SqlTx) => R): Promise<Awaited<R>> => {
      checkName(reason, "reason");
      await setup.ready();
      const during = "bypass the fence";
      const result = await transactions.run("write", during, UNBOUND, async (transaction) => {
        await transactions.own(during, () =>
          transaction.query(`SELECT ${marks.schema}.fence_bypass($1)`, [reason]),
        );
        return await runWork<Awaited<R>>(transaction, awaiting(work), BACKEND);
      });
      parts.runtime.events.publish({ type: "bypassed", name: "", backend: BACKEND, reason });
      return result;
    },
  };
  return fence;
}
