// A worker for `tenure lab attack`, its successor, and what reads the resource of both:
//   attacked.mjs unfenced|fenced|successor|read FILE
//   attacked.mjs rewriting|peek FILE: a plain file, written in two steps
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import Database from "better-sqlite3";
import { connect } from "tenure";
import { sqliteFence } from "tenure/fences/sqlite";

const [mode, file] = process.argv.slice(2);
const { TENURE_STORE, TENURE_TOKEN, TENURE_HOLDER } = process.env;
const TABLE = "CREATE TABLE IF NOT EXISTS account (value TEXT)";
const append = (value) => (tx) => {
  tx.exec(TABLE);
  tx.run("INSERT INTO account VALUES (?)", value);
};

if (mode === "read") {
  if (existsSync(file)) {
    const db = new Database(file);
    db.exec(TABLE);
    for (const { value } of db.prepare("SELECT value FROM account").all()) console.log(value);
    db.close();
  }
} else if (mode === "peek") {
  const text = readFileSync(file, "utf8");
  appendFileSync(`${file}.looks`, "x");
  process.stdout.write(text);
} else if (mode === "successor") {
  const tenure = await connect(TENURE_STORE);
  const fence = sqliteFence(file);
  const bearer = { name: "job", token: BigInt(TENURE_TOKEN), holder: TENURE_HOLDER };
  const handle = await fence.arm({ ...bearer, storeId: tenure.storeId }, "account");
  await handle.write(append("successor"));
  await tenure.close();
} else {
  const tenure = await connect(TENURE_STORE);
  const { name, token, holder, storeId } = await tenure.acquire("job", { ttl: "1s" });
  // The token alone, as it travels to another process: the mark decides, and no clock.
  const fence = sqliteFence(file);
  const handle =
    mode === "fenced" ? await fence.arm({ name, token, holder, storeId }, "account") : undefined;
  // Goes on when its lease has passed in one step: it was frozen, and is awake again.
  for (let last = Date.now(), now = last; now - last < 1_000; now = Date.now()) {
    last = now;
    await sleep(20);
  }
  if (mode === "rewriting") {
    const looks = () => readFileSync(`${file}.looks`, "utf8").length;
    // Half of it until that was seen, then all of what it was.
    const whole = readFileSync(file, "utf8");
    const seen = looks();
    writeFileSync(file, whole.slice(0, 3));
    while (looks() === seen) await sleep(2);
    writeFileSync(file, whole);
    const again = looks();
    while (looks() < again + 2) await sleep(2);
  } else if (handle === undefined) {
    const db = new Database(file);
    db.exec(TABLE);
    db.prepare("INSERT INTO account VALUES (?)").run("stale");
    db.close();
  } else {
    await handle.write(append("stale"));
  }
  await tenure.close();
}
