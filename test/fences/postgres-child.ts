/** A process that stays inside a fenced write; its lease has as much time left as it is told. */
import { Pool } from "pg";
import { postgresFence } from "../../src/fences/postgres/open.js";
import { bearer } from "./bearers.js";

const [url = "", leftMs = "0"] = process.argv.slice(2);
const pool = new Pool({ connectionString: url });
pool.on("error", () => undefined);
const say = (line: unknown): void => void process.stdout.write(`${JSON.stringify(line)}\n`);

const until = performance.now() + Number(leftMs);
const lease = bearer(5, { remaining: () => Math.max(0, until - performance.now()) });
const account = await postgresFence(pool).arm(lease, "a");
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
