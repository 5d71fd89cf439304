// The whole idea in ten seconds, with real processes: worker A takes the lease and is frozen past
// its TTL, B takes over and writes, A wakes up and writes too. Exits with 1 if anything differs
// from what is promised.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { connect } from "tenure";
import { sqliteFence } from "tenure/fences/sqlite";
import { openSqlite } from "../dist/drivers/sqlite/open.js";

const TTL_MS = 2000;
const folder = mkdtempSync(path.join(tmpdir(), "tenure-demo-"));
const database = path.join(folder, "demo.db");
const startedMs = performance.now();
const workers = [];

function line(who, text) {
  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1).padStart(5);
  process.stdout.write(`${seconds} s  ${who.padEnd(6)} ${text}\n`);
}

function worker(who, amount) {
  const script = path.join(import.meta.dirname, "demo-worker.mjs");
  const child = spawn(process.execPath, [script, database, amount], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  workers.push(child);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    child,
    async next(...expected) {
      const { value, done } = await lines.next();
      if (done) throw new Error(`worker ${who} ended early`);
      const told = JSON.parse(value);
      if (!expected.includes(told.event)) throw new Error(`worker ${who} said ${value}`);
      return { ...told, atMs: performance.now() };
    },
  };
}

async function run() {
  const file = await openSqlite(database);
  file.exec("CREATE TABLE account (id INTEGER PRIMARY KEY, amount INTEGER NOT NULL)");
  file.exec("INSERT INTO account VALUES (7, 100)");
  file.close();
  line("", `account 7 holds 100; the lease "payout" lasts ${TTL_MS / 1000} s without renewal`);

  const a = worker("A", "10");
  await a.next("waiting");
  const grantA = await a.next("granted");
  line("A", `has the lease, token ${grantA.token}`);
  const armedA = await a.next("armed");
  line("A", `arms the fence with it, and reads ${armedA.read}`);

  const b = worker("B", "5");
  await b.next("waiting");
  line("B", "waits for the lease");

  a.child.kill("SIGSTOP");
  const frozenMs = performance.now();
  line("A", "is frozen (SIGSTOP): neither its work nor its renewal runs");
  const grantB = await b.next("granted");
  const waitedS = ((grantB.atMs - frozenMs) / 1000).toFixed(1);
  line("B", `has the lease, token ${grantB.token}, ${waitedS} s later`);
  const armedB = await b.next("armed");
  line("B", `arms the fence: the mark is now ${grantB.token}; it reads ${armedB.read}`);
  b.child.stdin.write("write\n");
  const wroteB = await b.next("wrote");
  line("B", `writes ${wroteB.value}`);

  const leftMs = frozenMs + 2 * TTL_MS - performance.now();
  await new Promise((over) => setTimeout(over, Math.max(0, leftMs)));
  a.child.stdin.write("write\n");
  a.child.kill("SIGCONT");
  line("A", "wakes up after twice the TTL and writes 110, as if nothing had happened");
  const endA = await a.next("refused", "wrote");
  if (endA.event === "refused") {
    line("fence", `refuses it: token ${grantA.token} is older than the mark ${endA.mark}`);
  }
  if (endA.state === "lost") line("A", "sees, had it looked, that its lease is lost");

  const tenure = await connect(`sqlite:${database}`);
  const mark = await sqliteFence(database).mark("account/7");
  const last = await openSqlite(database);
  const value = String(last.prepare("SELECT amount FROM account WHERE id = 7").get().amount);
  last.close();
  await tenure.close();
  line("", `account 7 holds ${value}`);

  const promises = {
    "B's token is higher than A's": BigInt(grantB.token) > BigInt(grantA.token),
    // A renewed a third of the TTL before it froze, at the earliest.
    "B got the lease only after A's had run out": grantB.atMs - frozenMs > (TTL_MS * 2) / 3 - 50,
    "B got it within the TTL and a second": grantB.atMs - frozenMs < TTL_MS + 1000,
    "A's write was refused as stale": endA.code === "TENURE_STALE_TOKEN",
    "A's own lease says lost": endA.state === "lost",
    "B's write stands": value === "105" && wroteB.value === "105",
    "the mark is B's token": String(mark.token) === grantB.token,
  };
  for (const [promise, kept] of Object.entries(promises)) {
    process.stdout.write(`${kept ? "  kept" : "BROKEN"}  ${promise}\n`);
  }
  return Object.values(promises).every(Boolean);
}

const giveUp = setTimeout(() => {
  process.stderr.write("the demo did not end within 60 s\n");
  process.exit(1);
}, 60_000);
process.on("exit", () => {
  for (const child of workers) if (child.exitCode === null) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});
try {
  process.exitCode = (await run()) ? 0 : 1;
} catch (error) {
  process.stderr.write(`${error.stack}\n`);
  process.exitCode = 1;
}
clearTimeout(giveUp);
