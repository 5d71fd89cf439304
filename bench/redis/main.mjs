/**
 * Tenure and other locks on one Redis server.
 *
 * Run: npm run bench:redis -- [--quick] [serial|in-flight|contention|queue]…
 */
import { printMachine, runParts } from "../figures.mjs";
import { contention } from "./contention.mjs";
import { inFlight, serial } from "./pairs.mjs";
import { queue } from "./queue.mjs";
import { startRedis } from "./server.mjs";
import { versions } from "./subjects.mjs";

const server = await startRedis();
printMachine([`Redis ${server.version}`, ...versions]);
try {
  await runParts({
    serial: ({ isQuick }) => serial(server.port, isQuick),
    "in-flight": ({ isQuick }) => inFlight(server.port, isQuick),
    contention: ({ isQuick }) => contention(server.port, isQuick),
    queue: ({ isQuick }) => queue(server, isQuick),
  });
} finally {
  await server.stop();
}
