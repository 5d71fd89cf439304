/** From the release in one process to the grant in another. */
import { fileURLToPath } from "node:url";
import { runRole, say, startChild } from "../children.mjs";
import { nowMs, printTable, quantile, sleep } from "../figures.mjs";
import { withServer } from "./servers.mjs";
import { subjects } from "./subjects.mjs";

const script = fileURLToPath(import.meta.url);
/** Turns at both ends in which one of the two may be alone. */
const ALONE = 5;
const WAYS = [
  ["postgres", "Tenure, pg", "told by LISTEN"],
  ["postgres", "Tenure, postgres", "told by LISTEN"],
  ["mysql", "Tenure, mysql2", "polling"],
];

export async function handover(isQuick) {
  const rows = [];
  for (const [kind, name, how] of WAYS) {
    for (const isFlushed of [true, false]) {
      const gaps = await withServer(kind, isFlushed, (url) => play(url, kind, name, isQuick));
      rows.push([
        `${name}, ${how}, ${isFlushed ? "flushed" : "not flushed"}`,
        gaps.length,
        ...[0.1, 0.5, 0.99].map((share) => quantile(gaps, share).toFixed(1)),
        Math.max(...gaps).toFixed(1),
      ]);
    }
  }
  printTable(
    ["2 processes, lease released to lease granted", "times", "p10, ms", "p50", "p99", "longest"],
    rows,
  );
}

async function play(url, kind, name, isQuick) {
  const times = String(isQuick ? 60 : 300);
  const players = [0, 1].map(() => startChild(script, "player", url, kind, name, times));
  // Both are open before either begins.
  for (const player of players) await player.next();
  for (const player of players) player.tell("begin");
  const logs = await Promise.all(players.map((player) => player.next()));
  await Promise.all(players.map((player) => player.end()));
  const grants = logs.flat().sort((a, b) => a.grantedMs - b.grantedMs);
  const gaps = [];
  for (let i = ALONE + 1; i < grants.length - ALONE; i++) {
    const [before, after] = [grants[i - 1], grants[i]];
    const waited = after.askedMs < before.releasingMs;
    if (after.pid !== before.pid && waited) gaps.push(after.grantedMs - before.releasingMs);
  }
  return gaps;
}

async function player(url, kind, name, times) {
  const { tenure } = await subjects[kind][name](url);
  say({});
  await new Promise((resume) => process.stdin.once("data", resume));
  const log = [];
  // Who polls hears later.
  const restMs = kind === "mysql" ? 60 : 10;
  for (let i = 0; i < Number(times); i++) {
    const askedMs = nowMs();
    const lease = await tenure.acquire("baton", { ttl: "30s" });
    const grantedMs = nowMs();
    // Long enough for the other to ask again, and to wait.
    await sleep(2 * restMs);
    const releasingMs = nowMs();
    await lease.release();
    log.push({ pid: process.pid, askedMs, grantedMs, releasingMs });
    // The other has its turn: who released could take it again before it has heard.
    await sleep(restMs);
  }
  await tenure.close();
  say(log);
  process.exit(0);
}

await runRole(import.meta.url, { player });
