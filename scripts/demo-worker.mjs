// One worker of the demo: takes the lease, arms the fence, reads, and writes when told to.
//   node demo-worker.mjs DATABASE AMOUNT
import { createInterface } from "node:readline";
import { connect } from "tenure";
import { sqliteFence } from "tenure/fences/sqlite";

const [database, amount] = process.argv.slice(2);
const tell = (event, facts = {}) =>
  process.stdout.write(`${JSON.stringify({ event, ...facts })}\n`);

const orders = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const tenure = await connect(`sqlite:${database}`);
tell("waiting");
const lease = await tenure.acquire("payout", { ttl: "2s" });
tell("granted", { token: String(lease.token) });

// The write of this worker is to be one that is past every check of its own when it freezes, so
// the fence gets what would travel to a remote resource: no signal, no clock.
const { name, token, holder, storeId } = lease;
const balances = sqliteFence(database);
const balance = await balances.arm({ name, token, holder, storeId }, "account/7");
const before = await balance.read((tx) => tx.get("SELECT amount FROM account WHERE id = 7").amount);
tell("armed", { read: String(before) });

await orders.next();
const state = lease.state;
try {
  const after = before + BigInt(amount);
  await balance.write((tx) => tx.run("UPDATE account SET amount = ? WHERE id = 7", after));
  tell("wrote", { state, value: String(after) });
} catch (error) {
  tell("refused", { state, code: error.code, mark: String(error.mark?.token) });
}
await tenure.close();
process.exit();
