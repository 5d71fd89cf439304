import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, chown, mkdir, stat } from "node:fs/promises";
import path from "node:path";
import { createConnection, type RowDataPacket } from "mysql2/promise";
import { firstData } from "./first-data.js";
import { mustFind, type Program } from "./find.js";
import { ServerProcess } from "./server.js";

/** What tests on MariaDB need. */
export const mariadbProgram: Program = {
  name: "MariaDB",
  binary: "mariadbd",
  package: "mariadb-server",
};

/** Options of the server, by name. */
export type MariadbConfig = Readonly<Record<string, string | number>>;

/** A database that a new server has. */
const DATABASE = "test";
/** Debian's package brings this user. */
const USER = "mysql";

const QUIET: MariadbConfig = {
  "bind-address": "127.0.0.1",
  "skip-name-resolve": 1,
  "max-connections": 80,
  "innodb-buffer-pool-size": "32M",
  "innodb-log-file-size": "8M",
  "performance-schema": "OFF",
  "log-warnings": 1,
};

/** A MariaDB server whose `root` needs no password. */
export class MariadbServer extends ServerProcess {
  constructor(config: MariadbConfig = {}) {
    const settings = { ...QUIET, ...config };
    super({
      ...mariadbProgram,
      args: (port, folder) => [
        "--no-defaults",
        `--datadir=${path.join(folder, "data")}`,
        `--tmpdir=${path.join(folder, "tmp")}`,
        `--socket=${path.join(folder, "socket")}`,
        `--pid-file=${path.join(folder, "pid")}`,
        `--port=${port}`,
        ...Object.entries(settings).map(([name, value]) => `--${name}=${value}`),
      ],
      url: (port) => urlOf(port),
      isReady: async (port) => (await ask(port, "SELECT 1 AS one")).length === 1,
      prepare: async (folder) => {
        const scratch = path.join(folder, "tmp");
        await mkdir(scratch);
        for (const one of [folder, scratch]) await hand(one);
        await initialise(path.join(folder, "data"), scratch);
      },
      user: USER,
    });
  }

  /** Runs one statement as `root`, on a connection of its own; answers its rows. */
  query<R extends object>(text: string, values: readonly unknown[] = []): Promise<R[]> {
    return ask(this.port, text, values);
  }

  /** Runs statements as `root`, one after the other, on one connection. */
  async script(statements: readonly string[]): Promise<void> {
    const connection = await createConnection({ uri: this.url, connectTimeout: 5_000 });
    connection.on("error", () => undefined);
    try {
      for (const statement of statements) await connection.query(statement);
    } finally {
      await connection.end();
    }
  }

  /** URL for another user or database. */
  urlFor(user: string, password = "secret", database: string = DATABASE): string {
    return `mysql://${user}:${password}@127.0.0.1:${this.port}/${database}`;
  }

  /** Makes a user with a password, and the rights that are named. */
  async addUser(user: string, rights: string, password = "secret"): Promise<void> {
    await this.query(`CREATE USER '${user}'@'127.0.0.1' IDENTIFIED BY '${password}'`);
    await this.query(`GRANT ${rights} TO '${user}'@'127.0.0.1'`);
  }

  /** Ends the sessions that a condition on the process list picks; answers how many. */
  async terminate(condition: string): Promise<number> {
    const sessions = await this.query<{ id: number }>(
      `SELECT id FROM information_schema.processlist
       WHERE id <> CONNECTION_ID() AND command <> 'Daemon' AND (${condition})`,
    );
    for (const { id } of sessions) await this.query(`KILL CONNECTION ${id}`);
    return sessions.length;
  }
}

/** A started server. */
export async function startMariadb(config: MariadbConfig = {}): Promise<MariadbServer> {
  const server = new MariadbServer(config);
  try {
    await server.start();
    return server;
  } catch (error) {
    await server.dispose();
    throw error;
  }
}

/** Makes the system tables. Two at a time took each other's temporary tables in a shared folder. */
async function initialise(data: string, scratch: string): Promise<void> {
  const program = mustFind({
    ...mariadbProgram,
    ...{ name: "mariadb-install-db", binary: "mariadb-install-db" },
  });
  const settings = [
    ...["--no-defaults", "--auth-root-authentication-method=normal", "--skip-name-resolve"],
    ...["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M"],
    ...(process.getuid?.() === 0 ? [`--user=${USER}`] : []),
  ];
  await firstData(data, program, settings, async () => {
    const child = spawn(program, [...settings, `--datadir=${data}`], {
      stdio: ["ignore", "ignore", "pipe"],
      env: { ...process.env, TMPDIR: scratch },
    });
    let errors = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
    const [code] = (await once(child, "close")) as [number | null];
    if (code !== 0) throw new Error(`${program} ended with ${code}: ${errors}`);
  });
}

/** Gives a folder to the server's user. */
async function hand(folder: string): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const home = await stat("/var/lib/mysql");
  await chown(folder, home.uid, home.gid);
  await chmod(folder, 0o700);
}

function urlOf(port: number): string {
  return `mysql://root@127.0.0.1:${port}/${DATABASE}`;
}

/** One statement on a connection of its own. */
async function ask<R extends object>(
  port: number,
  text: string,
  values: readonly unknown[] = [],
): Promise<R[]> {
  const connection = await createConnection({
    uri: urlOf(port),
    connectTimeout: 5_000,
    supportBigNumbers: true,
    bigNumberStrings: true,
  });
  connection.on("error", () => undefined);
  try {
    const [rows] = await connection.query<RowDataPacket[]>(text, [...values]);
    return rows as unknown as R[];
  } finally {
    await connection.end();
  }
}
