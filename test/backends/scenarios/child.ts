/**
 * A process in a scenario on real servers. `write` takes a lease, reads, looks at its clock and
 * stops itself at that very place, before it writes; `lead` leads until it is killed.
 */
import { appendFileSync } from "node:fs";
import { connect } from "../../../src/connect.js";
import { redis } from "../../../src/backends/redis/open.js";
import { election } from "../../../src/election/election.js";
import { sqliteFence } from "../../../src/fences/sqlite/open.js";

/** Longer than anything but a stop takes between two looks at a clock, milliseconds. */
const STOP_MS = 500;

const [order, url, ttl, table, file] = process.argv.slice(2) as [string, string, ...string[]];
const say = (what: object): void => void process.stdout.write(`${JSON.stringify(what)}\n`);
// Many start at once on a busy machine: the client library alone may take seconds to load.
const tenure = await connect(redis(url, { fair: true }), { timeout: 30_000 });
const ttlMs = Number(ttl);
if (order === "lead") {
  const term = await election(tenure, "leader", { ttl: ttlMs }).campaign();
  say({ term: String(term.term) });
} else {
  const lease = await tenure.acquire("job", { ttl: ttlMs });
  const { name, token, holder, storeId } = lease;
  // As it would travel to another process: no signal stops the write, the mark alone decides.
  const handle = await sqliteFence(table!).arm({ name, token, holder, storeId }, "report");
  const base = await handle.read((tx) => tx.all("SELECT line FROM report").length);
  lease.assertHeld();
  say({ token: String(token), base });
  stopHere();
  // Nothing has run since the check. The file has no fence, the table has.
  appendFileSync(file!, "A\n");
  const refusal: unknown = await handle
    .write((tx) => tx.run("INSERT INTO report VALUES ('A')"))
    .then(() => undefined, (error: unknown) => error);
  say({ state: lease.state, refusal: refusal instanceof Error ? refusal.name : "none" });
  await tenure.close();
}

/** SIGSTOP, by the process itself. Goes on in the same turn, once somebody has sent SIGCONT. */
function stopHere(): void {
  let last = performance.now();
  process.kill(process.pid, "SIGSTOP");
  // The signal may take effect a moment after the call has returned: the stop is a gap in time.
  for (;;) {
    const now = performance.now();
    if (now - last >= STOP_MS) return;
    last = now;
  }
}
