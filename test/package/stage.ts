import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

/** The repository's root folder. */
export const root: string = path.resolve(import.meta.dirname, "../..");

/** Where a subpath leads: a file, or its types and its code. */
type Target = string | { readonly types: string; readonly default: string };

/** The part of package.json that says what the package offers. */
export interface Manifest {
  readonly version: string;
  readonly exports: Readonly<Record<string, Target>>;
  readonly bin: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
}

/** The manifest of this package. */
export function manifest(): Manifest {
  return JSON.parse(readFileSync(path.join(root, "package.json"), "utf8")) as Manifest;
}

/** What a command printed, and how it ended. */
export interface Ran {
  readonly code: number;
  readonly output: string;
}

/** Runs a command to its end; a failing one is an answer, not an exception. */
export function run(command: string, args: readonly string[], cwd: string): Ran {
  try {
    const settings = { cwd, encoding: "utf8", stdio: "pipe", timeout: 120_000 } as const;
    const output = execFileSync(command, args, settings);
    return { code: 0, output };
  } catch (error) {
    const failed = error as { status?: number; stdout?: string; stderr?: string };
    const output = `${failed.stdout ?? ""}${failed.stderr ?? ""}` || String(error);
    return { code: failed.status ?? 1, output };
  }
}

function mustRun(command: string, args: readonly string[], cwd: string): string {
  const { code, output } = run(command, args, cwd);
  if (code !== 0) throw new Error(`${command} ${args.join(" ")} ended with ${code}:\n${output}`);
  return output;
}

/** A packed build of this source, and projects that have it installed and nothing else. */
export class Stage implements Disposable {
  readonly #dir: string = mkdtempSync(path.join(tmpdir(), "tenure-package-"));
  readonly tarball: string;
  #installed: string | undefined;

  /** Packs what was built: `dist` is as new as the source, see scripts/build-if-stale.mjs. */
  constructor() {
    const pkg = path.join(this.#dir, "package");
    mkdirSync(pkg);
    const papers = ["package.json", "README.md", "LICENSE", "CHANGELOG.md"];
    for (const file of [...papers, "docs/adr", "docs/guide", "bench/README.md", "dist"]) {
      if (!existsSync(path.join(root, file))) continue;
      cpSync(path.join(root, file), path.join(pkg, file), { recursive: true });
    }
    const packed = mustRun("npm", ["pack", "--ignore-scripts", "--silent"], pkg).trim();
    this.tarball = path.join(pkg, packed);
  }

  /** The paths in the tarball, without the folder that npm puts around them. */
  contents(): string[] {
    return mustRun("tar", ["-tzf", this.tarball], this.#dir)
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => line.replace(/^package\//, ""));
  }

  /** A new project with the tarball installed, and Node's types as every TypeScript project has. */
  project(name: string, files: Readonly<Record<string, string>>): string {
    const dir = path.join(this.#dir, name);
    mkdirSync(dir);
    for (const [file, text] of Object.entries(files)) writeFileSync(path.join(dir, file), text);
    if (this.#installed === undefined) this.#installed = this.#install(dir);
    else mustRun("cp", ["-a", this.#installed, dir], dir);
    return dir;
  }

  /** Answers the folder of packages, which is the same in every project. */
  #install(dir: string): string {
    const quiet = ["--offline", "--ignore-scripts", "--no-audit", "--no-fund", "--no-save"];
    mustRun("npm", ["install", this.tarball, ...quiet, "--no-package-lock"], dir);
    const installed = path.join(dir, "node_modules");
    mkdirSync(path.join(installed, "@types"));
    for (const types of ["@types/node", "undici-types"]) {
      symlinkSync(path.join(root, "node_modules", types), path.join(installed, types));
    }
    return installed;
  }

  [Symbol.dispose](): void {
    rmSync(this.#dir, { recursive: true, force: true });
  }
}
