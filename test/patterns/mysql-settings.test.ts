/** Defaults of a server that would change what statements mean. */
import { createPool } from "mysql2/promise";
import { expect, it, onTestFinished } from "vitest";
import { claims } from "../../src/claims/open.js";
import { connect } from "../../src/connect.js";
import { mysqlFence } from "../../src/fences/mysql/open.js";
import { idempotency } from "../../src/idempotency/open.js";
import { describeOn } from "../servers/find.js";
import { mariadbProgram, startMariadb, type MariadbConfig } from "../servers/mariadb.js";

async function urlOf(config: MariadbConfig): Promise<string> {
  const server = await startMariadb(config);
  onTestFinished(() => server.dispose());
  return server.url;
}

describeOn(mariadbProgram, "patterns on a MariaDB", () => {
  it("whose empty texts are NULL list from the beginning, and compare no input", async () => {
    const url = await urlOf({ "sql-mode": "EMPTY_STRING_IS_NULL" });
    const c = await claims(url);
    onTestFinished(() => c.close());
    await c.claim("a", "me");
    expect((await c.list()).map(({ key }) => key)).toEqual(["a"]);
    const i = await idempotency(url);
    onTestFinished(() => i.close());
    expect(await i.once("k", {}, () => 1)).toEqual({ result: 1, replayed: false });
    expect(await i.once("k", {}, () => 2)).toEqual({ result: 1, replayed: true });
  });

  it("whose empty texts are NULL list all leases, and have fences whose marks begin empty", async () => {
    const url = await urlOf({ "sql-mode": "EMPTY_STRING_IS_NULL" });
    const tenure = await connect(url);
    onTestFinished(() => tenure.close());
    const lease = await tenure.acquire("a");
    const names: string[] = [];
    for await (const { name } of tenure.list()) names.push(name);
    expect(names).toEqual(["a"]);
    const pool = createPool(url);
    onTestFinished(() => pool.end());
    await pool.query("CREATE TABLE account (id VARCHAR(20) PRIMARY KEY, cents INT) ENGINE = InnoDB");
    const fence = mysqlFence(pool);
    await fence.install({ table: "account", resource: "id" });
    const handle = await fence.arm(lease, "7");
    await handle.write((tx) => tx.query("INSERT INTO account VALUES ('7', 1)"));
    await expect(pool.query("UPDATE account SET cents = 2")).rejects.toMatchObject({ sqlState: "TN010" });
    await fence.bypass("a load", (tx) => tx.query("UPDATE account SET cents = 3"));
    await fence.uninstall({ table: "account" });
    expect((await pool.query("SELECT cents FROM account"))[0]).toEqual([{ cents: 3 }]);
  });

  it("whose transactions only read have ones that write, and are as before then", async () => {
    const pool = createPool({
      uri: await urlOf({ "transaction-read-only": 1 }),
      connectionLimit: 1,
    });
    onTestFinished(() => pool.end());
    const c = await claims(pool);
    onTestFinished(() => c.close());
    expect(await c.claim("a", "me")).toBe(true);
    const [rows] = await pool.query("SELECT @@SESSION.tx_read_only AS is_reading");
    expect(rows).toEqual([{ is_reading: 1 }]);
  });
});
