/** Databases by URL or beside a caller's client. The only file that loads a client library. */
import { ArgumentTypeError } from "../../core/errors.js";
import type { Pool } from "pg";
import { knownPostgres, type KnownPostgres, type PgClient, type PostgresClient } from "./client.js";
import type { PostgresConnection } from "./connection.js";
import { poolDatabase, type PostgresDatabase, type PostgresOpening } from "./database.js";
import { explainPostgres } from "./errors.js";
import { connectPg, endPg, settingsOfClient, settingsOfPool } from "./pg.js";
import { connectSql } from "./sql.js";
import { connectWithin, type ConnectWithin } from "../connecting.js";
import { MissingLibraryError } from "../missing-library.js";

/** Which client library. */
export type PostgresLibrary = "pg" | "postgres";

/** How to open a database by URL. */
export interface OpenPostgresOptions {
  /** Default: the first of `pg` and `postgres` that is installed. */
  readonly library?: PostgresLibrary;
  /** Most connections of the pool. Default 10. */
  readonly maxConnections?: number;
  /** How long callers wait, milliseconds, where that is known: see `connectWithin`. */
  readonly waitingMs?: number;
}

const LIBRARIES: readonly PostgresLibrary[] = ["pg", "postgres"];
const INSTALL_LINE = "npm install pg";
const IDLE_MS = 10_000;

/**
 * A database with a pool of our own, at a URL: `postgres://` or `postgresql://`.
 *
 * @throws TypeError for another URL; it may carry a password, so only its scheme is repeated.
 * @throws UnavailableError when no client library is installed.
 */
export async function openPostgres(
  url: string,
  options: OpenPostgresOptions = {},
): Promise<PostgresDatabase> {
  checkUrl(url);
  const max = options.maxConnections ?? 10;
  const wanted = options.library === undefined ? LIBRARIES : [options.library];
  for (const library of wanted) {
    const open = library === "pg" ? await loadPg() : await loadSql();
    if (open !== undefined) return madeWhenUsed(open(url, max), options.waitingMs);
  }
  const what = "a Postgres URL needs a client library";
  throw new MissingLibraryError(what, INSTALL_LINE, { backend: "postgres" });
}

/**
 * A database over a caller's pool. It stays the caller's; connections of our own are made beside it
 * with its settings.
 *
 * @throws TypeError for anything but a pool of `pg` or an instance of `postgres`.
 */
export function adoptPostgres(pool: PostgresClient, option = "pool"): PostgresDatabase {
  const known = knownPostgres(pool, option);
  if (known.kind === "pg-client") {
    throw new ArgumentTypeError(option, pool, "a pool, not a single client");
  }
  return poolDatabase(pool, { connect: besides(known), close: async () => undefined }, option);
}

/**
 * Makes connections of our own to where a single client is connected.
 *
 * @throws TypeError for a pool: its statements go to whichever connection is free.
 */
export function besidePostgres(
  client: PostgresClient,
  option = "client",
): Connect {
  const known = knownPostgres(client, option);
  const { max } = (known.client as { options?: { max?: number } }).options ?? {};
  if (known.kind === "pg-pool" || (known.kind === "postgres" && max !== 1)) {
    throw new ArgumentTypeError(
      option,
      client,
      "a single connection (a Client of pg, or postgres with max: 1): " +
        "a pool runs each statement in whichever session is free",
    );
  }
  return besides(known);
}

/** Makes connections of our own, by URL. @throws as {@link openPostgres}. */
export async function connectorFor(
  url: string,
  options: OpenPostgresOptions = {},
): Promise<Connect> {
  // Its pool opens nothing before it is used.
  const { connect } = await openPostgres(url, options);
  return connect;
}

/** @throws TypeError that does not repeat the URL. */
function checkUrl(url: unknown): void {
  const must = "a URL such as postgres://user:password@host:5432/database";
  let parsed: URL;
  try {
    parsed = new URL(String(url));
  } catch {
    throw new ArgumentTypeError("url", "postgres:…", must);
  }
  if (!/^postgres(ql)?:$/.test(parsed.protocol)) {
    throw new ArgumentTypeError("url", `${parsed.protocol}…`, must);
  }
}

type Connect = (waitingMs?: number) => Promise<PostgresConnection>;

/** How a library opens what is at a URL. Connections take no longer than they are told. */
interface Opened {
  readonly connect: (withinMs: number) => Promise<PostgresConnection>;
  readonly pool: (opening: Pick<PostgresOpening, "connect">, withinMs: number) => PostgresDatabase;
}
type Open = (url: string, max: number) => Opened;

/**
 * A database whose pool is made when it is first used: by then it is known how long callers wait
 * for a connection.
 */
function madeWhenUsed(opened: Opened, waitingMs?: number): PostgresDatabase {
  const connect = explained(opened.connect);
  connect.within(waitingMs);
  let made: PostgresDatabase | undefined;
  const pool = (): PostgresDatabase => (made ??= opened.pool({ connect }, connect.within()));
  return {
    run: (text, values, running) => pool().run(text, values, running),
    onSession: (work, limits) => pool().onSession(work, limits),
    begin: (work, beginning) => pool().begin(work, beginning),
    connect,
    // Made, if it was not: one that is used after its end has to refuse.
    close: () => pool().close(),
  };
}

function besides(known: KnownPostgres): Connect {
  switch (known.kind) {
    case "pg-pool": {
      const [make, settings] = settingsOfPool(known.client);
      return explained((withinMs) => connectPg(make, settings, withinMs));
    }
    case "pg-client": {
      const [make, settings] = settingsOfClient(known.client);
      return explained((withinMs) => connectPg(make, settings, withinMs));
    }
    case "postgres":
      return explained(async (withinMs) => {
        const loaded = await import("postgres").catch(unlessMissing);
        if (loaded === undefined) throw new Error("the library of this client cannot be found");
        const make = loaded.default as (settings: object) => unknown;
        return connectSql(make, known.client.options, withinMs);
      });
  }
}

async function loadPg(): Promise<Open | undefined> {
  const pg = await import("pg").catch(unlessMissing);
  if (pg === undefined) return undefined;
  const { Client, Pool } = pg.default;
  const make = Client as unknown as new (settings: object) => PgClient;
  return (url, max) => {
    const settings = { connectionString: url, keepAlive: true };
    return {
      connect: (withinMs) => connectPg(make as never, settings, withinMs),
      pool(opening, withinMs) {
        const pool = new Pool({
          ...settings,
          max,
          connectionTimeoutMillis: withinMs,
          idleTimeoutMillis: IDLE_MS,
          // An idle connection is no reason for a process to go on.
          allowExitOnIdle: true,
        });
        return poolDatabase(pool, { ...opening, close: closing(pool) });
      },
    };
  };
}

/** Ends a pool of our own when what is under way in it has ended. */
function closing(pool: Pool): () => Promise<void> {
  // An idle connection that breaks is replaced when one is needed.
  pool.on("error", () => undefined);
  const clients = new Set<object>();
  pool.on("connect", (client) => void clients.add(client));
  pool.on("remove", (client) => void clients.delete(client));
  /** Those at work: whose time is limited, and who give them back. */
  const busy = new Set<object>();
  let whenIdle = (): void => undefined;
  pool.on("acquire", (client) => void busy.add(client));
  pool.on("release", (_error, client) => {
    busy.delete(client);
    if (busy.size === 0) whenIdle();
  });
  return async () => {
    const ending = pool.end();
    if (busy.size > 0) await new Promise<void>((idle) => (whenIdle = idle));
    await endPg(ending, [...clients]);
  };
}

async function loadSql(): Promise<Open | undefined> {
  const loaded = await import("postgres").catch(unlessMissing);
  if (loaded === undefined) return undefined;
  const postgres = loaded.default;
  return (url, max) => {
    const make = (own: object): unknown => postgres(url, own);
    return {
      connect: (withinMs) => connectSql(make, {}, withinMs),
      pool(opening, withinMs) {
        const sql = postgres(url, {
          max,
          max_lifetime: null,
          idle_timeout: IDLE_MS / 1_000,
          connect_timeout: Math.ceil(withinMs / 1_000),
          onnotice: () => undefined,
        });
        return poolDatabase(sql, { ...opening, close: () => sql.end({ timeout: 1 }) });
      },
    };
  };
}

/**
 * For `import("…").catch(unlessMissing)`, the form that bundlers read as an import that may fail:
 * undefined where the library is not installed.
 */
function unlessMissing(error: unknown): undefined {
  if ((error as NodeJS.ErrnoException).code === "ERR_MODULE_NOT_FOUND") return undefined;
  throw error;
}

function explained(
  connect: (withinMs: number) => Promise<PostgresConnection>,
): Connect & { readonly within: ConnectWithin } {
  const within = connectWithin();
  const told: Connect = async (waitingMs) => {
    try {
      return await connect(within(waitingMs));
    } catch (error) {
      throw explainPostgres(error, { during: "connect", backend: "postgres", unsent: true });
    }
  };
  return Object.assign(told, { within });
}
