/** A process that waits for a lease, says what it gets, and holds it until it is killed. */
import { connect } from "../../../src/connect.js";

const [url, name] = process.argv.slice(2) as [string, string];
const tenure = await connect(url, { timeout: "1m" });
const say = (what: string): void => void process.stdout.write(`${what}\n`);
if (await tenure.tryAcquire("ready")) say("ready");
const lease = await tenure.acquire(name, { ttl: 2_000 });
say(`token ${lease.token}`);
