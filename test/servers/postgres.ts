import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync } from "node:fs";
import { chmod, chown, stat } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, type QueryResultRow } from "pg";
import { firstData } from "./first-data.js";
import { findBinary, mustFind, type Program } from "./find.js";
import { runAs, ServerProcess } from "./server.js";

const DEBIAN = "/usr/lib/postgresql";

/** Debian keeps the programs of each major version apart: the newest first. */
const folders: readonly string[] = existsSync(DEBIAN)
  ? readdirSync(DEBIAN)
      .sort((a, b) => Number(b) - Number(a))
      .map((version) => path.join(DEBIAN, version, "bin"))
  : [];

/** What tests on Postgres need. */
export const postgresProgram: Program = {
  name: "PostgreSQL",
  binary: "postgres",
  package: "postgresql",
  folders,
};

/** Settings of postgresql.conf, by name. */
export type PostgresConfig = Readonly<Record<string, string | number>>;

/** The server refuses to run as root, and Debian's package brings this user. */
const USER = "postgres";
const SETTLED_WITHIN_MS = 15_000;

const QUIET: PostgresConfig = {
  listen_addresses: "127.0.0.1",
  unix_socket_directories: "",
  max_connections: 60,
  shared_buffers: "16MB",
  fsync: "off",
  // In the server's own folder, so that nothing is left of one that was killed.
  dynamic_shared_memory_type: "mmap",
  // What is killed here must not wait for the next scheduled look.
  wal_receiver_status_interval: 1,
  wal_retrieve_retry_interval: "100ms",
  log_min_messages: "warning",
};

/** A PostgreSQL server with one database, `postgres`, whose superuser needs no password. */
export class PostgresServer extends ServerProcess {
  constructor(config: PostgresConfig = {}, prepare: (data: string) => Promise<void> = initialise) {
    const settings = { ...QUIET, ...config };
    super({
      ...postgresProgram,
      args: (port, folder) => [
        "-D",
        path.join(folder, "data"),
        "-p",
        String(port),
        ...Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]),
      ],
      url: urlOf,
      isReady: async (port) => (await ask(port, "SELECT 1 AS one")).length === 1,
      prepare: async (folder) => {
        await hand(folder);
        await prepare(path.join(folder, "data"));
      },
      user: USER,
      stopSignal: "SIGINT",
      quitSignal: "SIGQUIT",
    });
  }

  /** Runs one statement as the superuser, on a connection of its own. */
  query<R extends QueryResultRow>(text: string, values: readonly unknown[] = []): Promise<R[]> {
    return ask(this.port, text, values);
  }

  /** URL for another user. */
  urlFor(user: string, password = "secret"): string {
    return `postgres://${user}:${password}@127.0.0.1:${this.port}/postgres`;
  }

  /** Ends the sessions that a condition on `pg_stat_activity` picks; answers how many. */
  async terminate(condition: string): Promise<number> {
    const ended = await this.query(
      `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
       WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND (${condition})`,
    );
    return ended.length;
  }

  /** Makes a standby a primary, as a failover does. */
  async promote(): Promise<void> {
    await this.query("SELECT pg_promote(true, 15)");
  }

  /** Resolves once this standby has applied all that its primary has written. */
  async inStepWith(primary: PostgresServer): Promise<void> {
    const [row] = await primary.query<{ lsn: string }>("SELECT pg_current_wal_lsn() AS lsn");
    for (let waitedMs = 0; waitedMs < SETTLED_WITHIN_MS; waitedMs += 20) {
      const [seen] = await this.query<{ done: boolean }>(
        "SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn AS done",
        [row!.lsn],
      );
      if (seen?.done === true) return;
      await sleep(20);
    }
    throw new Error(`the standby on ${this.port} does not follow`);
  }
}

/** A started server. */
export async function startPostgres(config: PostgresConfig = {}): Promise<PostgresServer> {
  return started(new PostgresServer(config));
}

/**
 * A streaming standby of what listens on a port, asynchronous unless the primary is told otherwise.
 * The port may be a proxy's, to cut the link.
 */
export async function startStandby(
  primaryPort: number,
  config: PostgresConfig = {},
): Promise<PostgresServer> {
  const copy = async (data: string): Promise<void> => {
    const source = ["-d", urlOf(primaryPort), "-c", "fast", "--no-sync"];
    await run("pg_basebackup", ["-D", data, "-X", "stream", ...source]);
    await run("touch", [path.join(data, "standby.signal")]);
  };
  const settings = { primary_conninfo: urlOf(primaryPort), ...config };
  return started(new PostgresServer(settings, copy));
}

async function started(server: PostgresServer): Promise<PostgresServer> {
  try {
    await server.start();
    return server;
  } catch (error) {
    await server.dispose();
    throw error;
  }
}

async function initialise(data: string): Promise<void> {
  const program = mustFind({ ...postgresProgram, binary: "initdb", name: "initdb" });
  const access = ["-U", USER, "-A", "trust"];
  const settings = [...access, "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"];
  await firstData(data, program, settings, () => run("initdb", ["-D", data, ...settings]));
}

/** Gives a folder to the server's user. */
async function hand(folder: string): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const home = await stat("/var/lib/postgresql");
  await chown(folder, home.uid, home.gid);
  await chmod(folder, 0o700);
}

/** Runs a program of PostgreSQL as the server's user. */
async function run(binary: string, args: readonly string[]): Promise<void> {
  const found =
    binary === "touch" ? binary : mustFind({ ...postgresProgram, binary, name: binary });
  const asRoot = process.getuid?.() === 0;
  const [file, before] = asRoot ? [findBinary({ binary: "setpriv" })!, runAs(USER)] : [found, []];
  const child = spawn(file, [...before, ...(asRoot ? [found] : []), ...args], {
    cwd: "/",
    stdio: ["ignore", "ignore", "pipe"],
  });
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`${binary} ended with ${code}: ${errors}`);
}

function urlOf(port: number): string {
  return `postgres://${USER}@127.0.0.1:${port}/postgres`;
}

/** One statement on a connection of its own. */
export async function ask<R extends QueryResultRow>(
  port: number,
  text: string,
  values: readonly unknown[] = [],
): Promise<R[]> {
  const client = new Client({ connectionString: urlOf(port), connectionTimeoutMillis: 5_000 });
  client.on("error", () => undefined);
  await client.connect();
  try {
    return (await client.query<R>(text, [...values])).rows;
  } finally {
    await client.end();
  }
}
