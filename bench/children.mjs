/** Processes that take part in a benchmark: each runs one role and says its results in JSON. */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

/** Says one value to the process that started this one. */
export const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

/** What the process that started this one tells it, one value after the other. */
export async function* told() {
  for await (const line of createInterface({ input: process.stdin })) yield JSON.parse(line);
}

/** @param args script and arguments, and before them options of Node */
export function startChild(...args) {
  const started = spawn(process.execPath, ["--no-warnings", ...args], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = [];
  const waiting = [];
  const ended = new Promise((resolve) => started.once("close", resolve));
  // Nobody waits for ever for one that has failed.
  const failed = ended.then((code) => Promise.reject(new Error(`a child ended with ${code}`)));
  failed.catch(() => undefined);
  createInterface({ input: started.stdout }).on("line", (line) => {
    const wake = waiting.shift();
    if (wake === undefined) lines.push(JSON.parse(line));
    else wake(JSON.parse(line));
  });
  return {
    tell: (value) => started.stdin.write(`${JSON.stringify(value)}\n`),
    next: async () =>
      lines.shift() ?? Promise.race([new Promise((resolve) => waiting.push(resolve)), failed]),
    end: () => ended,
    kill: () => started.kill("SIGKILL"),
  };
}

/** Runs the role that the command line names, in a script that is its own child. */
export async function runRole(url, roles) {
  const { pathname } = new URL(url);
  const [, script, role, ...args] = process.argv;
  if (script === pathname && Object.hasOwn(roles, role ?? "")) await roles[role](...args);
}
