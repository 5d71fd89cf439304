/** What it costs a process to go on holding 10,000 leases. */
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { fileURLToPath } from "node:url";
import lockfile from "proper-lockfile";
import { connect } from "tenure";
import { runRole, say, startChild } from "../children.mjs";
import { breath, printTable, sleep } from "../figures.mjs";
import { countStatements } from "./library.mjs";

const script = fileURLToPath(import.meta.url);
const LEASES = 10_000;
const TTL_MS = 30_000;
const PERIOD_MS = TTL_MS / 3;
const LOOK_EVERY_MS = 2;

export async function held(folder, isQuick) {
  const periods = String(isQuick ? 1 : 3);
  const rows = [];
  for (const kind of ["Tenure", "proper-lockfile"]) {
    const child = startChild("--expose-gc", script, "holder", kind, join(folder, kind), periods);
    const found = await child.next();
    await child.end();
    rows.push([
      kind,
      `${(found.share * 100).toFixed(2)} %`,
      kind === "Tenure" ? found.statements.toFixed(1) : "",
      found.longestMs.toFixed(0),
      (found.bytes / LEASES / 1_024).toFixed(1),
      found.takingUs.toFixed(0),
      found.takingBlockMs.toFixed(0),
    ]);
  }
  printTable(
    [
      `${LEASES} leases, TTL ${TTL_MS / 1_000} s`, "share of one core",
      `statements per ${PERIOD_MS / 1_000} s`, "longest block of the loop, ms",
      "KiB of heap per lease", "µs to take one", "longest block meanwhile, ms",
    ],
    rows,
  );
}

async function take(kind, path) {
  if (kind === "Tenure") {
    const tenure = await connect(`sqlite:${path}`);
    return { one: (i) => tenure.acquire(`held:${i}`), close: () => tenure.close() };
  }
  const options = { realpath: false, stale: TTL_MS, update: PERIOD_MS };
  return { one: (i) => lockfile.lock(`${path}-${i}`, options), close: async () => undefined };
}

async function longestBlock(work) {
  const delay = monitorEventLoopDelay({ resolution: LOOK_EVERY_MS });
  delay.enable();
  const result = await work();
  delay.disable();
  return [Math.max(0, delay.max / 1e6 - LOOK_EVERY_MS), result];
}

async function holder(kind, path, periods) {
  const count = countStatements();
  const locks = await take(kind, path);
  globalThis.gc();
  const before = process.memoryUsage().heapUsed;
  const kept = [];
  const start = performance.now();
  const [takingBlockMs] = await longestBlock(async () => {
    for (let i = 0; i < LEASES; i++) {
      kept.push(await locks.one(i));
      if (i % 50 === 49) await breath();
    }
  });
  const takingUs = ((performance.now() - start) * 1_000) / LEASES;
  globalThis.gc();
  const bytes = process.memoryUsage().heapUsed - before;
  // Renewals gather in the first period.
  await sleep(PERIOD_MS);
  const forMs = PERIOD_MS * Number(periods);
  count.statements = 0;
  const cpu = process.cpuUsage();
  await sleep(forMs);
  const { user, system } = process.cpuUsage(cpu);
  const { statements } = count;
  // Looking at the loop costs time itself: not in the same period.
  const [longestMs] = await longestBlock(() => sleep(PERIOD_MS));
  say({
    share: (user + system) / 1_000 / forMs,
    statements: statements / Number(periods),
    longestMs,
    bytes,
    takingUs,
    takingBlockMs,
    kept: kept.length,
  });
  if (kind === "Tenure") await locks.close();
  process.exit(0);
}

await runRole(import.meta.url, { holder });
