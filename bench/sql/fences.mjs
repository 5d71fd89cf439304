/** What the check of the mark, and the triggers of a fenced table, add to a write. */
import mysql2 from "mysql2/promise";
import pg from "pg";
import { connect } from "tenure";
import { mysqlFence } from "tenure/fences/mysql";
import { postgresFence } from "tenure/fences/postgres";
import { inTurns, median, printTable, ratio } from "../figures.mjs";
import { withServer } from "./servers.mjs";

const BULK = 1_000;

const kinds = {
  async postgres(url, server) {
    const pool = new pg.Pool({ connectionString: url, max: 2 });
    return {
      fence: postgresFence(pool),
      script: (text) => server.query(text),
      series: `generate_series(1, ${BULK}) AS s (i)`,
      async transaction(text) {
        const client = await pool.connect();
        await client.query("BEGIN");
        await client.query(text);
        await client.query("COMMIT");
        client.release();
      },
      end: () => pool.end(),
    };
  },
  async mysql(url, server) {
    const pool = mysql2.createPool({ uri: url, connectionLimit: 2 });
    return {
      fence: mysqlFence(pool),
      script: (text) => server.query(text),
      series: `(SELECT seq AS i FROM seq_1_to_${BULK}) AS s`,
      async transaction(text) {
        const connection = await pool.getConnection();
        await connection.query("START TRANSACTION");
        await connection.execute(text);
        await connection.query("COMMIT");
        connection.release();
      },
      end: () => pool.end(),
    };
  },
};

async function compare(kind, isFlushed, rounds, times) {
  await withServer(kind, isFlushed, async (url, server) => {
    const { fence, script, series, transaction, end } = await kinds[kind](url, server);
    for (const table of ["plain", "fenced"]) {
      await script(`CREATE TABLE ${table}
        (id INTEGER PRIMARY KEY, owner VARCHAR(20) NOT NULL, n INTEGER NOT NULL)`);
      await script(`INSERT INTO ${table} SELECT i, 'a', 0 FROM ${series}`);
    }
    const tenure = await connect("memory:");
    const handle = await fence.arm(await tenure.acquire("a", { ttl: "1h" }), "a");
    await fence.install({ table: "fenced", resource: "owner" });
    const one = (table) => `UPDATE ${table} SET n = n + 1 WHERE id = 7`;
    const all = (table) => `UPDATE ${table} SET n = n + 1`;
    const timed = (work, units = times) => async () => {
      const start = performance.now();
      for (let i = 0; i < units; i++) await work();
      return (performance.now() - start) / units;
    };
    const took = await inTurns(
      {
        "one row: a transaction": timed(() => transaction(one("plain"))),
        "one row: a write of a handle": timed(() => handle.write((tx) => tx.query(one("plain")))),
        "one row: the same, table fenced": timed(() =>
          handle.write((tx) => tx.query(one("fenced"))),
        ),
        "1,000 rows: a transaction": timed(() => transaction(all("plain")), 1),
        "1,000 rows: a write of a handle": timed(
          () => handle.write((tx) => tx.query(all("plain"))),
          1,
        ),
        "1,000 rows: the same, table fenced": timed(
          () => handle.write((tx) => tx.query(all("fenced"))),
          1,
        ),
      },
      rounds,
    );
    const base = (name) => took.get(`${name.split(":")[0]}: a transaction`);
    printTable(
      [`${kind}, ${isFlushed ? "each commit flushed" : "nothing flushed"}`, "ms", "× transaction"],
      [...took].map(([name, values]) => [
        name,
        median(values).toFixed(2),
        ratio(values, base(name)).toFixed(2),
      ]),
    );
    await tenure.close();
    await end();
  });
}

export async function fences(isQuick) {
  const [rounds, times] = isQuick ? [8, 10] : [40, 20];
  for (const kind of Object.keys(kinds)) {
    for (const isFlushed of [true, false]) await compare(kind, isFlushed, rounds, times);
  }
}
