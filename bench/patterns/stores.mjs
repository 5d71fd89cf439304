/** Where the bare statements and the patterns run: a file of SQLite, and a server of PostgreSQL. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import pg from "pg";
import { inTurns, median, printTable, ratio } from "../figures.mjs";
import { withServer } from "../sql/servers.mjs";

async function onSqlite(part) {
  const folder = mkdtempSync(join(tmpdir(), "tenure-bench-"));
  const file = join(folder, "bench.db");
  const db = new Database(file);
  // As Tenure sets its own connection: what was answered is on the disk.
  db.pragma("journal_mode = WAL");
  db.pragma("synchronous = FULL");
  const prepared = new Map();
  const run = (sql, values = []) => {
    const text = sql.replaceAll(/\$\d/g, "?");
    if (!prepared.has(text)) prepared.set(text, db.prepare(text));
    const statement = prepared.get(text);
    return statement.reader ? statement.all(...values) : (statement.run(...values), []);
  };
  try {
    await part({ title: "SQLite, each commit flushed", url: `sqlite:${file}`, run });
  } finally {
    db.close();
    rmSync(folder, { recursive: true });
  }
}

const onPostgres = (isFlushed) => (part) =>
  withServer("postgres", isFlushed, async (url) => {
    const pool = new pg.Pool({ connectionString: url });
    const run = async (text, values = []) => (await pool.query(text, values)).rows;
    const title = `PostgreSQL, ${isFlushed ? "each commit flushed" : "nothing flushed"}`;
    try {
      await part({ title, url, run });
    } finally {
      await pool.end();
    }
  });

/**
 * Measures calls beside bare statements on each store, in turns.
 *
 * @param tables SQL that makes the tables of the bare statements
 * @param subjects answers functions by name, each bare one before those that stand on it, whose
 *   names are bold; each does its work once, with a number that was not used before
 */
export async function beside(what, isQuick, tables, subjects) {
  const [rounds, times] = isQuick ? [3, 100] : [30, 500];
  for (const on of [onSqlite, onPostgres(false), onPostgres(true)]) {
    await on(async (store) => {
      for (const text of tables) await store.run(text);
      const { turns, close } = await subjects(store);
      let n = 0;
      const timed = Object.entries(turns).map(([name, once]) => [
        name,
        async () => {
          const startNs = process.hrtime.bigint();
          for (let i = 0; i < times; i++) await once(n++);
          return Number(process.hrtime.bigint() - startNs) / 1e6 / times;
        },
      ]);
      const took = await inTurns(Object.fromEntries(timed), rounds);
      await close();
      let bare;
      const base = (name, values) => (name.startsWith("**") ? bare : (bare = values));
      printTable(
        [`${what}, ${store.title}`, "µs", "× bare"],
        [...took].map(([name, values]) => [
          name,
          (median(values) * 1_000).toFixed(0),
          ratio(values, base(name, values)).toFixed(2),
        ]),
      );
    });
  }
}
