// Ends its work while a renewal is in flight that never settles, closes, and must then just end.
import { connect } from "tenure";
import { memory } from "tenure/backends/memory";

const store = process.argv[2] === "silent" ? silent() : process.argv[3];
const tenure = await connect(store);

function silent() {
  return { ...memory(), renew: () => new Promise(() => undefined) };
}

const waiting = tenure.acquire("never").then(() => tenure.acquire("never"));
waiting.catch(() => undefined);
await tenure.hold("x", { ttl: 300 }, () => new Promise((end) => setTimeout(end, 130)));
await tenure.close();
process.stdout.write(`${process.hrtime.bigint()}\n`);
