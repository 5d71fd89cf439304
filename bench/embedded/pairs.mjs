/**
 * A free lock taken and given back by one process, as an application could do it by itself.
 *
 * What is on the disk when a pair has ended, and so survives a loss of power, differs: `NORMAL`
 * flushes at checkpoints only, `FULL` with every commit. After a loss of power a counter in the
 * first kind of table gives tokens out again; Tenure's does not, and neither does one that is moved
 * ahead by 1,000 and flushed before any of those are used.
 */
import { join } from "node:path";
import lockfile from "proper-lockfile";
import { connect } from "tenure";
import { breath, inTurns, median, printTable, ratio } from "../figures.mjs";
import { openRaw } from "./library.mjs";

const NAME = "report:daily";
const BASE = "two transactions, NORMAL";
const AHEAD = 1_000;

/** A lock table: two transactions, or two statements that are transactions by themselves. */
function table(path, synchronous, { begins = true, counts = false } = {}) {
  const db = openRaw(path);
  db.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = ${synchronous}`);
  db.exec("CREATE TABLE lock (name TEXT PRIMARY KEY, holder TEXT, token INTEGER, expires INTEGER)");
  db.exec("CREATE TABLE counter (token INTEGER); INSERT INTO counter VALUES (0)");
  const begin = db.prepare("BEGIN IMMEDIATE");
  const commit = db.prepare("COMMIT");
  const insert = db.prepare("INSERT INTO lock VALUES (?, ?, ?, ?)");
  const remove = db.prepare("DELETE FROM lock WHERE name = ? AND holder = ?");
  const raise = db.prepare("UPDATE counter SET token = ?");
  let token = 0;
  return {
    pair() {
      token += 1;
      if (counts && token % AHEAD === 1) {
        db.exec("PRAGMA synchronous = FULL");
        raise.run(token + AHEAD);
        db.exec("PRAGMA synchronous = NORMAL");
      }
      if (begins) begin.run();
      if (counts) raise.run(token);
      insert.run(NAME, "holder", token, Date.now() + 30_000);
      if (begins) commit.run();
      if (begins) begin.run();
      remove.run(NAME, "holder");
      if (begins) commit.run();
    },
    close: () => db.close(),
  };
}

export async function pairs(folder, isQuick) {
  const tenure = await connect(`sqlite:${join(folder, "pairs.db")}`);
  const normal = table(join(folder, "normal.db"), "NORMAL");
  const statements = table(join(folder, "statements.db"), "NORMAL", { begins: false });
  const counter = table(join(folder, "counter.db"), "NORMAL", { counts: true });
  const full = table(join(folder, "full.db"), "FULL");
  const file = join(folder, NAME);
  const run = (pair, times) => async () => {
    const start = performance.now();
    for (let i = 0; i < times; i++) {
      await pair();
      if (i % 100 === 99) await breath();
    }
    return (performance.now() - start) / times;
  };
  const subjects = {
    [BASE]: run(normal.pair, 500),
    "two statements without BEGIN, NORMAL": run(statements.pair, 500),
    "two transactions, NORMAL, and a token flushed per 1,000": run(counter.pair, 500),
    "two transactions, FULL": run(full.pair, 50),
    "proper-lockfile: a folder made and removed, no token, nothing flushed": run(async () => {
      await (await lockfile.lock(file, { realpath: false }))();
    }, 100),
    "Tenure: tryAcquire and release, no token twice after a loss of power": run(async () => {
      await (await tenure.tryAcquire(NAME)).release();
    }, 500),
  };
  const took = await inTurns(subjects, isQuick ? 10 : 40);
  printTable(
    ["", "µs per pair", "× two transactions, NORMAL"],
    [...took].map(([name, values]) => [
      name,
      (median(values) * 1_000).toFixed(1),
      ratio(values, took.get(BASE)).toFixed(2),
    ]),
  );
  for (const open of [normal, statements, counter, full]) open.close();
  await tenure.close();
}
