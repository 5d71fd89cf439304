/** Real processes for scenarios on real servers: `child.ts`, built once for each file of tests. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { buildSync } from "esbuild";
import { onTestFinished } from "vitest";

/** A process that was started. */
export interface Child {
  readonly process: ChildProcess;
  /** The next line that it says. @throws Error when it ends without one. */
  says(): Promise<Readonly<Record<string, unknown>>>;
  /** SIGKILL; resolves at its end. */
  kill(): Promise<void>;
}

let bundle: string | undefined;

/** Starts one. It is killed when the test ends, if it still lives. */
export function startChild(...args: readonly string[]): Child {
  bundle ??= build();
  const child = spawn(process.execPath, ["--no-warnings", bundle, ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(child, "close");
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const kill = async (): Promise<void> => {
    child.kill("SIGKILL");
    await ended;
  };
  onTestFinished(kill);
  return {
    process: child,
    kill,
    async says() {
      const { value, done } = await lines.next();
      if (done === true) throw new Error("the process ended without a word");
      return JSON.parse(value) as Record<string, unknown>;
    },
  };
}

function build(): string {
  // Beside the installed packages, so that the bundle finds the libraries that it leaves outside.
  const modules = path.join(import.meta.dirname, "../../../node_modules");
  const folder = mkdtempSync(path.join(modules, ".tenure-scenarios-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  const outfile = path.join(folder, "child.mjs");
  buildSync({
    entryPoints: [path.join(import.meta.dirname, "child.ts")],
    outfile,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    packages: "external",
    logLevel: "silent",
  });
  return outfile;
}
