/** How long a renewal takes while the caller's pool has nothing free. */
import mysql2 from "mysql2/promise";
import pg from "pg";
import { mysql } from "tenure/backends/mysql";
import { postgres } from "tenure/backends/postgres";
import { printTable, quantile, sleep } from "../figures.mjs";
import { withServer } from "./servers.mjs";

const POOL = 10;
const TTL_MS = 30_000;
const EVERY_MS = 5;

const kinds = {
  async postgres(url) {
    const pool = new pg.Pool({ connectionString: url, max: POOL });
    const occupy = () => pool.query("SELECT pg_sleep(1)");
    return { backend: await postgres(pool), occupy, end: () => pool.end() };
  },
  async mysql(url) {
    const pool = mysql2.createPool({ uri: url, connectionLimit: POOL });
    const occupy = () => pool.query("SELECT SLEEP(1)");
    return { backend: await mysql(pool), occupy, end: () => pool.end() };
  },
};

const call = () => ({ signal: new AbortController().signal, timeoutMs: 5_000 });

async function renewals(backend, grant, times) {
  const took = [];
  for (let i = 0; i < times; i++) {
    const start = performance.now();
    const [outcome] = await backend.renew([grant], call());
    if (outcome !== "renewed") throw new Error(`not renewed: ${JSON.stringify(outcome)}`);
    took.push(performance.now() - start);
    await sleep(EVERY_MS);
  }
  return took;
}

export async function busy(isQuick) {
  const [rounds, times] = isQuick ? [2, 50] : [8, 100];
  const rows = [];
  for (const [kind, open] of Object.entries(kinds)) {
    await withServer(kind, false, async (url) => {
      const { backend, occupy, end } = await open(url);
      await backend.open(call());
      const request = { name: "busy", holder: "holder", ttlMs: TTL_MS, wait: false };
      const { grant } = await backend.acquire(request, call());
      const took = { "pool idle": [], "all ten connections busy": [] };
      await renewals(backend, grant, times);
      for (let round = 0; round < rounds; round++) {
        took["pool idle"].push(...(await renewals(backend, grant, times)));
        let isOver = false;
        const users = Array.from({ length: POOL }, async () => {
          while (!isOver) await occupy();
        });
        took["all ten connections busy"].push(...(await renewals(backend, grant, times)));
        isOver = true;
        await Promise.all(users);
      }
      for (const [what, values] of Object.entries(took)) {
        const at = [0.5, 0.99].map((share) => quantile(values, share).toFixed(2));
        rows.push([`${kind}, ${what}`, ...at, Math.max(...values).toFixed(1)]);
      }
      await backend.close();
      await end();
    });
  }
  printTable(["a renewal, asked to answered", "p50, ms", "p99", "longest"], rows);
}
