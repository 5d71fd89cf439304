import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";

const root = path.resolve(import.meta.dirname, "../../..");

/** Paths of every file that is, or is about to be, under version control, from the root. */
export function sourceFiles(): string[] {
  const args = ["ls-files", "--cached", "--others", "--exclude-standard", "-z"];
  return execFileSync("git", args, { cwd: root, encoding: "utf8" })
    .split("\0")
    .filter((file) => file !== "" && existsSync(path.join(root, file)));
}

/** The text of a file, by its path from the root. */
export function read(file: string): string {
  return readFileSync(path.join(root, file), "utf8");
}
