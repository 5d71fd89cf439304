/**
 * The data folder that a database server begins with. Making one takes seconds of a core, and
 * dozens of tests want one each: the first of them makes it, all others copy that.
 */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, rmSync, statSync } from "node:fs";
import { mkdir, rename } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";

/** Goes with the packages, and with what git ignores. */
const FOLDER = path.resolve(import.meta.dirname, "../../node_modules/.cache/tenure-first-data");
const execute = promisify(execFile);

/**
 * Fills `data`, which does not exist: by `make`, or from what that made before with the same
 * settings and the same version of the program, whose file is `program`.
 */
export async function firstData(
  data: string,
  program: string,
  settings: readonly string[],
  make: () => Promise<void>,
): Promise<void> {
  const { size, mtimeMs } = statSync(program);
  const recipe = createHash("sha256").update([program, size, mtimeMs, ...settings].join("\0"));
  const kept = path.join(FOLDER, `${path.basename(program)}-${recipe.digest("hex").slice(0, 16)}`);
  if (existsSync(kept)) return copy(kept, data);
  await make();
  await mkdir(FOLDER, { recursive: true });
  // Complete, or not there: several processes may be at this at the same time.
  const mine = `${kept}.${process.pid}`;
  try {
    await copy(data, mine);
    await rename(mine, kept);
  } catch (error) {
    rmSync(mine, { recursive: true, force: true });
    if (!existsSync(kept)) throw error;
  }
}

/** With the owner, who is not always the one who copies. */
async function copy(from: string, to: string): Promise<void> {
  await execute("cp", ["-a", from, to]);
}
