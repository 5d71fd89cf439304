// Global set-up of the tests of what the build writes: builds dist where a source is newer.
import { spawnSync } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
import path from "node:path";

const root = path.resolve(import.meta.dirname, "..");

const changedAt = (file) => statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;

function isStale() {
  // The bundle is what the build writes last.
  const builtAt = changedAt(path.join(root, "dist/bin/tenure.js"));
  // Folders as well: of a file that was removed, what was built of it would stay.
  const sources = readdirSync(path.join(root, "src"), { recursive: true, encoding: "utf8" })
    .map((file) => path.join("src", file));
  return ["package.json", "tsconfig.build.json", "scripts/build.mjs", ...sources].some(
    (file) => changedAt(path.join(root, file)) > builtAt,
  );
}

/** Called once by vitest, before the first test. */
export function setup() {
  if (!isStale()) return;
  const { status } = spawnSync(process.execPath, ["scripts/build.mjs"], {
    cwd: root,
    stdio: "inherit",
  });
  if (status !== 0) throw new Error("the build failed, so there is nothing to test");
}
