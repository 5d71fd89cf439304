/**
 * Leases and fences on PostgreSQL and MariaDB.
 *
 * Run: npm run bench:sql -- [--quick] [pairs|flushes|handover|held|busy|fences]…
 */
import { printMachine, runParts } from "../figures.mjs";
import { busy } from "./busy.mjs";
import { fences } from "./fences.mjs";
import { flushes } from "./flushes.mjs";
import { handover } from "./handover.mjs";
import { held } from "./held.mjs";
import { pairs } from "./pairs.mjs";
import { serverVersions } from "./servers.mjs";
import { versions } from "./subjects.mjs";

printMachine([...(await serverVersions()), ...versions]);
await runParts({
  pairs: ({ isQuick }) => pairs(isQuick),
  flushes: ({ isQuick }) => flushes(isQuick),
  handover: ({ isQuick }) => handover(isQuick),
  held: ({ isQuick }) => held(isQuick),
  busy: ({ isQuick }) => busy(isQuick),
  fences: ({ isQuick }) => fences(isQuick),
});
