import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { buildSync } from "esbuild";
import { afterAll, onTestFinished } from "vitest";

/** A process that does what `child.ts` says. */
export interface Child {
  readonly process: ChildProcess;
  /** The next line that it says. Rejects when it ends without one. */
  says(): Promise<Readonly<Record<string, unknown>>>;
  /** Ends with its exit code; null for a signal. */
  readonly ended: Promise<number | null>;
}

let bundle: string | undefined;
let folder: string | undefined;

afterAll(() => {
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
});

/** Starts a child; it is killed when the test ends, if it still lives. */
export function startChild(url: string, schema: string, order: "open" | "wait"): Child {
  bundle ??= build();
  const child = spawn(process.execPath, [bundle, url, schema, order], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(child, "close").then(([code]) => code as number | null);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  return {
    process: child,
    ended,
    async says() {
      const { value, done } = await lines.next();
      if (done === true) throw new Error(`the child ended with ${await ended}`);
      return JSON.parse(value) as Record<string, unknown>;
    },
  };
}

function build(): string {
  // Beside the installed packages, so that the bundle finds the client library it leaves outside.
  folder = mkdtempSync(join(import.meta.dirname, "../../../node_modules/.tenure-mysql-"));
  const outfile = join(folder, "child.mjs");
  buildSync({
    entryPoints: [join(import.meta.dirname, "child.ts")],
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
