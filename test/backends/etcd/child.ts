/** A process that waits for a lease, says what it gets, and holds it until it is killed. */
import { connect } from "../../../src/connect.js";

const [url, name] = process.argv.slice(2) as [string, string];
const tenure = await connect(url);
const lease = await tenure.acquire(name, { ttl: "2s" });
process.stdout.write(`${lease.token}\n`);
