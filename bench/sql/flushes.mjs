/**
 * What disks that flush more slowly than this one make of a pair: the same work, and a longer wait
 * in each commit that waits for the disk.
 */
import { inTurns, median, printTable, ratio } from "../figures.mjs";
import { withServer } from "./servers.mjs";
import { subjects, tables } from "./subjects.mjs";

/** How much slower a commit is made, microseconds: a server sleeps in it. */
const SLOWER_US = [0, 100, 250, 500, 1_000, 2_000];
const COMPARED = {
  postgres: ["raw pg, prepared", "Tenure, pg"],
  mysql: ["raw mysql2, prepared", "Tenure, mysql2"],
};

async function compare(kind, [raw, tenure], slowerUs, rounds, times) {
  let row;
  const part = async (url, server) => {
    await tables[kind](server);
    const locks = {};
    for (const name of [raw, tenure]) locks[name] = await subjects[kind][name](url);
    const timed = Object.entries(locks).map(([name, lock]) => [
      name,
      async () => {
        const start = performance.now();
        for (let i = 0; i < times; i++) await lock.pair("bench:pair");
        return (performance.now() - start) / times;
      },
    ]);
    const took = await inTurns(Object.fromEntries(timed), rounds);
    for (const lock of Object.values(locks)) await lock.close();
    const us = (name) => (median(took.get(name)) * 1_000).toFixed(0);
    row = [slowerUs, us(raw), us(tenure), ratio(took.get(tenure), took.get(raw)).toFixed(2)];
  };
  await withServer(kind, true, part, slowerUs);
  return row;
}

export async function flushes(isQuick) {
  const [rounds, times] = isQuick ? [10, 30] : [30, 60];
  for (const [kind, names] of Object.entries(COMPARED)) {
    const rows = [];
    for (const slowerUs of SLOWER_US) {
      rows.push(await compare(kind, names, slowerUs, rounds, times));
    }
    printTable([`${kind}: commits slower by, µs`, "raw, µs", "Tenure, µs", "× raw"], rows);
  }
}
