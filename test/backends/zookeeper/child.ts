/** A process of its own: holds a lease until it is killed, and says its token. */
import { connect } from "../../../src/connect.js";

const [url, name, ttl] = process.argv.slice(2) as [string, string, string];
const tenure = await connect(url);
const lease = await tenure.acquire(name, { ttl: Number(ttl) });
console.log(String(lease.token));
