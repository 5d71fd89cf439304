/**
 * The stores that a suite of a pattern runs over, with real servers:
 *
 *     onStores("claims", (store) => {
 *       it("…", async () => {
 *         const spot = await store.fresh();      // a file, or a schema, of this test alone
 *         const c = await spot.open(claims);     // closed when the test ends
 *         await spot.begin((tx) => …);           // a transaction of the caller's own client
 *       });
 *     });
 */
import { rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createPool, type Pool as MysqlPool } from "mysql2/promise";
import { Pool } from "pg";
import postgres from "postgres";
import { afterAll, beforeAll, describe, it, onTestFinished } from "vitest";
import type { Dialect } from "../../src/sql/statement.js";
import { describeOn } from "../servers/find.js";
import { mariadbProgram, startMariadb, type MariadbServer } from "../servers/mariadb.js";
import { postgresProgram, startPostgres, type PostgresServer } from "../servers/postgres.js";
import { RACE_TIMEOUT_MS } from "./race-size.js";
import { openCallersSqlite, rowsOf, type CallersDatabase } from "./sqlite-client.js";

/** What a child process opens a store with; see `children.ts`. */
export interface ChildTarget {
  readonly url: string;
  readonly options: { readonly schema?: string };
}

/** A place of one test in a store. */
export interface Spot {
  readonly dialect: Dialect;
  /** For factories: a URL, or a client where the store's library needs one. */
  readonly target: any;
  readonly options: { readonly schema?: string };
  readonly forChildren: ChildTarget;
  /** Opens a pattern here, and closes it when the test ends. */
  open<P extends { close(): Promise<void> }, O extends object>(
    factory: (target: any, options?: any) => Promise<P>,
    options?: O,
  ): Promise<P>;
  /** Runs work in a transaction of the caller's own client; rolls back when it throws. */
  begin<R>(work: (tx: any) => R | Promise<R>): Promise<R>;
  /** A transaction of the caller's own that stays open; rolled back at the latest with the test. */
  openTransaction(): Promise<OpenTransaction>;
  /** A further connection of the caller's own to a SQLite file. */
  readonly connect?: () => CallersDatabase;
  /** Statements of the caller's own client, outside any transaction; `?` are placeholders. */
  query(text: string, values?: readonly unknown[]): Promise<Record<string, any>[]>;
}

/** A transaction that somebody keeps open. */
export interface OpenTransaction {
  readonly tx: any;
  query(text: string, values?: readonly unknown[]): Promise<Record<string, any>[]>;
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

/** One kind of store, with one client library. */
export interface Store {
  readonly name: "sqlite" | "pg" | "postgres" | "mysql";
  readonly dialect: Dialect;
  fresh(): Promise<Spot>;
  /** A URL that another user has; servers only. */
  server(): PostgresServer | MariadbServer;
}

type Library = Omit<Store, "fresh" | "server">;

const SQLITE: Library = { name: "sqlite", dialect: "sqlite" };
const SERVERS = {
  postgres: [
    { name: "pg", dialect: "postgres" },
    { name: "postgres", dialect: "postgres" },
  ],
  mysql: [{ name: "mysql", dialect: "mysql" }],
} as const satisfies Record<string, readonly Library[]>;

let count = 0;
const freshName = (): string => `p_${process.pid}_${++count}`;

/** The stores of a run that tries out no others, such as that of another Node. */
const LIMITED = process.env["TENURE_TEST_STORES"]?.split(",");

/**
 * Defines a race of many processes, once for each server: who wins is decided there, whatever
 * library carries the statements. Not in a limited run.
 */
export function itRaces(store: Store, title: string, run: () => Promise<void>): void {
  if (store.name !== "postgres" && LIMITED === undefined) it(title, run, RACE_TIMEOUT_MS);
}

/** Defines a suite for every store, or for those named. */
export function onStores(
  title: string,
  define: (store: Store) => void,
  named: readonly Store["name"][] = ["sqlite", "pg", "postgres", "mysql"],
): void {
  const only = named.filter((name) => LIMITED?.includes(name) ?? true);
  if (only.includes("sqlite")) {
    describe(`${title} on sqlite`, () => {
      define({ ...SQLITE, fresh: freshFile, server: () => fail("SQLite has no server") });
    });
  }
  const pgs = SERVERS.postgres.filter(({ name }) => only.includes(name));
  if (pgs.length > 0) {
    const start = (): Promise<PostgresServer> => startPostgres({ max_connections: 200 });
    onServer(`${title} on PostgreSQL`, postgresProgram, start, pgs, freshPostgres, define);
  }
  const mysqls = SERVERS.mysql.filter(({ name }) => only.includes(name));
  if (mysqls.length > 0) {
    const start = (): Promise<MariadbServer> => startMariadb({ "max-connections": 200 });
    onServer(`${title} on MariaDB`, mariadbProgram, start, mysqls, freshMysql, define);
  }
}

function onServer<S extends PostgresServer | MariadbServer>(
  title: string,
  program: typeof postgresProgram,
  start: () => Promise<S>,
  libraries: readonly Library[],
  fresh: (server: S, library: Library) => Promise<Spot>,
  define: (store: Store) => void,
): void {
  describeOn(program, title, () => {
    let server: S;
    beforeAll(async () => {
      server = await start();
    });
    afterAll(async () => {
      await server?.dispose();
    });
    for (const library of libraries) {
      const store: Store = {
        ...library,
        fresh: () => fresh(server, library),
        server: () => server,
      };
      if (libraries.length === 1) define(store);
      else describe(`with ${library.name}`, () => define(store));
    }
  });
}

/** Opens and closes; shared by all spots. */
function opener(target: unknown, options: object): Spot["open"] {
  return async (factory, more) => {
    const pattern = await factory(target, { ...options, ...more });
    onTestFinished(() => pattern.close());
    return pattern;
  };
}

async function freshFile(): Promise<Spot> {
  const folder = await mkdtemp(path.join(tmpdir(), "tenure-patterns-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const url = `sqlite:${path.join(folder, "store.db")}`;
  const connect = (): CallersDatabase => {
    const db = openCallersSqlite(path.join(folder, "store.db"));
    onTestFinished(() => db.close());
    return db;
  };
  let client: CallersDatabase | undefined;
  return {
    dialect: "sqlite",
    target: url,
    options: {},
    forChildren: { url, options: {} },
    connect,
    open: opener(url, {}),
    begin: async (work) => {
      client ??= connect();
      client.exec("BEGIN IMMEDIATE");
      try {
        const result = work(client);
        if (result instanceof Promise) throw new Error("the work on SQLite is synchronous");
        client.exec("COMMIT");
        return result;
      } catch (error) {
        client.exec("ROLLBACK");
        throw error;
      }
    },
    openTransaction: async () => {
      const db = connect();
      db.exec("BEGIN IMMEDIATE");
      return {
        tx: db,
        query: async (text, values) => rowsOf(db, text, values),
        commit: async () => void db.exec("COMMIT"),
        rollback: async () => void db.exec("ROLLBACK"),
      };
    },
    query: async (text, values) => rowsOf((client ??= connect()), text, values),
  };
}

/** `?` as `$1`, `$2`. */
function numbered(text: string): string {
  let n = 0;
  return text.replaceAll("?", () => `$${++n}`);
}

async function freshPostgres(server: PostgresServer, { name }: Library): Promise<Spot> {
  const options = { schema: freshName() };
  const pool = new Pool({ connectionString: server.url, max: 5 });
  pool.on("error", () => undefined);
  onTestFinished(() => pool.end());
  // Tables that a test makes lie beside those of the pattern.
  await pool.query(`CREATE SCHEMA ${options.schema}`);
  const url = `${server.url}?options=-csearch_path%3D${options.schema}`;
  const settings = { max: 5, onnotice: () => undefined };
  const connection = { search_path: options.schema };
  const sql = name === "postgres" ? postgres(server.url, { ...settings, connection }) : undefined;
  if (sql !== undefined) onTestFinished(() => sql.end({ timeout: 1 }));
  const local = new Pool({ connectionString: url, max: 5 });
  local.on("error", () => undefined);
  onTestFinished(() => local.end());
  const target = sql ?? url;
  return {
    dialect: "postgres",
    target,
    options,
    forChildren: { url, options },
    open: opener(target, options),
    begin: async (work) => {
      if (sql !== undefined) return await sql.begin<any>((tx) => work(tx));
      const client = await local.connect();
      try {
        await client.query("BEGIN");
        const result = await work(client);
        await client.query("COMMIT");
        return result;
      } catch (error) {
        await client.query("ROLLBACK");
        throw error;
      } finally {
        client.release();
      }
    },
    openTransaction: async () => {
      const client = await local.connect();
      let isOpen = true;
      const end = (text: string) => async (): Promise<void> => {
        if (!isOpen) return;
        isOpen = false;
        await client.query(text);
        client.release();
      };
      onTestFinished(end("ROLLBACK"));
      await client.query("BEGIN");
      return {
        tx: client,
        query: async (text, values = []) => (await client.query(numbered(text), [...values])).rows,
        commit: end("COMMIT"),
        rollback: end("ROLLBACK"),
      };
    },
    query: async (text, values = []) => (await local.query(numbered(text), [...values])).rows,
  };
}

async function freshMysql(server: MariadbServer): Promise<Spot> {
  const schema = freshName();
  await server.query(`CREATE SCHEMA ${schema}`);
  const url = server.url.replace(/\/test$/, `/${schema}`);
  const pool: MysqlPool = createPool({ uri: url, connectionLimit: 5 });
  onTestFinished(() => pool.end());
  const rows = async (
    on: Pick<MysqlPool, "query">,
    text: string,
    values: readonly unknown[] = [],
  ): Promise<Record<string, any>[]> => {
    const [answer] = await on.query(text, [...values]);
    return (Array.isArray(answer) ? answer : []) as Record<string, any>[];
  };
  return {
    dialect: "mysql",
    target: url,
    options: {},
    forChildren: { url, options: {} },
    open: opener(url, {}),
    begin: async (work) => {
      const client = await pool.getConnection();
      try {
        await client.beginTransaction();
        const result = await work(client);
        await client.commit();
        return result;
      } catch (error) {
        await client.rollback();
        throw error;
      } finally {
        client.release();
      }
    },
    openTransaction: async () => {
      const client = await pool.getConnection();
      let isOpen = true;
      const end = (how: "commit" | "rollback") => async (): Promise<void> => {
        if (!isOpen) return;
        isOpen = false;
        await client[how]();
        client.release();
      };
      onTestFinished(end("rollback"));
      await client.beginTransaction();
      return {
        tx: client,
        query: (text, values) => rows(client, text, values),
        commit: end("commit"),
        rollback: end("rollback"),
      };
    },
    query: (text, values) => rows(pool, text, values),
  };
}

function fail(why: string): never {
  throw new Error(why);
}
