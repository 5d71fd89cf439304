/** One process's part of a `tenure lab soak`. */
import { spawn } from "node:child_process";
import type { SoakResult } from "../../../lab/soak.js";

/**
 * Runs `tenure lab soak` with these arguments in a process of its own; answers what it came to.
 *
 * @throws Error when it ended without a result.
 */
export function soakElsewhere(args: readonly string[]): Promise<SoakResult> {
  return new Promise((resolve, reject) => {
    const command = [process.argv[1]!, "lab", "soak", ...args];
    const child = spawn(process.execPath, command, { stdio: ["ignore", "pipe", "inherit"] });
    let printed = "";
    child.stdout.setEncoding("utf8");
    child.stdout.on("data", (text: string) => (printed += text));
    child.on("error", reject);
    child.on("close", (code, signal) => {
      try {
        resolve(JSON.parse(printed) as SoakResult);
      } catch (cause) {
        const how = signal ?? `code ${code}`;
        reject(new Error(`a part of the soak ended with ${how} and no result`, { cause }));
      }
    });
  });
}
