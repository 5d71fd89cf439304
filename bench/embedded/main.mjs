/**
 * The embedded store, and what one machine has without it.
 *
 * Run: npm run bench:embedded -- [--quick] [pairs|command|handover|sections|held]…
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { printMachine, runParts, versionOf } from "../figures.mjs";
import { command } from "./command.mjs";
import { handover } from "./handover.mjs";
import { held } from "./held.mjs";
import { sqliteVersion } from "./library.mjs";
import { pairs } from "./pairs.mjs";
import { sections } from "./sections.mjs";

const inFolder = (part) => async ({ isQuick }) => {
  const folder = mkdtempSync(join(tmpdir(), "tenure-bench-"));
  try {
    await part(folder, isQuick);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
};

printMachine([sqliteVersion, `proper-lockfile ${versionOf("proper-lockfile")}`]);
await runParts({
  pairs: inFolder(pairs),
  command: inFolder(command),
  handover: inFolder(handover),
  sections: inFolder(sections),
  held: inFolder(held),
});
