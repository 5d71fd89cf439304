/** From the release in one process to the grant in another, and from a holder's death to it. */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { connect } from "tenure";
import { runRole, say, startChild } from "../children.mjs";
import { nowMs, printTable, quantile, sleep } from "../figures.mjs";

const script = fileURLToPath(import.meta.url);
/** Turns at both ends in which one of the two may be alone. */
const ALONE = 20;

export async function handover(folder, isQuick) {
  const path = join(folder, "handover.db");
  const times = String(isQuick ? 150 : 500);
  const players = [0, 1].map(() => startChild(script, "player", path, times));
  const logs = await Promise.all(players.map((player) => player.next()));
  await Promise.all(players.map((player) => player.end()));
  const grants = logs.flat().sort((a, b) => a.grantedMs - b.grantedMs);
  const gaps = [];
  for (let i = ALONE + 1; i < grants.length - ALONE; i++) {
    const [before, after] = [grants[i - 1], grants[i]];
    if (after.pid !== before.pid) gaps.push(after.grantedMs - before.releasingMs);
  }
  const killed = [];
  for (let i = 0; i < (isQuick ? 4 : 12); i++) killed.push(await kill(path));
  const row = (name, values) => [
    name,
    values.length,
    ...[0.5, 0.99].map((share) => quantile(values, share).toFixed(1)),
    Math.max(...values).toFixed(1),
  ];
  printTable(
    ["2 processes", "times", "p50, ms", "p99", "longest"],
    [row("lease released to lease granted", gaps), row("holder killed to lease granted", killed)],
  );
}

async function kill(path) {
  const victim = startChild(script, "holder", path);
  await victim.next();
  const waiter = startChild(script, "waiter", path);
  await waiter.next();
  const atMs = nowMs();
  victim.kill();
  const { grantedMs } = await waiter.next();
  await waiter.end();
  return grantedMs - atMs;
}

async function player(path, times) {
  const tenure = await connect(`sqlite:${path}`);
  const log = [];
  for (let i = 0; i < Number(times); i++) {
    const lease = await tenure.acquire("baton", { ttl: "10s" });
    const grantedMs = nowMs();
    await sleep(1);
    const releasingMs = nowMs();
    await lease.release();
    log.push({ pid: process.pid, grantedMs, releasingMs });
  }
  await tenure.close();
  say(log);
}

async function holder(path) {
  const tenure = await connect(`sqlite:${path}`);
  await tenure.acquire("held", { ttl: "60s" });
  say({});
}

async function waiter(path) {
  const tenure = await connect(`sqlite:${path}`);
  const acquiring = tenure.acquire("held", { ttl: "60s" });
  await sleep(100);
  say({});
  const lease = await acquiring;
  say({ grantedMs: nowMs() });
  await lease.release();
  await tenure.close();
}

await runRole(import.meta.url, { player, holder, waiter });
