/** Real processes for scenarios on real servers. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { onTestFinished } from "vitest";
import { bundledChild } from "../../servers/bundle.js";

/** A process that was started. */
export interface Child {
  readonly process: ChildProcess;
  /** The next line that it says. @throws Error when it ends without one. */
  says(): Promise<Readonly<Record<string, unknown>>>;
  /** SIGKILL; resolves at its end. */
  kill(): Promise<void>;
}

/** Starts one. It is killed when the test ends, if it still lives. */
export function startChild(...args: readonly string[]): Child {
  const child = spawn(process.execPath, ["--no-warnings", bundledChild(import.meta.dirname), ...args], {
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
