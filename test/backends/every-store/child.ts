/** A process that waits for a lease, says so, and says what it gets, until it is killed. */
import { Tenure } from "../../../src/core/tenure.js";
import { platform } from "../../../src/platform/index.js";
import { BACKENDS, type Kind } from "./backends.js";

const [kind, url, name, ttl] = process.argv.slice(2) as [Kind, string, string, string];
const say = (what: object): void => void process.stdout.write(`${JSON.stringify(what)}\n`);
const tenure = await Tenure.open(await BACKENDS[kind](url), platform(), { timeout: 30_000 });
const options = { ttl: Number(ttl) };
if ((await tenure.tryAcquire(name, options)) !== null) throw new Error("it is free");
say({ waits: true });
const lease = await tenure.acquire(name, options);
say({ token: String(lease.token) });
