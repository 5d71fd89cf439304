// A member of a consumer group that writes each message to a fenced table, and commits it. With
// "hold" it stops before its first write until it is told to go on, and tells what became of it.
import { createInterface } from "node:readline";
import pg from "pg";
import { connect } from "tenure";
import { postgresFence } from "tenure/fences/postgres";
import { kafkaPartitions } from "tenure/partitions/kafka";

const { url, broker, topic, sessionTimeout, by, hold } = JSON.parse(process.argv[2]);
const pool = new pg.Pool({ connectionString: url, max: 4 });
pool.on("error", () => undefined);
const fence = postgresFence(pool);
const tenure = await connect(url);
const brokers = [broker];
const group = await kafkaPartitions(tenure, { brokers, groupId: "g", topic, sessionTimeout });

await group.run(async (partition) => {
  const { name, token, holder, storeId, revoked } = partition;
  // Without the signal of the partition: the fence alone decides.
  const handle = await fence.arm({ name, token, holder, storeId }, `orders/${partition.partition}`);
  const write = (message) =>
    handle.write((tx) => {
      const row = [partition.partition, String(message.offset), String(token), by];
      return tx.query("INSERT INTO written VALUES ($1, $2, $3, $4)", row);
    });
  for await (const message of partition.messages()) {
    if (!hold) {
      await write(message);
      await partition.commit(message);
      continue;
    }
    process.stdout.write(`${JSON.stringify({ holding: partition.partition })}\n`);
    await createInterface({ input: process.stdin })[Symbol.asyncIterator]().next();
    const written = await outcome(write(message));
    const committed = await outcome(partition.commit(message));
    const state = partition.state;
    process.stdout.write(`${JSON.stringify({ written, committed, state })}\n`);
    if (!revoked.aborted) throw new Error("it still believes to own the partition");
  }
}, { signal: ending() });
await tenure.close();
await pool.end();

async function outcome(done) {
  try {
    await done;
    return "done";
  } catch (error) {
    return error.name;
  }
}

function ending() {
  const stop = new AbortController();
  process.once("SIGTERM", () => stop.abort());
  return stop.signal;
}
