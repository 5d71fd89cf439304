/** Finding the programs of real servers, and what happens to tests where one is missing. */
import { accessSync, constants } from "node:fs";
import path from "node:path";
import { describe, test } from "vitest";

/** A program that tests need. */
export interface Program {
  /** What to call it in messages. */
  readonly name: string;
  readonly binary: string;
  /** Debian's package that brings it. */
  readonly package: string;
  /** Folders to look in beside those of PATH. */
  readonly folders?: readonly string[];
}

/** Where daemons are put that an ordinary PATH does not show. */
const SYSTEM_FOLDERS = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/** Path of the program, if this machine has it. */
export function findBinary(wanted: Pick<Program, "binary" | "folders">): string | undefined {
  const onPath = (process.env["PATH"] ?? "").split(path.delimiter);
  const folders = [...(wanted.folders ?? []), ...onPath, ...SYSTEM_FOLDERS];
  return folders.map((folder) => path.join(folder, wanted.binary)).find(isExecutable);
}

/** Path of the program. @throws Error saying how to install it. */
export function mustFind(program: Program): string {
  const found = findBinary(program);
  if (found === undefined) throw new Error(whyMissing(program));
  return found;
}

/**
 * A suite that needs a server. Where it is missing, the suite is one failed test under CI, and one
 * counted skip with its reason elsewhere.
 */
export function describeOn(
  program: Program,
  title: string,
  define: () => void | Promise<void>,
): void {
  if (findBinary(program) !== undefined) {
    describe(title, define);
    return;
  }
  test(title, ({ skip }) => {
    if (process.env["CI"] === "true") throw new Error(whyMissing(program));
    skip(whyMissing(program));
  });
}

/** As {@link describeOn}, for a program that no package brings: a counted skip under CI, too. */
export function describeOptional(
  program: Program,
  title: string,
  define: () => void | Promise<void>,
): void {
  if (findBinary(program) !== undefined) describe(title, define);
  else test(title, ({ skip }) => skip(whyMissing(program)));
}

function whyMissing({ name, binary, package: debian }: Program): string {
  return `${name} is not installed (${binary}; on Debian: apt-get install ${debian})`;
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
