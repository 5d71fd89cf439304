import { createPool as createCallbackPool } from "mysql2";
import { createPool } from "mysql2/promise";
import { afterAll, beforeAll } from "vitest";
import type { MysqlParts } from "../../src/fences/mysql/client.js";
import { Marks } from "../../src/fences/mysql/marks.js";
import { mysqlParts } from "../../src/fences/mysql/open.js";
import { toHex } from "../../src/dialects/mysql.js";
import { Setup } from "../../src/fences/mysql/setup.js";
import { mysqlTransactions } from "../../src/fences/mysql/transactions.js";
import { sqlStore } from "../../src/fences/sql-store.js";
import type { SqlTx } from "../../src/fences/sql-work.js";
import { describeOn } from "../servers/find.js";
import { mariadbProgram, startMariadb, type MariadbServer } from "../servers/mariadb.js";
import { fenceSuite } from "./suite.js";

interface Opened {
  readonly parts: MysqlParts;
  end(): unknown;
}

function suite(title: string, connect: (url: string) => Opened): void {
  describeOn(mariadbProgram, title, () => {
    let server: MariadbServer;
    let opened: Opened;
    let count = 0;
    beforeAll(async () => {
      server = await startMariadb();
      opened = connect(server.url);
    });
    afterAll(async () => {
      await opened.end();
      await server.dispose();
    });
    fenceSuite<SqlTx, SqlTx>({
      name: title,
      work: "async",
      open: async () => {
        const { parts } = opened;
        const schema = `fence${count++}`;
        const table = `${schema}.account`;
        const transactions = mysqlTransactions(parts, 5_000);
        const setup = new Setup(parts, schema, true);
        await setup.ready();
        await server.query(
          `CREATE TABLE ${table} (id VARBINARY(512) PRIMARY KEY, value INT) ENGINE = InnoDB`,
        );
        const get = async (tx: SqlTx, id: string): Promise<number | undefined> => {
          const text = `SELECT value FROM ${table} WHERE id = UNHEX(?)`;
          return (await tx.query<{ value: number }>(text, [toHex(id)]))[0]?.value;
        };
        const upsert = (change: string): string =>
          `INSERT INTO ${table} VALUES (UNHEX(?), ?) ON DUPLICATE KEY UPDATE value = ${change}`;
        return {
          store: sqlStore({
            kind: "mysql", transactions, setup, marks: new Marks(`${schema}.`),
            unsettled: new Set(),
          }),
          get,
          put: (tx, id, value) => void tx.query(upsert("VALUES(value)"), [toHex(id), value]),
          add: async (tx, id, amount) => {
            await tx.query(upsert("value + VALUES(value)"), [toHex(id), amount]);
            return (await get(tx, id))!;
          },
          loseMark: async (resource) => {
            await server.query(`DROP TRIGGER ${schema}.tenure_fence_mark_stays`);
            const marks = `${schema}.tenure_fence_mark`;
            await server.query(`DELETE FROM ${marks} WHERE resource = UNHEX(?)`, [toHex(resource)]);
          },
          close: async () => undefined,
        };
      },
    });
  });
}

suite("mysql fence, a pool with promises", (url) => {
  const pool = createPool({ uri: url });
  return { parts: mysqlParts(pool), end: () => pool.end() };
});
suite("mysql fence, a pool with callbacks", (url) => {
  const pool = createCallbackPool({ uri: url });
  return {
    parts: mysqlParts(pool),
    end: () => new Promise<void>((resolve) => pool.end(() => resolve())),
  };
});
