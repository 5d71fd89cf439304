// Holds a lease, blocks its event loop past the deadline, and says what it sees first.
import { connect } from "tenure";

const tenure = await connect(process.argv[2]);
const lease = await tenure.acquire("x", { ttl: 500 });
let aborted = false;
lease.signal.addEventListener("abort", () => (aborted = true));
process.stdout.write(`${lease.token}\n`);
const until = performance.now() + 900;
while (performance.now() < until);
const state = lease.state;
await new Promise((turn) => setImmediate(turn));
process.stdout.write(`${JSON.stringify({ state, aborted, remaining: lease.remaining() })}\n`);
await tenure.close();
