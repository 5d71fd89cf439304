import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { onTestFinished } from "vitest";
import { bundledChild } from "../../servers/bundle.js";

/** A process that does what `child.ts` says. */
export interface Child {
  readonly process: ChildProcess;
  /** The next line that it says. Rejects when it ends without one. */
  says(): Promise<Readonly<Record<string, unknown>>>;
  /** Ends with its exit code; null for a signal. */
  readonly ended: Promise<number | null>;
}

/** Starts a child; it is killed when the test ends, if it still lives. */
export function startChild(url: string, schema: string, order: "open" | "wait"): Child {
  const child = spawn(process.execPath, [bundledChild(import.meta.dirname), url, schema, order], {
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
