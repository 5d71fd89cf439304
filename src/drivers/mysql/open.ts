/** Databases by URL or beside a caller's pool. The only file that loads the client library. */
import { ArgumentTypeError } from "../../core/errors.js";
import { corePool, type MysqlPool } from "./client.js";
import type { MysqlConnection } from "./connection.js";
import { connectOwn, poolDatabase, type MysqlDatabase } from "./database.js";
import { connectWithin } from "../connecting.js";
import { MissingLibraryError } from "../missing-library.js";

const INSTALL_LINE = "npm install mysql2";
const MAX_CONNECTIONS = 10;

/** What a connection beside a pool takes over from it: where to, as whom, and how. */
const SETTINGS: readonly string[] = [
  "host", "port", "localAddress", "socketPath", "stream", "user", "password", "password2",
  "password3", "passwordSha1", "database", "ssl", "compress", "insecureAuth", "authPlugins",
  "authSwitchHandler", "enableCleartextPlugin", "disableEval",
];

/**
 * A database with a pool of our own, at a URL: `mysql://` or `mariadb://`.
 *
 * @param needsDatabase whether the URL must name one: not where each table is named with its own
 * @param waitingMs how long callers wait, where that is known: see `connectWithin`
 * @throws TypeError for another URL, and for one that names no database though it must; it may
 *   carry a password, so only its scheme is repeated.
 * @throws UnavailableError when `mysql2` is not installed.
 */
export async function openMysql(
  url: string,
  needsDatabase: boolean,
  waitingMs?: number,
): Promise<MysqlDatabase> {
  const uri = checkUrl(url, needsDatabase);
  const { createPool, createConnection } = await load();
  const within = connectWithin();
  within(waitingMs);
  const settings = (waitingMs?: number): Readonly<Record<string, unknown>> => {
    return { uri, connectTimeout: within(waitingMs), enableKeepAlive: true };
  };
  let made: MysqlDatabase | undefined;
  /** Made when it is first used: by then it is known how long callers wait for a connection. */
  const database = (): MysqlDatabase => {
    if (made !== undefined) return made;
    const core = corePool(createPool({ ...settings(), connectionLimit: MAX_CONNECTIONS }));
    const close = (): Promise<void> => new Promise((resolve) => core.end(() => resolve()));
    return (made = poolDatabase(core, { connect, close }));
  };
  const connect = (waitingMs?: number): Promise<MysqlConnection> =>
    connectOwn(createConnection, settings(waitingMs));
  return {
    run: (text, values, limits) => database().run(text, values, limits),
    begin: (work, texts, limits) => database().begin(work, texts, limits),
    connect,
    // Made, if it was not: one that is used after its end has to refuse.
    close: () => database().close(),
  };
}

/**
 * A database over a caller's pool. It stays the caller's; connections of our own are made beside it
 * with its settings.
 *
 * @throws TypeError for anything but a pool of `mysql2`.
 */
export function adoptMysql(pool: MysqlPool, option = "pool"): MysqlDatabase {
  const core = corePool(pool, option);
  const within = connectWithin();
  return poolDatabase(core, {
    async connect(waitingMs) {
      const { createConnection } = await load();
      const { connectionConfig } = core.config;
      const kept = SETTINGS.filter((name) => connectionConfig[name] !== undefined);
      const settings = Object.fromEntries(kept.map((name) => [name, connectionConfig[name]]));
      return connectOwn(createConnection, {
        ...settings,
        connectTimeout: within(waitingMs),
        enableKeepAlive: true,
      });
    },
    close: async () => undefined,
  });
}

/** The URL as the library knows it. @throws TypeError that does not repeat the URL. */
function checkUrl(url: unknown, needsDatabase: boolean): string {
  const must = "a URL such as mysql://user:password@host:3306/database";
  let parsed: URL;
  try {
    parsed = new URL(String(url));
  } catch {
    throw new ArgumentTypeError("url", "mysql:…", must);
  }
  if (!/^(mysql|mariadb):$/.test(parsed.protocol)) {
    throw new ArgumentTypeError("url", `${parsed.protocol}…`, must);
  }
  // A database=… behind the ? is nothing to the library.
  if (needsDatabase && /^\/?$/.test(parsed.pathname)) {
    const form = "mysql://HOST/DATABASE: no database is named, nor given as schema";
    throw new ArgumentTypeError("url", `${parsed.protocol}…`, form);
  }
  return String(url).replace(/^mariadb:/i, "mysql:");
}

async function load() {
  try {
    return (await import("mysql2")).default;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ERR_MODULE_NOT_FOUND") throw error;
    const what = "a MySQL URL or pool needs the client library";
    throw new MissingLibraryError(what, INSTALL_LINE, { backend: "mysql" });
  }
}
