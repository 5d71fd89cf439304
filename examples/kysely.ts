/**
 * A fenced write in a Kysely transaction: it can only be committed by the newest holder.
 *
 * Expects the URL of a Postgres database as its argument, and makes the table `account` there.
 */
import { CompiledQuery, Kysely, PostgresDialect, type Transaction } from "kysely";
import { Pool } from "pg";
import { connect } from "tenure";
import { postgres } from "tenure/backends/postgres";
import { postgresFence, type RunSql } from "tenure/fences/postgres";

interface Tables {
  account: { id: number; balance: number };
}

/** How the fence runs its statements in a transaction of Kysely. */
function runIn(trx: Transaction<Tables>): RunSql {
  return (text, values) => trx.executeQuery(CompiledQuery.raw(text, values));
}

const pool = new Pool({ connectionString: process.argv[2] });
const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
const tenure = await connect(await postgres(pool));
const accounts = postgresFence(pool);

await db.schema
  .createTable("account")
  .addColumn("id", "integer", (column) => column.primaryKey())
  .addColumn("balance", "integer", (column) => column.notNull())
  .execute();
await accounts.install({ table: "account", resource: "id", prefix: "accounts/" });

await tenure.hold(
  "acct:7",
  { arm: { account: accounts.resource("accounts/7") } },
  async (_lease, { account }) => {
    await db.transaction().execute(async (trx) => {
      await accounts.within(runIn(trx), account);
      await trx.insertInto("account").values({ id: 7, balance: 100 }).execute();
    });
  },
);

// Everybody else is refused, whatever they write with.
const refused = await db
  .updateTable("account")
  .set({ balance: 0 })
  .execute()
  .catch((error: unknown) => error);
console.log((refused as Error).message);
console.log(await db.selectFrom("account").selectAll().execute());

await tenure.close();
await db.destroy();
