import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { sqlite } from "../../../src/backends/sqlite/open.js";
import {
  ArgumentTypeError,
  GuaranteeError,
  OutcomeUnknownError,
  UnavailableError,
} from "../../../src/core/errors.js";
import {
  fromNodeSqlite,
  fromUserDatabase,
  type NodeSqliteLike,
  type SqliteLibrary,
} from "../../../src/drivers/sqlite/database.js";
import { explainSqlite, sqliteCode } from "../../../src/drivers/sqlite/errors.js";
import { adoptSqlite, claimLibrary, openSqlite } from "../../../src/drivers/sqlite/open.js";
import { call, taken, temporaryFolder } from "./folder.js";

const nodeRequire = createRequire(import.meta.url);

/** The library that this runtime has, as a caller uses it. */
const native: { readonly library: SqliteLibrary; open(path: string): any } = (() => {
  try {
    const { DatabaseSync } = nodeRequire("node:sqlite");
    return { library: "node:sqlite", open: (path: string) => new DatabaseSync(path) };
  } catch {
    const Database = nodeRequire("better-sqlite3");
    return { library: "better-sqlite3", open: (path: string) => new Database(path) };
  }
})();
const other = native.library === "node:sqlite" ? "better-sqlite3" : "node:sqlite";

const IN_USE = Symbol.for("tenure.sqlite.library");
const world = globalThis as { [key: symbol]: unknown };

afterEach(() => {
  delete world[IN_USE];
});

test("integers are read exactly, and one shape fits the library of this runtime", async () => {
  const db = await openSqlite(join(temporaryFolder(), "x.db"));
  db.exec("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)");
  const changes = db.prepare("INSERT INTO t VALUES (?, ?)").run(9_007_199_254_740_993n, "é");
  expect(Number(changes.changes)).toBe(1);
  const row = db.prepare("SELECT a, b, 1 AS c, 1.5 AS d FROM t").get();
  expect({ ...(row as object) }).toEqual({ a: 9_007_199_254_740_993n, b: "é", c: 1n, d: 1.5 });
  expect(db.prepare("SELECT a FROM t WHERE a = 1").get()).toBeUndefined();
  expect(db.prepare("SELECT a FROM t").all()).toHaveLength(1);
  expect(db.inTransaction).toBe(false);
  db.exec("BEGIN");
  expect(db.inTransaction).toBe(true);
  db.exec("ROLLBACK");
  expect(db.file).toMatch(/x\.db$/);
  db.close();
});

test("SQLite's codes are read from the errors of this runtime's library", async () => {
  const path = join(temporaryFolder(), "x.db");
  const [a, b] = [await openSqlite(path), await openSqlite(path)];
  const codeOf = (work: () => void) => {
    try {
      work();
    } catch (error) {
      return sqliteCode(error);
    }
    return "nothing was thrown";
  };
  a.exec("CREATE TABLE t (a UNIQUE); INSERT INTO t VALUES (1)");
  expect(codeOf(() => a.exec("INSERT INTO t VALUES (1)"))).toBe("CONSTRAINT");
  expect(codeOf(() => a.exec("INSERT INTO none VALUES (1)"))).toBe("ERROR");
  a.exec("BEGIN IMMEDIATE");
  expect(codeOf(() => b.exec("BEGIN IMMEDIATE"))).toBe("BUSY");
  a.exec("ROLLBACK");
  a.close();
  expect(codeOf(() => a.exec("SELECT 1"))).toBe("CLOSED");
  expect(sqliteCode(new Error("something else"))).toBeUndefined();
  b.close();
});

test("each code has a message of its own that says what to do", () => {
  const seen = new Set<string>();
  const names = "BUSY LOCKED READONLY PERM FULL IOERR CORRUPT NOTADB CANTOPEN CONSTRAINT NOMEM";
  for (const name of names.split(" ")) {
    const thrown = Object.assign(new Error("native words"), { code: `SQLITE_${name}_EXTENDED` });
    const error = explainSqlite(thrown, { file: "/x/locks.db", during: "acquire a lease" });
    expect(error).toBeInstanceOf(UnavailableError);
    expect(error.message).toMatch(/^cannot acquire a lease: .+ \(\/x\/locks\.db\)$/);
    expect(error.cause).toBe(thrown);
    seen.add(error.message);
  }
  expect(seen.size).toBe(11);
  const stranger = explainSqlite(new Error("boom"), { file: "x", during: "acquire" });
  expect(stranger).toBeInstanceOf(OutcomeUnknownError);
});

test("a database object is recognised by its shape", () => {
  const mine = native.open(":memory:");
  expect(fromUserDatabase(mine)).toMatchObject({ library: native.library, file: "" });
  mine.close();
  for (const wrong of [undefined, null, {}, "x.db", { exec() {}, prepare() {} }]) {
    expect(() => fromUserDatabase(wrong)).toThrow(ArgumentTypeError);
  }
});

test("without isTransaction the state of a transaction is probed and left as it was", async () => {
  const real = await openSqlite(join(temporaryFolder(), "x.db"));
  const old: NodeSqliteLike = {
    exec: (sql) => real.exec(sql),
    prepare: (sql) => Object.assign(real.prepare(sql), { setReadBigInts: () => undefined }),
    createSession: () => undefined,
    close: () => real.close(),
  };
  const db = fromNodeSqlite(old);
  expect(db.inTransaction).toBe(false);
  real.exec("BEGIN");
  expect(db.inTransaction).toBe(true);
  expect(real.inTransaction).toBe(true);
  real.close();
});

test("a second SQLite library in one process is refused", async () => {
  claimLibrary(other);
  const mine = native.open(":memory:");
  expect(() => adoptSqlite(mine)).toThrow(GuaranteeError);
  mine.close();
  const options = { library: native.library };
  const error = await openSqlite(join(temporaryFolder(), "x.db"), options).catch((e) => e);
  expect(error).toBeInstanceOf(GuaranteeError);
});

test("a caller's database object gets a connection of ours beside it, by the same library", async () => {
  const path = join(temporaryFolder(), "app.db");
  const app = native.open(path);
  app.exec("CREATE TABLE data (a)");
  const backend = await sqlite(app);
  await backend.open!(call());
  app.exec("BEGIN");
  const grant = await taken(backend, "x");
  app.exec("ROLLBACK");
  const { sql, values } = backend.proof(grant);
  expect(app.prepare(sql).all(...values)).toHaveLength(1);
  await backend.close();
  expect(app.prepare("SELECT count(*) AS n FROM data").get()).toMatchObject({ n: 0 });
  app.close();
  const memory = native.open(":memory:");
  await expect(sqlite(memory)).rejects.toThrow(ArgumentTypeError);
  memory.close();
});

test("without a library the error prints the line that installs one", () => {
  // A folder without node_modules, and a runtime whose node:sqlite is hidden.
  const script = `
    import { register } from "node:module";
    register("data:text/javascript," + encodeURIComponent(\`
      export async function resolve(specifier, context, next) {
        if (specifier === "better-sqlite3") throw new Error("Cannot find package");
        return next(specifier, context);
      }\`));
    const { Module } = await import("node:module");
    const load = Module._load;
    Module._load = (id, ...rest) => {
      if (id === "node:sqlite") throw new Error("No such built-in module");
      return load(id, ...rest);
    };
    const { openSqlite } = await import(process.argv[1]);
    const error = await openSqlite("x.db").catch((caught) => caught);
    console.log(JSON.stringify([error.code, error.retryable, error.message]));
  `;
  const bundle = bundleOf("src/drivers/sqlite/open.ts");
  const ran = spawnSync(process.execPath, ["--input-type=module", "-e", script, bundle], {
    encoding: "utf8",
    cwd: temporaryFolder(),
    timeout: 60_000,
  });
  const [code, retryable, message] = JSON.parse(ran.stdout) as [string, boolean, string];
  expect([code, retryable]).toEqual(["TENURE_UNAVAILABLE", false]);
  expect(message).toContain("npm install better-sqlite3@12");
});

function bundleOf(source: string): string {
  const outfile = join(temporaryFolder(), "bundle.mjs");
  const root = join(import.meta.dirname, "../../..");
  const args = [source, "--bundle", "--platform=node", "--format=esm", "--external:better-sqlite3"];
  const esbuild = join(root, "node_modules/esbuild/bin/esbuild");
  spawnSync(esbuild, [...args, `--outfile=${outfile}`, "--log-level=silent"], { cwd: root });
  return outfile;
}
