/**
 * Leases as session locks of Postgres (advisory locks), for those who want these.
 *
 * - Atomicity: the server's lock table; one function call takes the lock, counts and notes.
 * - Token: counters in the same database, raised while the lock is held.
 * - Expiry: the session's: the server ends one that was silent for a TTL, and frees its locks.
 * - Waiting: polling. Not fair.
 * - Failover: locks are not replicated: after one all are free, whoever still runs. Tokens go on as
 *   far as their counters were replicated, and above the new server's clock.
 *
 * One connection per TTL that a process uses, and one to look: no pool, no pooler.
 */
import type { Backend, Call } from "../../core/backend.js";
import { GuaranteeError, UnavailableError } from "../../core/errors.js";
import { quoteIdentifier, revisionSql } from "../../dialects/postgres.js";
import type { Manifest } from "../../core/manifest.js";
import type { FencingToken } from "../../core/token.js";
import type { Connection, StorePlan } from "./client.js";
import { Locks } from "./locks.js";
import { checkSettings, type PostgresAdvisoryBackendOptions } from "./options.js";
import { FUNCTIONS_REVISION, revisionAnchor, SCHEMA_VERSION, schemaSql } from "./schema.js";
import { checkDirect, Sessions } from "./sessions.js";
import { statementsFor } from "./statements.js";

/** Longest time-out of a session that the server takes. */
const LONGEST_MS = 2 ** 31 - 1;
/** First version with `idle_session_timeout`. */
const OLDEST_SERVER = 140_000;

const manifest: Manifest<FencingToken> = {
  backend: "postgres-advisory",
  tokens: "durable",
  expiryClock: "session",
  deadline: "hint",
  waiting: "poll",
  fair: false,
  heldCheck: false,
  minTtlMs: 100,
  maxTtlMs: LONGEST_MS,
  ttlScope: "session",
  renewBatch: 1_000,
};

function planFor(schema: string, migrate: boolean): StorePlan {
  return {
    backend: manifest.backend,
    schema,
    storeTable: `${quoteIdentifier(schema)}.advisory_store`,
    version: SCHEMA_VERSION,
    script: schemaSql({ schema }),
    functions: { revision: FUNCTIONS_REVISION, foundSql: revisionSql(revisionAnchor(schema)) },
    migrate,
    oldestServer: OLDEST_SERVER,
  };
}

/**
 * A backend on session locks.
 *
 * @throws TypeError or RangeError for wrong options.
 */
export function postgresAdvisoryBackend(options: PostgresAdvisoryBackendOptions): Backend {
  const schema = checkSettings(options);
  const { connect, faults, migrate = true } = options;
  const sessions = new Sessions(connect);
  let control: Connection | undefined;
  let found: { readonly storeId: string; readonly isDurable: boolean } | undefined;
  let isClosed = false;

  const checkOpen = (): void => {
    if (found !== undefined && !isClosed) return;
    const what = isClosed ? "closed" : "not open yet";
    throw new UnavailableError(`the postgres-advisory backend is ${what}`, {
      backend: manifest.backend,
      retryable: false,
    });
  };
  const explain = (error: unknown, during: string): Error =>
    error instanceof GuaranteeError
      ? error
      : faults.explain(error, { during, backend: manifest.backend });
  const ready = async (): Promise<Connection> => {
    checkOpen();
    if (control?.isOpen !== true) control = await connect();
    return control;
  };
  const locks = new Locks({
    sessions,
    control: ready,
    statements: statementsFor(schema),
    faults,
  });

  const open = async (call: Call): Promise<void> => {
    const connection = await connect(call.timeoutMs);
    const giveUp = (): void => connection.destroy();
    call.signal.addEventListener("abort", giveUp, { once: true });
    try {
      call.signal.throwIfAborted();
      const [row] = (await connection.query("SELECT pg_backend_pid() AS pid")).rows;
      checkDirect(connection, Number(row!["pid"]));
      found = await options.prepare(connection, planFor(schema, migrate));
      control = connection;
    } catch (error) {
      connection.destroy();
      throw explain(error, "open the store");
    } finally {
      call.signal.removeEventListener("abort", giveUp);
    }
  };

  return {
    get manifest(): Manifest<FencingToken> {
      return found?.isDurable === false ? { ...manifest, tokens: "until-failover" } : manifest;
    },
    get storeId() {
      const storeId = options.storeId ?? found?.storeId;
      if (storeId === undefined) checkOpen();
      return storeId!;
    },
    async open(call) {
      if (isClosed) checkOpen();
      if (found === undefined) await open(call);
    },
    async acquire(request) {
      checkOpen();
      return locks.acquire(request);
    },
    async renew(grants) {
      checkOpen();
      return locks.renew(grants);
    },
    async release(requests) {
      checkOpen();
      return locks.release(requests);
    },
    break: async (name, token) => locks.break(name, token),
    inspect: async (name) => locks.inspect(name),
    list: (prefix, call) => locks.list(prefix, call),
    sessions: {
      async open(ttlMs, call) {
        checkOpen();
        locks.forgetEnded();
        const { id } = await sessions.open(ttlMs, call).catch((error: unknown) => {
          throw explain(error, "open a session");
        });
        return { id, ttlMs };
      },
      async keepAlive(id) {
        checkOpen();
        return sessions.ping(id).catch((error: unknown) => {
          throw explain(error, "keep a session");
        });
      },
      close: (id) => sessions.close(id),
    },
    waiting: { kind: "poll" },
    async close() {
      if (isClosed) return;
      isClosed = true;
      await sessions.closeAll();
      await control?.close();
    },
  };
}
