import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";

/** What `child.ts` is to do. */
export interface Job {
  readonly kind: "arm" | "fill" | "stop-inside" | "count";
  readonly fence: "file" | "sqlite";
  readonly path: string;
  readonly resource: string;
  readonly token: number;
  readonly times: number;
}

/** A running child: its lines as they come, and how it ends. */
export interface Child {
  readonly process: ChildProcess;
  /** The next line, parsed; rejects when the child ends without one. */
  next(): Promise<unknown>;
  /** Kills it and waits for its end. */
  kill(): Promise<void>;
  readonly ended: Promise<number | null>;
}

/** Starts children from one bundle of `child.ts`; `clean` removes it. */
export function childStarter(): { start(job: Job): Child; clean(): void } {
  // Beside the installed packages, so that the bundle finds the client library it leaves outside.
  const folder = mkdtempSync(path.join(import.meta.dirname, "../../node_modules/.tenure-child-"));
  const bundle = path.join(folder, "child.mjs");
  const source = fileURLToPath(import.meta.resolve("./child.ts"));
  buildSync({
    entryPoints: [source],
    outfile: bundle,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    external: ["better-sqlite3"],
    logLevel: "silent",
  });
  return {
    start: (job) => startChild(bundle, job),
    clean: () => rmSync(folder, { recursive: true }),
  };
}

function startChild(bundle: string, job: Job): Child {
  const child = spawn(process.execPath, [bundle, JSON.stringify(job)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  const lines: unknown[] = [];
  const waiting: (() => void)[] = [];
  let over = false;
  createInterface({ input: child.stdout }).on("line", (line) => {
    lines.push(JSON.parse(line));
    waiting.shift()?.();
  });
  void ended.then(() => {
    over = true;
    for (const wake of waiting.splice(0)) wake();
  });
  return {
    process: child,
    ended,
    next: async () => {
      while (lines.length === 0) {
        if (over) throw new Error(`the child ended without a word (${child.exitCode})`);
        await new Promise<void>((resolve) => waiting.push(resolve));
      }
      return lines.shift();
    },
    kill: async () => {
      child.kill("SIGKILL");
      await ended;
    },
  };
}
