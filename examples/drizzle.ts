/**
 * A fenced write with Drizzle, both ways round: the fence inside a transaction of Drizzle's, and
 * Drizzle inside a transaction of the fence's.
 *
 * Expects the URL of a Postgres database as its argument, and makes the table `account` there.
 */
import { eq, sql, type SQL } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { integer, pgTable } from "drizzle-orm/pg-core";
import { Pool, type PoolClient } from "pg";
import { connect } from "tenure";
import { postgres } from "tenure/backends/postgres";
import { postgresFence, type RunSql } from "tenure/fences/postgres";

const account = pgTable("account", {
  id: integer("id").primaryKey(),
  balance: integer("balance").notNull(),
});

/** How the fence runs its statements in a transaction of Drizzle. */
function runIn(tx: { execute(query: SQL): PromiseLike<unknown> }): RunSql {
  return (text, values) => {
    // Text, number of a parameter, text, and so on.
    const parts = text.split(/\$(\d+)/);
    const bound = parts.map((part, i) => (i % 2 === 0 ? sql.raw(part) : sql`${values[+part - 1]}`));
    return tx.execute(sql.join(bound));
  };
}

const pool = new Pool({ connectionString: process.argv[2] });
const db = drizzle(pool);
const tenure = await connect(await postgres(pool));
const accounts = postgresFence(pool);

await db.execute("CREATE TABLE account (id integer PRIMARY KEY, balance integer NOT NULL)");
await accounts.install({ table: "account", resource: "id", prefix: "accounts/" });

await tenure.hold(
  "acct:7",
  { arm: { handle: accounts.resource("accounts/7") } },
  async (_lease, { handle }) => {
    await db.transaction(async (tx) => {
      await accounts.within(runIn(tx), handle);
      await tx.insert(account).values({ id: 7, balance: 100 });
    });
    await handle.write(async (tx) => {
      const inside = drizzle(tx.native as PoolClient);
      await inside.update(account).set({ balance: 150 }).where(eq(account.id, 7));
    });
  },
);

// Everybody else is refused, whatever they write with.
const refused = await db
  .update(account)
  .set({ balance: 0 })
  .catch((error: unknown) => error);
console.log(((refused as Error).cause as Error).message);
console.log(await db.select().from(account));

await tenure.close();
await pool.end();
