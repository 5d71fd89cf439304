/**
 * Leases as rows of a MySQL or MariaDB table, beside the data that they guard.
 *
 * - Atomicity: one procedure call per operation, with a transaction inside; see `schema.ts`.
 * - Token: counters in the same database, raised and locked until the grant commits.
 * - Expiry: the server's clock, in UTC, read after waits for locks.
 * - Waiting: by polling; the server has no notices. Not fair.
 * - Failover: to a replica that lacks the last commits loses their grants. Tokens go on above them
 *   if its clock is not behind; a lease that was lost can be granted while its holder still runs.
 */
import type { Backend, Call, Grant } from "../../core/backend.js";
import { ArgumentTypeError, UnavailableError } from "../../core/errors.js";
import type { Manifest } from "../../core/manifest.js";
import type { FencingToken } from "../../core/token.js";
import { toHex } from "../../dialects/mysql.js";
import { Asking } from "../sql-asking.js";
import { Doubts } from "../sql-doubts.js";
import { Lane } from "../sql-lane.js";
import { leaseOperations, SQL_MANIFEST } from "../sql-leases.js";
import type { Renewals, StorePlan, Value } from "./client.js";
import { Leases } from "./leases.js";
import { checkSettings, type MysqlBackendOptions } from "./options.js";
import { PROCEDURE_NAMES } from "./procedures.js";
import { SCHEMA_STATEMENTS, SCHEMA_VERSION } from "./schema.js";
import { statementsFor, type Statements } from "./statements.js";

/** A held check: a query to run in a transaction of the same server. */
export interface MysqlProof {
  /** Schema of the tables. */
  readonly schema: string;
  /**
   * Answers one row while the store still has this grant, and keeps it so until the transaction
   * ends: nobody can take over, release or break the lease meanwhile. It holds up no renewal.
   */
  readonly sql: string;
  readonly values: readonly Value[];
}

/** A backend on MySQL or MariaDB, with its proof typed. */
export interface MysqlBackend extends Backend {
  /**
   * Not tested: whether the time is over. An expired grant passes as long as nobody else was
   * granted the name, which is what a write in the same database needs.
   */
  proof(grant: Grant): MysqlProof;
}

const manifest: Manifest<FencingToken> = {
  ...SQL_MANIFEST,
  backend: "mysql",
  waiting: "poll",
};

const planFor = (schema: string | undefined, migrate: boolean): StorePlan => ({
  backend: manifest.backend,
  schema,
  storeTable: "tenure_store",
  version: SCHEMA_VERSION,
  procedures: PROCEDURE_NAMES,
  statements: SCHEMA_STATEMENTS,
  migrate,
});

/** What is there once the backend is open. */
interface Opened {
  readonly storeId: string;
  readonly schema: string;
  readonly statements: Statements;
  readonly rows: Leases;
  readonly doubts: Doubts;
  readonly isDurable: boolean;
}

/**
 * A backend on a MySQL or MariaDB database.
 *
 * Its manifest is weaker after `open`, and a `warning` event says so, where the server is set to
 * lose what it has answered (`innodb_flush_log_at_trx_commit`, `sync_binlog`): `until-failover`.
 *
 * @throws TypeError or RangeError for wrong options.
 */
export function mysqlBackend(options: MysqlBackendOptions): MysqlBackend {
  checkSettings(options);
  const { database, faults, prepare, runtime, schema: wanted, migrate = true } = options;
  const renewals: Renewals = new Lane((waitingMs) => database.connect(waitingMs));
  let state: Opened | undefined;
  let isClosed = false;

  const opened = (): Opened => {
    if (state !== undefined && !isClosed) return state;
    throw new UnavailableError(`the mysql backend is ${isClosed ? "closed" : "not open yet"}`, {
      backend: "mysql",
      retryable: false,
    });
  };

  const open = async (call: Call): Promise<Opened> => {
    const { storeId, schema, isDurable } = await renewals
      .use(call, (connection) => prepare(connection, planFor(wanted, migrate)))
      .catch((error: unknown) => {
        // A caller who has only the error could not close it, and it would keep the process.
        renewals.drop();
        if (error instanceof ArgumentTypeError) throw error;
        throw faults.explain(error, { during: "open the store", backend: "mysql" });
      });
    if (!isDurable) warn(runtime);
    const statements = statementsFor(schema);
    const { clock, timers } = runtime;
    const doubts = new Doubts(clock);
    const run = database.run.bind(database);
    const asking = new Asking<Value>({ backend: "mysql", run, faults, clock, timers });
    const rows = new Leases({ asking, renewals, statements, faults });
    return { storeId: options.storeId ?? storeId, schema, statements, rows, doubts, isDurable };
  };

  return {
    get manifest(): Manifest<FencingToken> {
      return state?.isDurable === false ? { ...manifest, tokens: "until-failover" } : manifest;
    },
    get storeId() {
      return options.storeId ?? opened().storeId;
    },
    async open(call) {
      if (isClosed) opened();
      state ??= await open(call);
    },
    ...leaseOperations(opened),
    waiting: { kind: "poll" },
    proof({ name, holder, token }) {
      const { schema, statements } = opened();
      const values = [toHex(name), toHex(holder), String(token)];
      return { schema, sql: statements.heldCheck, values };
    },
    async close() {
      if (isClosed) return;
      isClosed = true;
      await renewals.close();
      await database.close();
    },
  };
}

function warn({ events }: Pick<MysqlBackendOptions["runtime"], "events">): void {
  const message =
    "the server may lose what it has answered when its machine stops (see " +
    "innodb_flush_log_at_trx_commit and sync_binlog): a token may be handed out twice";
  events.publish({ type: "warning", name: "mysql", backend: "mysql", message });
}
