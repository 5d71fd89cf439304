/** Loads a SQLite library and opens a file with it. The only file that imports one. */
import { createRequire } from "node:module";
import { stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { ArgumentTypeError, GuaranteeError, UnavailableError } from "../../core/errors.js";
import {
  fromBetterSqlite3,
  fromNodeSqlite,
  fromUserDatabase,
  type NodeSqliteLike,
  type SqliteDatabase,
  type SqliteLibrary,
  type UserSqliteDatabase,
} from "./database.js";
import { MissingLibraryError } from "../missing-library.js";
import { explainSqlite, sqliteCode } from "./errors.js";

/** How to open a file. */
export interface OpenSqliteOptions {
  /** Whether writes are refused. Default false. */
  readonly readonly?: boolean;
  /** Whether a missing file is an error, not created. Default false; true with `readonly`. */
  readonly mustExist?: boolean;
  /** Which library; see `openSqlite` for the default. */
  readonly library?: SqliteLibrary;
}

const nodeRequire = createRequire(import.meta.url);
const INSTALL_LINE = "npm install better-sqlite3@12";
const REBUILD_LINE = "npm rebuild better-sqlite3";
const CANNOT_OPEN = "cannot open the SQLite database";

/**
 * A connection to the SQLite file at `path`, with a busy time-out of 0: a lock held by another
 * connection is an error at once, since a time-out inside SQLite blocks the event loop.
 *
 * The library: the one that Tenure already uses in this process, else `better-sqlite3` if the
 * process has loaded it, else `node:sqlite` (Node 22.13 and later), else `better-sqlite3` 12.
 *
 * @throws TypeError for an in-memory database: other processes cannot see it.
 * @throws UnavailableError when no library is installed, or the file cannot be opened.
 * @throws GuaranteeError when `library` is not the one in use.
 */
export async function openSqlite(
  path: string,
  options: OpenSqliteOptions = {},
): Promise<SqliteDatabase> {
  const file = checkPath(path);
  const mustExist = options.mustExist ?? options.readonly ?? false;
  await checkPlace(file, mustExist);
  const open = await loadLibrary(options.library);
  try {
    return open(file, options.readonly ?? false);
  } catch (error) {
    // A binary that was compiled for another version of Node throws only now.
    if (isUnbuilt(error)) {
      const what = `${CANNOT_OPEN}: the native part of better-sqlite3 is not there for this Node`;
      throw new MissingLibraryError(what, REBUILD_LINE, { backend: "sqlite", cause: error });
    }
    if (sqliteCode(error) === undefined) fail(`${onOneLine(error)}; try ${INSTALL_LINE}`, error);
    throw explainSqlite(error, { file, during: "open the SQLite database", backend: "sqlite" });
  }
}

type Opener = (file: string, readonly: boolean) => SqliteDatabase;

function checkPath(path: unknown): string {
  if (typeof path !== "string" || path === "" || path.includes("\0")) {
    throw new ArgumentTypeError("path", path, "the path of a file");
  }
  if (path === ":memory:" || path.startsWith("file:")) {
    const instead = "for tests, leases have memory:, and patterns take a database object";
    throw new ArgumentTypeError("path", path, `a file that other processes can open; ${instead}`);
  }
  if (path.startsWith("sqlite:")) {
    throw new ArgumentTypeError("path", path, "the path alone, without sqlite: before it");
  }
  return resolve(path);
}

/** Tells apart what SQLite reports as one "unable to open database file". */
async function checkPlace(file: string, mustExist: boolean): Promise<void> {
  const seen = await statOf(file);
  if (seen === "no-access") fail(`no permission to look at ${file}`);
  if (seen === "file") return;
  if (seen === "directory") fail(`${file} is a directory; name a file`);
  if (seen === "other") fail(`${file} is not a regular file`);
  const folder = dirname(file);
  const parent = await statOf(folder);
  if (parent === "missing") fail(`the folder ${folder} does not exist; create it first`);
  if (parent !== "directory") fail(`${folder} is not a folder that can be used`);
  if (mustExist) fail(`${file} does not exist`);
}

type Seen = "file" | "directory" | "other" | "missing" | "no-access";

async function statOf(path: string): Promise<Seen> {
  try {
    const found = await stat(path);
    return found.isFile() ? "file" : found.isDirectory() ? "directory" : "other";
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === "EACCES" || code === "EPERM" ? "no-access" : "missing";
  }
}

// Shared by every copy of this module in the process: a bundle beside the package is one process
// too.
const registry = globalThis as { [key: symbol]: SqliteLibrary | undefined };
const IN_USE = Symbol.for("tenure.sqlite.library");

/**
 * Records which library serves this process.
 *
 * POSIX locks belong to a process and vanish when *any* of its descriptors of the file is closed;
 * one SQLite library knows its own connections and guards against that, two do not know of each
 * other, and both were seen to hold the write lock.
 *
 * @throws GuaranteeError when the process already uses the other one.
 */
export function claimLibrary(library: SqliteLibrary): void {
  const inUse = (registry[IN_USE] ??= library);
  if (inUse === library) return;
  throw new GuaranteeError(
    `this process already uses ${inUse} for Tenure; a second SQLite library (${library}) beside ` +
      `it breaks SQLite's file locks; open every database with ${inUse}`,
    { backend: "sqlite" },
  );
}

/**
 * A caller's own database object of either library, for use beside what `openSqlite` opens.
 *
 * Nothing is set on the connection, and it stays the caller's to close.
 *
 * @throws TypeError for anything else.
 * @throws GuaranteeError when this process already uses the other library.
 */
export function adoptSqlite(db: unknown, option = "database"): SqliteDatabase {
  const adopted = fromUserDatabase(db, option);
  claimLibrary(adopted.library);
  return adopted;
}

/**
 * A connection of our own to the file of a caller's database object, made with the same library.
 *
 * @throws TypeError for anything but a database object, or one in memory.
 * @throws GuaranteeError when this process already uses the other library.
 */
export async function openBeside(db: UserSqliteDatabase): Promise<SqliteDatabase> {
  const theirs = adoptSqlite(db);
  if (theirs.file === "") {
    throw new ArgumentTypeError("database", db, "one in a file, which other processes can open");
  }
  return openSqlite(theirs.file, { library: theirs.library, mustExist: true });
}

async function loadLibrary(wanted: SqliteLibrary | undefined): Promise<Opener> {
  const library = wanted ?? registry[IN_USE] ?? (isBetterLoaded() ? "better-sqlite3" : undefined);
  if (library === "node:sqlite") return loadNode() ?? fail("node:sqlite needs Node 22.13");
  if (library === undefined) {
    const node = loadNode();
    if (node !== undefined) return node;
  }
  return loadBetter();
}

function isBetterLoaded(): boolean {
  const loaded = Object.keys(nodeRequire.cache);
  return loaded.some((file) => file.endsWith("better_sqlite3.node"));
}

interface NodeSqliteModule {
  readonly DatabaseSync: new (file: string, options: { readOnly: boolean }) => NodeSqliteLike;
}

function loadNode(): Opener | undefined {
  let sqlite: NodeSqliteModule;
  try {
    // Not import(): bundlers and checkers on Node 20 do not know the module and resolve it wrongly.
    sqlite = nodeRequire("node:sqlite") as NodeSqliteModule;
  } catch {
    return undefined;
  }
  claimLibrary("node:sqlite");
  return (file, readonly) => {
    const db = new sqlite.DatabaseSync(file, { readOnly: readonly });
    db.exec("PRAGMA busy_timeout = 0");
    return fromNodeSqlite(db);
  };
}

async function loadBetter(): Promise<Opener> {
  const loaded = await import("better-sqlite3").catch((cause: unknown): never => {
    const what = `${CANNOT_OPEN}: it needs a SQLite library on this version of Node`;
    throw new MissingLibraryError(what, INSTALL_LINE, { backend: "sqlite", cause });
  });
  claimLibrary("better-sqlite3");
  const Database = loaded.default;
  return (file, readonly) =>
    fromBetterSqlite3(new Database(file, { readonly, timeout: 0 }));
}

/** Neither built nor downloaded, or for another version of Node: what it says lists its paths. */
function isUnbuilt(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code } = error as NodeJS.ErrnoException;
  return code === "ERR_DLOPEN_FAILED" || error.message.includes("the bindings file");
}

function onOneLine(error: unknown): string {
  return String(error instanceof Error ? error.message : error).replace(/\s+/g, " ");
}

function fail(what: string, cause?: unknown): never {
  throw new UnavailableError(`${CANNOT_OPEN}: ${what}`, {
    retryable: false,
    backend: "sqlite",
    ...(cause === undefined ? {} : { cause }),
  });
}
