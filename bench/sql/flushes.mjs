/**
 * What disks that flush more slowly than this one make of a pair on PostgreSQL: the same work, and
 * a longer wait in each commit that waits for the disk.
 */
import pg from "pg";
import { connect } from "tenure";
import { postgres } from "tenure/backends/postgres";
import { inTurns, median, printTable, ratio } from "../figures.mjs";
import { withServer } from "./servers.mjs";
import { subjects, tables } from "./subjects.mjs";

/** How much slower a flush is made, microseconds: a server sleeps before it. */
const SLOWER_US = [0, 100, 250, 500, 1_000, 2_000];

export async function flushes(isQuick) {
  const [rounds, times] = isQuick ? [10, 30] : [30, 60];
  const rows = [];
  for (const slowerUs of SLOWER_US) {
    await withServer(
      "postgres",
      true,
      async (url, server) => {
        await tables.postgres(server);
        const raw = await subjects.postgres["raw pg, prepared"](url);
        const pool = new pg.Pool({ connectionString: url });
        const tenure = await connect(await postgres(pool));
        const timed = (pair) => async () => {
          const start = performance.now();
          for (let i = 0; i < times; i++) await pair();
          return (performance.now() - start) / times;
        };
        const took = await inTurns(
          {
            raw: timed(() => raw.pair()),
            tenure: timed(async () => (await tenure.tryAcquire("bench:pair")).release()),
          },
          rounds,
        );
        await tenure.close();
        await Promise.all([pool.end(), raw.close()]);
        const us = (name) => (median(took.get(name)) * 1_000).toFixed(0);
        const share = ratio(took.get("tenure"), took.get("raw")).toFixed(2);
        rows.push([`${slowerUs}`, us("raw"), us("tenure"), share]);
      },
      slowerUs,
    );
  }
  printTable(
    ["flush slower by, µs", "two raw updates, µs", "Tenure, µs per pair", "× raw"],
    rows,
  );
}
