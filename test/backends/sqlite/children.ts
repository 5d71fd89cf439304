import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import { onTestFinished } from "vitest";
import { bundledChild } from "../../servers/bundle.js";

/** What a child can be told; see `child.ts`. */
export type Order =
  | { readonly do: "open"; readonly path: string }
  | { readonly do: "acquire"; readonly name: string; readonly ttlMs: number }
  | { readonly do: "enqueue"; readonly name: string; readonly ttlMs: number }
  | { readonly do: "turn" }
  | { readonly do: "release" }
  | { readonly do: "sections"; readonly name: string; readonly times: number; readonly log: string }
  | { readonly do: "stop-in-transaction"; readonly path: string }
  | { readonly do: "close" };

/** A process with a backend of its own that does what it is told. */
export interface Child {
  readonly process: ChildProcess;
  /** Carries out an order and answers what the child says. */
  tell(order: Order): Promise<any>;
  /** Kills it with SIGKILL and waits for its end. */
  kill(): Promise<void>;
}

/** Starts a child; it is killed when the test ends, if it still lives. */
export function startChild(): Child {
  const child = spawn(process.execPath, ["--no-warnings", bundledChild(import.meta.dirname)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const waiting: ((line: string) => void)[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => waiting.shift()?.(line));
  child.stdin.on("error", () => undefined);
  const kill = async (): Promise<void> => {
    child.kill("SIGKILL");
    await ended;
  };
  onTestFinished(kill);
  return {
    process: child,
    kill,
    async tell(order) {
      const line = new Promise<string>((resolve) => waiting.push(resolve));
      child.stdin.write(`${JSON.stringify(order)}\n`);
      const dead = ended.then(() => Promise.reject(new Error(`the child ended (${order.do})`)));
      const said = JSON.parse(await Promise.race([line, dead])) as { error?: string };
      if (said.error !== undefined) throw new Error(said.error);
      return said;
    },
  };
}
