/**
 * Locks on an SQL server, and what they are measured against, each over a client library: `pair`
 * takes a free lock and gives it back.
 */
import advisory from "advisory-lock";
import mysql2 from "mysql2/promise";
import pg from "pg";
import postgresJs from "postgres";
import { connect } from "tenure";
import { mysql } from "tenure/backends/mysql";
import { postgres } from "tenure/backends/postgres";
import { postgresAdvisory } from "tenure/backends/postgres-advisory";
import { versionOf } from "../figures.mjs";

const RAW = "UPDATE bench_pair SET n = n + 1 WHERE id = $1";
/** Rows beside the one that is updated: the index has more than one page. */
const ROWS = 10_000;

const tableOf = (series) => [
  "CREATE TABLE IF NOT EXISTS bench_pair (id INTEGER PRIMARY KEY, n BIGINT NOT NULL)",
  `INSERT INTO bench_pair (id, n) ${series}`,
];

/** Makes what the raw subjects update. */
export const tables = {
  postgres: async (server) => {
    const series = `SELECT i, 0 FROM generate_series(1, ${ROWS}) AS i`;
    for (const text of tableOf(series)) await server.query(text);
    await server.query("VACUUM ANALYZE");
  },
  mysql: async (server) => {
    for (const text of tableOf(`SELECT seq, 0 FROM seq_1_to_${ROWS}`)) await server.query(text);
  },
};

const pgPool = (url) => new pg.Pool({ connectionString: url });
const sqlPool = (url) => postgresJs(url, { onnotice: () => undefined });

/** A subject that updates one row, and then another, each in a transaction of its own. */
const twice = (update) => ({
  async pair() {
    await update(7);
    await update(9_007);
  },
});

/** @param pool ended with the tenure, whose backend it carries */
async function withTenure(backend, pool) {
  const tenure = await connect(backend);
  return {
    tenure,
    async pair(name) {
      const lease = await tenure.tryAcquire(name);
      await lease.release();
    },
    async close() {
      await tenure.close();
      await pool?.end();
    },
  };
}

/** Makers by server and name; the first of each group is what the others are measured against. */
export const subjects = {
  postgres: {
    "raw pg, prepared": async (url) => {
      const pool = pgPool(url);
      const update = (id) => pool.query({ name: "raw", text: RAW, values: [id] });
      return { ...twice(update), close: () => pool.end() };
    },
    "raw pg": async (url) => {
      const pool = pgPool(url);
      return twice((id) => pool.query(RAW, [id]));
    },
    "Tenure, pg": async (url) => {
      const pool = pgPool(url);
      return withTenure(await postgres(pool), pool);
    },
    "Tenure, session locks, pg": async (url) => withTenure(await postgresAdvisory(url)),
    "advisory-lock": async (url) => {
      const mutexes = advisory.default(url);
      return { pair: async (name) => (await mutexes(name).tryLock())() };
    },
    "raw postgres, prepared": async (url) => {
      const sql = sqlPool(url);
      return twice((id) => sql.unsafe(RAW, [id], { prepare: true }));
    },
    "raw postgres": async (url) => {
      const sql = sqlPool(url);
      return twice((id) => sql.unsafe(RAW, [id]));
    },
    "Tenure, postgres": async (url) => withTenure(await postgres(sqlPool(url))),
  },
  mysql: {
    "raw mysql2, prepared": async (url) => {
      const pool = mysql2.createPool(url);
      const update = (id) => pool.execute(RAW.replace("$1", "?"), [id]);
      return { ...twice(update), close: () => pool.end() };
    },
    "raw mysql2": async (url) => {
      const pool = mysql2.createPool(url);
      return twice((id) => pool.query(RAW.replace("$1", "?"), [id]));
    },
    "Tenure, mysql2": async (url) => {
      const pool = mysql2.createPool(url);
      return withTenure(await mysql(pool), pool);
    },
  },
};

export const versions = ["pg", "postgres", "mysql2", "advisory-lock"].map(
  (name) => `${name} ${versionOf(name)}`,
);
