/**
 * Jobs added one after the other, and then worked off by one process with eight at a time.
 *
 * What they promise differs. Tenure: one at a time for each key, in the order of arrival, under a
 * lease with a token. graphile-worker: the same order within a named queue, which is locked as a
 * whole; or none. pg-boss: none; its jobs expire.
 */
import { makeWorkerUtils, run as runGraphile } from "graphile-worker";
import pg from "pg";
import PgBoss from "pg-boss";
import { queue as openQueue } from "tenure/queue";
import { inTurns, median, printTable } from "../figures.mjs";
import { withServer } from "../sql/servers.mjs";

const KEYS = 100;
const AT_ONCE = 8;
const keyOf = (n) => `k${n % KEYS}`;

/** Resolves when so many jobs have ended. */
function countdown(jobs) {
  let left = jobs;
  let end;
  const over = new Promise((resolve) => (end = resolve));
  return { over, done: () => --left === 0 && end() };
}

const quiet = { error() {}, warn() {}, info() {}, debug() {}, scope: () => quiet };

const subjects = {
  async "**Tenure**, one at a time for each of 100 keys"(url) {
    const q = await openQueue(url);
    return {
      add: (n) => q.add({ key: keyOf(n), payload: { n } }),
      async work(jobs) {
        const { over, done } = countdown(jobs);
        const stop = new AbortController();
        const options = { concurrency: AT_ONCE, lease: "30s", signal: stop.signal };
        const working = q.work(() => done(), options);
        await over;
        stop.abort();
        await working;
      },
      close: () => q.close(),
    };
  },
  async "graphile-worker, one at a time for each of 100 queues"(url) {
    return graphile(url, (n) => ({ queueName: keyOf(n) }));
  },
  async "graphile-worker, in any order"(url) {
    return graphile(url, () => ({}));
  },
  async "pg-boss, in any order, a job at a time"(url) {
    return boss(url, 1);
  },
  async "pg-boss, in any order, 100 jobs at a time"(url) {
    return boss(url, 100);
  },
};

async function graphile(url, how) {
  const pgPool = new pg.Pool({ connectionString: url, max: AT_ONCE + 2 });
  pgPool.on("error", () => undefined);
  const { Logger } = await import("graphile-worker");
  const logger = new Logger(() => () => undefined);
  const utils = await makeWorkerUtils({ pgPool, logger });
  await utils.migrate();
  return {
    add: (n) => utils.addJob("noop", { n }, how(n)),
    async work(jobs) {
      const { over, done } = countdown(jobs);
      const taskList = { noop: () => done() };
      const runner = await runGraphile({
        ...{ pgPool, logger, concurrency: AT_ONCE, noHandleSignals: true, pollInterval: 100 },
        taskList,
      });
      await over;
      await runner.stop();
    },
    async close() {
      await utils.release();
      await pgPool.end();
    },
  };
}

async function boss(url, batchSize) {
  const b = new PgBoss({ connectionString: url, supervise: false, schedule: false });
  b.on("error", () => undefined);
  await b.start();
  await b.createQueue("noop");
  return {
    add: (n) => b.send("noop", { n }),
    // Its own loop rests half a second between batches: fetched by hand, it need not.
    async work(jobs) {
      let left = jobs;
      const fetcher = async () => {
        while (left > 0) {
          const found = await b.fetch("noop", { batchSize });
          if (found.length === 0) return;
          await b.complete("noop", found.map(({ id }) => id));
          left -= found.length;
        }
      };
      await Promise.all(Array.from({ length: batchSize === 1 ? AT_ONCE : 1 }, fetcher));
    },
    close: () => b.stop({ graceful: false, wait: false }),
  };
}

export async function queue(isQuick) {
  const [rounds, jobs] = isQuick ? [1, 200] : [5, 2_000];
  for (const isFlushed of [false, true]) {
    const added = {};
    const worked = {};
    await withServer("postgres", isFlushed, async (url) => {
      const opened = new Map();
      for (const [name, open] of Object.entries(subjects)) opened.set(name, await open(url));
      const turns = {};
      for (const [name, { add, work }] of opened) {
        // Both peers of a pair use the same tables: what one adds, it works off in its turn.
        turns[name] = async () => {
          const startNs = process.hrtime.bigint();
          for (let n = 0; n < jobs; n++) await add(n);
          const addedNs = process.hrtime.bigint();
          await work(jobs);
          const perS = (ns) => jobs / (Number(ns) / 1e9);
          (added[name] ??= []).push(perS(addedNs - startNs));
          (worked[name] ??= []).push(perS(process.hrtime.bigint() - addedNs));
          return 0;
        };
      }
      await inTurns(turns, rounds, 1);
      for (const { close } of opened.values()) await close();
    });
    const last = (values) => median(values.slice(-rounds)).toFixed(0);
    printTable(
      [`queue, ${isFlushed ? "each commit flushed" : "nothing flushed"}`, "added/s", "worked/s"],
      Object.keys(subjects).map((name) => [name, last(added[name]), last(worked[name])]),
    );
  }
}
