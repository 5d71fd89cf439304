/** A process of its own: opens a store, does one thing, says how it went in a line of JSON. */
import { connect } from "../../../src/connect.js";
import { mysql } from "../../../src/backends/mysql/open.js";

const [url, schema, order] = process.argv.slice(2) as [string, string, "open" | "wait"];
const backend = await mysql(url, { schema });
const tenure = await connect(backend);
if (order === "open") {
  await tenure.hold(`child ${process.pid}`, async () => undefined);
  console.log(JSON.stringify({ storeId: backend.storeId }));
} else {
  console.log(JSON.stringify({ waits: true }));
  const lease = await tenure.acquire("wanted", { ttl: "20s", wait: "20s" });
  console.log(JSON.stringify({ token: String(lease.token) }));
  await lease.release();
}
await tenure.close();
