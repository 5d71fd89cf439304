/**
 * The data folder that a database server begins with. Making one takes seconds of a core, and
 * dozens of tests want one each: the first of them makes it, all others copy that.
 */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, statSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm } from "node:fs/promises";
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
  folder: string = FOLDER,
): Promise<void> {
  const { size, mtimeMs } = statSync(program);
  // Who made it owns it, and nobody else can read it.
  const parts = [program, size, mtimeMs, process.getuid?.(), ...settings];
  const recipe = createHash("sha256").update(parts.join("\0"));
  const kept = path.join(folder, `${path.basename(program)}-${recipe.digest("hex").slice(0, 16)}`);
  if (existsSync(kept)) return copy(kept, data);
  await make();
  await mkdir(folder, { recursive: true });
  // Complete, or not there: several may be at this at the same time, also in one process, and what
  // one left half-way when it was killed is in nobody's way.
  const mine = await mkdtemp(`${kept}.`);
  try {
    await copy(data, path.join(mine, "data"));
    await rename(path.join(mine, "data"), kept);
  } catch (error) {
    if (!existsSync(kept)) throw error;
  } finally {
    await rm(mine, { recursive: true, force: true });
  }
}

/** With the owner, who is not always the one who copies. */
async function copy(from: string, to: string): Promise<void> {
  await execute("cp", ["-a", from, to]);
}
