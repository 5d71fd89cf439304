/** What it costs a process, and its server, to go on holding 10,000 leases. */
import { monitorEventLoopDelay } from "node:perf_hooks";
import { fileURLToPath } from "node:url";
import mysql2 from "mysql2/promise";
import pg from "pg";
import { runRole, say, startChild } from "../children.mjs";
import { printTable, sleep } from "../figures.mjs";
import { withServer } from "./servers.mjs";
import { subjects } from "./subjects.mjs";

const script = fileURLToPath(import.meta.url);
const LEASES = 10_000;
const TTL_MS = 30_000;
const PERIOD_MS = TTL_MS / 3;
const LOOK_EVERY_MS = 2;
/** Grants at the same time: as many as a pool has connections. */
const AT_ONCE = 10;

export async function held(isQuick) {
  const periods = String(isQuick ? 1 : 3);
  const rows = [];
  for (const [kind, name] of [["postgres", "Tenure, pg"], ["mysql", "Tenure, mysql2"]]) {
    await withServer(kind, false, async (url) => {
      const child = startChild("--expose-gc", script, "holder", url, kind, name, periods);
      const found = await child.next();
      await child.end();
      rows.push([
        name,
        `${(found.share * 100).toFixed(2)} %`,
        found.statements.toFixed(1),
        found.longestMs.toFixed(0),
        found.held,
      ]);
    });
  }
  printTable(
    [
      `${LEASES} leases, TTL ${TTL_MS / 1_000} s`, "share of one core",
      `statements per ${PERIOD_MS / 1_000} s`, "longest block of the loop, ms", "held at the end",
    ],
    rows,
  );
}

/** Statements that the server was sent, but for those that count them. */
const counters = {
  async postgres() {
    // The server counts transactions only, and late.
    let count = 0;
    const { query } = pg.Client.prototype;
    pg.Client.prototype.query = function (...args) {
      count += 1;
      return query.apply(this, args);
    };
    return async () => count;
  },
  async mysql(url) {
    const connection = await mysql2.createConnection(url);
    let own = 0;
    return async () => {
      own += 1;
      const [[row]] = await connection.query("SHOW GLOBAL STATUS LIKE 'Questions'");
      return Number(row.Value) - own;
    };
  },
};

async function holder(url, kind, name, periods) {
  const count = await counters[kind](url);
  const { tenure } = await subjects[kind][name](url);
  const kept = [];
  for (let i = 0; i < LEASES; i += AT_ONCE) {
    const names = Array.from({ length: AT_ONCE }, (_, j) => `held:${i + j}`);
    kept.push(...(await Promise.all(names.map((one) => tenure.acquire(one, { ttl: TTL_MS })))));
  }
  // Renewals gather in the first period.
  await sleep(PERIOD_MS);
  const forMs = PERIOD_MS * Number(periods);
  const before = await count();
  const cpu = process.cpuUsage();
  await sleep(forMs);
  const { user, system } = process.cpuUsage(cpu);
  const statements = ((await count()) - before) / Number(periods);
  // Looking at the loop costs time itself: not in the same period.
  const delay = monitorEventLoopDelay({ resolution: LOOK_EVERY_MS });
  delay.enable();
  await sleep(PERIOD_MS);
  delay.disable();
  say({
    share: (user + system) / 1_000 / forMs,
    statements,
    longestMs: Math.max(0, delay.max / 1e6 - LOOK_EVERY_MS),
    held: kept.filter(({ state }) => state === "held").length,
  });
  process.exit(0);
}

await runRole(import.meta.url, { holder });
