/** A process that stays inside a fenced write; its lease has as much time left as it is told. */
import { createPool } from "mysql2/promise";
import { mysqlFence } from "../../src/fences/mysql/open.js";
import { bearer } from "./bearers.js";

const [url = "", leftMs = "0"] = process.argv.slice(2);
const pool = createPool({ uri: url });
const say = (line: unknown): void => void process.stdout.write(`${JSON.stringify(line)}\n`);

const until = performance.now() + Number(leftMs);
const lease = bearer(5, { remaining: () => Math.max(0, until - performance.now()) });
const account = await mysqlFence(pool).arm(lease, "a");
try {
  await account.write(async (tx) => {
    await tx.query("UPDATE account SET balance = 6");
    say("inside");
    await new Promise(() => undefined);
  });
} catch (error) {
  say((error as Error).name);
}
await pool.end();
