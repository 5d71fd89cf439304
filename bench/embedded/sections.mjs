/** Eight processes want the same lock all the time. */
import { statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import lockfile from "proper-lockfile";
import { connect } from "tenure";
import { runRole, say, startChild } from "../children.mjs";
import { breath, nowMs, printTable, sleep } from "../figures.mjs";

const script = fileURLToPath(import.meta.url);
const PROCESSES = 8;
/** Peers have no queue: this is as eager as a caller would let them be. */
const EAGER = { forever: true, minTimeout: 5, maxTimeout: 20, randomize: true };

export async function sections(folder, isQuick) {
  const forMs = isQuick ? 2_000 : 6_000;
  const rows = [];
  for (const sectionMs of [1, 5]) {
    for (const kind of ["Tenure", "proper-lockfile, retrying every 5 to 20 ms"]) {
      const path = join(folder, `sections-${sectionMs}-${kind.length}.db`);
      const startMs = String(nowMs() + 3_000);
      const args = [script, "contender", kind, path, String(sectionMs), startMs, String(forMs)];
      const contenders = Array.from({ length: PROCESSES }, () => startChild(...args));
      const results = await Promise.all(contenders.map((contender) => contender.next()));
      const wal = statSync(`${path}-wal`, { throwIfNoEntry: false })?.size;
      await Promise.all(contenders.map((contender) => contender.end()));
      const total = results.reduce((sum, { count }) => sum + count, 0);
      const shares = results.map(({ count }) => (count * results.length) / total);
      rows.push([
        `${kind}, ${sectionMs} ms`,
        ((total * 1_000) / forMs).toFixed(0),
        `${Math.min(...shares).toFixed(2)} to ${Math.max(...shares).toFixed(2)}`,
        Math.max(...results.map(({ longestMs }) => longestMs)).toFixed(0),
        wal === undefined ? "" : (wal / 1_048_576).toFixed(1),
      ]);
    }
  }
  printTable(
    [
      `${PROCESSES} processes`, "sections/s", "share of the mean", "longest wait, ms",
      "write-ahead log, MiB",
    ],
    rows,
  );
}

async function entrance(kind, path) {
  if (kind === "Tenure") {
    const tenure = await connect(`sqlite:${path}`);
    return {
      async enter() {
        const lease = await tenure.acquire("section", { ttl: "10s" });
        return () => lease.release();
      },
      close: () => tenure.close(),
    };
  }
  const options = { realpath: false, retries: EAGER };
  return { enter: () => lockfile.lock(path, options), close: async () => undefined };
}

async function contender(kind, path, sectionMs, startMs, forMs) {
  const lock = await entrance(kind, path);
  await sleep(Number(startMs) - nowMs());
  const endMs = nowMs() + Number(forMs);
  let count = 0;
  let longestMs = 0;
  while (nowMs() < endMs) {
    const sinceMs = nowMs();
    const leave = await lock.enter();
    const enteredMs = nowMs();
    longestMs = Math.max(longestMs, Math.min(enteredMs, endMs) - sinceMs);
    if (enteredMs < endMs) count += 1;
    while (enteredMs < endMs && nowMs() < enteredMs + Number(sectionMs)) await breath();
    await leave();
  }
  say({ count, longestMs });
  await lock.close();
}

await runRole(import.meta.url, { contender });
