/**
 * Patterns without a lease, beside the bare statement that they stand on, and beside two queues.
 *
 * Run: npm run bench:patterns -- [--quick] [claims|reservations|queue|fires]…
 */
import { printMachine, runParts, versionOf } from "../figures.mjs";
import { serverVersions } from "../sql/servers.mjs";
import { claims } from "./claims.mjs";
import { fires } from "./fires.mjs";
import { queue } from "./queue.mjs";
import { reservations } from "./reservations.mjs";

const peers = ["better-sqlite3", "pg", "pg-boss", "graphile-worker"];
printMachine([...(await serverVersions()), ...peers.map((name) => `${name} ${versionOf(name)}`)]);
await runParts({
  claims: ({ isQuick }) => claims(isQuick),
  reservations: ({ isQuick }) => reservations(isQuick),
  queue: ({ isQuick }) => queue(isQuick),
  fires: ({ isQuick }) => fires(isQuick),
});
