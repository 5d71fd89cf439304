/**
 * Leases as rows of a Postgres table, beside the data that they guard.
 *
 * - Atomicity: one statement per operation, by itself a transaction; a grant is one function call.
 * - Token: counters in the same database, raised and locked until the grant commits; `schema.ts`.
 * - Expiry: the server's clock, read inside the statement and after its waits.
 * - Waiting: notices (`LISTEN`) where somebody waits; behind a pooler, polling. Not fair.
 * - Failover: to a standby that lacks the last commits loses their grants. Tokens go on above them
 *   if its clock is not behind; a lease that was lost can be granted while its holder still runs.
 */
import type { Backend, Call, Grant, NotifyWaiting, PollWaiting } from "../../core/backend.js";
import { UnavailableError } from "../../core/errors.js";
import type { Manifest } from "../../core/manifest.js";
import type { FencingToken } from "../../core/token.js";
import { quoteIdentifier, revisionSql } from "../../dialects/postgres.js";
import { Asking } from "../sql-asking.js";
import type { Value } from "../sql-client.js";
import { Doubts } from "../sql-doubts.js";
import { Lane } from "../sql-lane.js";
import { leaseOperations, SQL_MANIFEST } from "../sql-leases.js";
import type { Renewals, StorePlan } from "./client.js";
import { Leases } from "./leases.js";
import { Notices } from "./notices.js";
import { checkSettings, type PostgresBackendOptions } from "./options.js";
import { FUNCTIONS_REVISION, revisionAnchor, SCHEMA_VERSION, schemaSql } from "./schema.js";
import { statementsFor } from "./statements.js";

/** A held check: a query to run in a transaction of the same database. */
export interface PostgresProof {
  /** Schema of the tables. */
  readonly schema: string;
  /**
   * Answers one row while the store still has this grant, and keeps it so until the transaction
   * ends: nobody can take over, release or break the lease meanwhile. It holds up no renewal.
   */
  readonly sql: string;
  readonly values: readonly Value[];
}

/** A backend on Postgres, with its proof typed. */
export interface PostgresBackend extends Backend {
  /**
   * Not tested: whether the time is over. An expired grant passes as long as nobody else was
   * granted the name, which is what a write in the same database needs.
   */
  proof(grant: Grant): PostgresProof;
}

const manifest: Manifest<FencingToken> = {
  ...SQL_MANIFEST,
  backend: "postgres",
  waiting: "notify",
};

/** First version with `gen_random_uuid()`. */
const OLDEST_SERVER = 130_000;

function planFor(schema: string, migrate: boolean): StorePlan {
  return {
    backend: manifest.backend,
    schema,
    storeTable: `${quoteIdentifier(schema)}.store`,
    version: SCHEMA_VERSION,
    script: schemaSql({ schema }),
    functions: { revision: FUNCTIONS_REVISION, foundSql: revisionSql(revisionAnchor(schema)) },
    migrate,
    oldestServer: OLDEST_SERVER,
  };
}

/** What is there once the backend is open. */
interface Opened {
  readonly storeId: string;
  readonly rows: Leases;
  readonly doubts: Doubts;
  readonly notices: Notices;
  readonly isPooled: boolean;
  readonly isDurable: boolean;
}

/**
 * A backend on a Postgres database.
 *
 * Its manifest is weaker after `open` where the server is set to lose what it has answered
 * (`synchronous_commit` or `fsync` off: `until-failover`), or a pooler stands between (`poll`).
 *
 * @throws TypeError or RangeError for wrong options.
 */
export function postgresBackend(options: PostgresBackendOptions): PostgresBackend {
  const schema = checkSettings(options);
  const { database, faults, runtime, migrate = true } = options;
  const statements = statementsFor(schema);
  const renewals: Renewals = new Lane((waitingMs) => database.connect(waitingMs));
  let state: Opened | undefined;
  let isClosed = false;

  const opened = (): Opened => {
    if (state !== undefined && !isClosed) return state;
    throw new UnavailableError(`the postgres backend is ${isClosed ? "closed" : "not open yet"}`, {
      backend: "postgres",
      retryable: false,
    });
  };

  const open = async (call: Call): Promise<Opened> => {
    const { storeId, isDurable, isPooled, hasTimeline, outdated } = await renewals
      .use(call, (connection) => options.prepare(connection, planFor(schema, migrate)))
      .catch((error: unknown) => {
        // A caller who has only the error could not close it, and it would keep the process.
        renewals.drop();
        throw faults.explain(error, { during: "open the store", backend: "postgres" });
      });
    if (outdated !== undefined) {
      const about = { name: "postgres", backend: "postgres" };
      runtime.events?.publish({ type: "warning", ...about, message: outdated });
    }
    const notices = new Notices(() => database.connect(), `tenure_${storeId}`, runtime);
    const asking = new Asking<Value>({
      backend: "postgres",
      run: (text, values, limits) =>
        database.run(text, values, { ...limits, isPrepared: !isPooled }),
      faults,
      clock: runtime.clock,
      timers: runtime.timers,
    });
    const rows = new Leases({ asking, renewals, statements, faults, hasTimeline, notices });
    const doubts = new Doubts(runtime.clock);
    return { storeId: options.storeId ?? storeId, rows, doubts, notices, isPooled, isDurable };
  };

  const poll: PollWaiting = { kind: "poll" };
  const notify: NotifyWaiting = {
    kind: "notify",
    async subscribe(name, wake, call) {
      const { notices, rows } = opened();
      const subscription = await notices.subscribe(name, wake).catch((error: unknown) => {
        throw faults.explain(error, { during: "listen for releases", backend: "postgres" });
      });
      try {
        await rows.want(name, call);
        return subscription;
      } catch (error) {
        await subscription[Symbol.asyncDispose]();
        throw error;
      }
    },
  };

  return {
    get manifest(): Manifest<FencingToken> {
      if (state === undefined) return manifest;
      return {
        ...manifest,
        tokens: state.isDurable ? "durable" : "until-failover",
        waiting: state.isPooled ? "poll" : "notify",
      };
    },
    get storeId() {
      return options.storeId ?? state?.storeId ?? opened().storeId;
    },
    async open(call) {
      if (isClosed) opened();
      state ??= await open(call);
    },
    ...leaseOperations(opened),
    get waiting() {
      return state?.isPooled === true ? poll : notify;
    },
    proof: ({ name, holder, token }) => ({
      schema,
      sql: statements.heldCheck,
      values: [name, holder, String(token)],
    }),
    async close() {
      if (isClosed) return;
      isClosed = true;
      await state?.notices.close();
      await renewals.close();
      await database.close();
    },
  };
}
