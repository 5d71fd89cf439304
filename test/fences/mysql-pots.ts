/** A server with a table of pots, its pool and fence, and somebody else in a transaction there. */
import { createConnection, createPool, type Connection, type Pool } from "mysql2/promise";
import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";
import { mysqlFence, type MysqlFence, type SqlTx } from "../../src/fences/mysql/open.js";
import { startMariadb, type MariadbServer } from "../servers/mariadb.js";

export type Run = (text: string) => Promise<unknown>;

export const WAITING = "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";

/** What a suite works with; its hooks are set. The four are new for each test, but the server. */
export interface Pots {
  readonly server: MariadbServer;
  readonly pool: Pool;
  /** Has changed rows 2 to 9, and not committed. */
  readonly other: Connection;
  readonly fence: MysqlFence;
  /** The values of rows. */
  pots(...ids: number[]): Promise<unknown[]>;
  /** Changes row 1, and then waits for row 2 while the other one waits for row 1. */
  deadlock(run: Run): Promise<void>;
  /** Through the fence, and on the library's own connection. */
  query(tx: SqlTx): Run;
  native(tx: SqlTx): Run;
  idOf(tx: SqlTx): Promise<unknown>;
  /** Whether connections of the pool are as they were. */
  checkPool(): Promise<void>;
}

export function usePots(): Pots {
  let server: MariadbServer;
  let pool: Pool;
  let other: Connection;
  let fence: MysqlFence;

  beforeAll(async () => {
    server = await startMariadb({ innodb_rollback_on_timeout: 1 });
  });
  afterAll(() => server.dispose());
  beforeEach(async () => {
    await server.query("CREATE OR REPLACE DATABASE app");
    await server.query("CREATE PROCEDURE app.done() BEGIN COMMIT; END");
    await server.query(
      `CREATE PROCEDURE app.half(seconds INT, ok INT)
        BEGIN
          UPDATE pot SET v = 'half' WHERE id = 14;
          COMMIT;
          IF seconds > 0 THEN SELECT SLEEP(seconds); END IF;
          IF ok = 0 THEN SIGNAL SQLSTATE '45000'; END IF;
        END`,
    );
    await server.query("CREATE TABLE app.pot (id INT PRIMARY KEY, v VARCHAR(9))");
    await server.query(
      "INSERT INTO app.pot WITH RECURSIVE n AS (SELECT 1 AS i UNION SELECT i + 1 FROM n " +
        "WHERE i < 20) SELECT i, '-' FROM n",
    );
    const uri = server.url.replace(/\/test$/, "/app");
    pool = createPool({ uri, connectionLimit: 2, multipleStatements: true });
    fence = mysqlFence(pool);
    other = await createConnection(uri);
    await other.query("START TRANSACTION");
    // The server gives up the transaction that has changed fewer rows.
    await other.query("UPDATE pot SET v = 'other' WHERE id BETWEEN 2 AND 9");
  });
  afterEach(async () => {
    await other.end();
    await pool.end();
  });

  const pots = async (...ids: number[]): Promise<unknown[]> => {
    const text = `SELECT v FROM app.pot WHERE id IN (${ids.join()}) ORDER BY id`;
    return (await server.query<{ v: string }>(text)).map(({ v }) => v);
  };
  /** Changes row 1, and then waits for row 2 while the other one waits for row 1. */
  async function deadlock(run: Run): Promise<void> {
    await run("UPDATE pot SET v = 'mine' WHERE id = 1");
    const crossed = other.query("UPDATE pot SET v = 'other' WHERE id = 1");
    while ((await server.query(WAITING)).length === 0) {
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
    await expect(run("UPDATE pot SET v = 'mine' WHERE id = 2")).rejects.toMatchObject({
      errno: 1213,
    });
    await crossed;
    await other.query("COMMIT");
  }
  const query = (tx: SqlTx): Run => (text) => tx.query(text);
  const native = ({ native: connection }: SqlTx): Run => (text) =>
    new Promise((resolve, reject) => {
      const library = connection as {
        query(text: string, done: (error: Error | null, rows: unknown) => void): void;
      };
      library.query(text, (error, rows) => (error === null ? resolve(rows) : reject(error)));
    });
  const idOf = async (tx: SqlTx): Promise<unknown> =>
    ((await native(tx)("SELECT CONNECTION_ID() AS id")) as [{ id: number }])[0].id;
  /** Whether connections of the pool are as they were. */
  async function checkPool(): Promise<void> {
    const both = await Promise.all([pool.getConnection(), pool.getConnection()]);
    for (const one of both) {
      const [[state]] = (await one.query(
        `SELECT @@autocommit AS a, @@tx_read_only AS r, @@in_transaction AS t,
          @@wait_timeout = @@GLOBAL.wait_timeout AS w`,
      )) as unknown as [[object]];
      expect(state).toEqual({ a: 1, r: 0, t: 0, w: 1 });
      one.release();
    }
  }

  return {
    get server() {
      return server;
    },
    get pool() {
      return pool;
    },
    get other() {
      return other;
    },
    get fence() {
      return fence;
    },
    pots,
    deadlock,
    query,
    native,
    idOf,
    checkPool,
  };
}
