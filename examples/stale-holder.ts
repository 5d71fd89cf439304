// A holder that was frozen wakes up and goes on: its row is refused by the fence, and the mail and
// the charge, which no fence can refuse, arrive a second time and are taken once.
//   node stale-holder.mjs FOLDER
import path from "node:path";
import { connect, type TokenBearer } from "tenure";
import { sqliteFence } from "tenure/fences/sqlite";
import { inbox } from "tenure/inbox";

const folder = process.argv[2] ?? ".";
const tenure = await connect(`sqlite:${path.join(folder, "locks.db")}`);
const orders = sqliteFence(path.join(folder, "orders.db"));
const receiver = await inbox(`sqlite:${path.join(folder, "receiver.db")}`);

/** Mail and payment live elsewhere: they know each message by its id, and act once. */
let [mails, charges] = [0, 0];
const mail = (id: string): Promise<boolean> => receiver.once(id, "mail", () => void mails++);
const charge = (id: string): Promise<boolean> => receiver.once(id, "bank", () => void charges++);

async function ship(order: number, bearer: TokenBearer): Promise<string> {
  // What cannot be fenced has an id that every try shares: the order's, not the holder's.
  await mail(`order ${order} shipped`);
  await charge(`order ${order}`);
  try {
    const row = await orders.arm(bearer, `order/${order}`);
    await row.write((tx) => {
      tx.exec("CREATE TABLE IF NOT EXISTS shipped (id INTEGER PRIMARY KEY, token TEXT)");
      tx.run("INSERT INTO shipped VALUES (?, ?)", order, String(bearer.token));
    });
    return "shipped";
  } catch (error) {
    return (error as Error).name;
  }
}

const first = await tenure.acquire("order:7", { ttl: "1m" });
const { name, token, holder, storeId } = first;
// What the frozen holder still believes: its token, in a process that heard of nothing.
const frozen = { name, token, holder, storeId };
await tenure.break("order:7", { token, reason: "its host hangs" });
const second = await tenure.acquire("order:7");
console.log("the successor:", await ship(7, second));
console.log("the frozen one:", await ship(7, frozen));
console.log(`${mails} mail, ${charges} charge`);
await second.release();
await receiver.close();
await tenure.close();
