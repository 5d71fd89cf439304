/** Real `tenure` processes on a store of their own, and what they print. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

/** The built command, or another build of it to be tested. */
const bin =
  process.env["TENURE_TEST_COMMAND"] ??
  path.resolve(import.meta.dirname, "../../dist/bin/tenure.js");

/** Milliseconds on the clock that all processes of a machine share. */
export function machineMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** Waits for a condition, for 30 seconds at most: some looks are processes. */
export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
): Promise<void> {
  const fromMs = machineMs();
  while (!(await condition())) {
    if (machineMs() - fromMs > 30_000) throw new Error(`not within 30 s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** How a command ended. */
export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A `tenure` that was started. */
export class Running {
  readonly ended: Promise<Ended>;
  readonly pid: number;
  readonly #process: ChildProcess;
  readonly #output = { stdout: "", stderr: "" };
  readonly #readers = new Set<() => void>();

  constructor(child: ChildProcess) {
    this.#process = child;
    this.pid = child.pid!;
    this.#read("stdout");
    this.#read("stderr");
    this.ended = new Promise((resolve) => {
      child.once("close", (code, signal) => {
        resolve({ code, signal, ...this.#output });
        this.#tell();
      });
    });
  }

  /** The first match in what was printed so far or will be; rejects when the process ends first. */
  async until(pattern: RegExp, stream: "stdout" | "stderr" = "stdout"): Promise<RegExpExecArray> {
    for (;;) {
      const found = pattern.exec(this.#output[stream]);
      if (found !== null) return found;
      if (this.#process.exitCode !== null || this.#process.signalCode !== null) {
        const { code, stdout, stderr } = await this.ended;
        throw new Error(`ended with ${code} and no ${String(pattern)}:\n${stdout}\n${stderr}`);
      }
      await new Promise<void>((resolve) => this.#readers.add(resolve));
    }
  }

  /** An event that `tenure run --json` tells. */
  async event(name: string): Promise<Record<string, any>> {
    const line = await this.until(new RegExp(`^\\{"event":"${name}".*\\}$`, "m"), "stderr");
    return JSON.parse(line[0]) as Record<string, any>;
  }

  kill(signal: NodeJS.Signals): void {
    process.kill(this.pid, signal);
  }

  write(text: string): void {
    this.#process.stdin!.end(text);
  }

  #read(name: "stdout" | "stderr"): void {
    this.#process[name]!.setEncoding("utf8").on("data", (chunk: string) => {
      this.#output[name] += chunk;
      this.#tell();
    });
  }

  #tell(): void {
    const readers = [...this.#readers];
    this.#readers.clear();
    for (const reader of readers) reader();
  }
}

/** Settings of one command. */
interface Settings {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  /** Another copy of the command. */
  readonly command?: string;
}

/** A folder, a store in it, and the commands that were started on it. */
export class Sandbox implements AsyncDisposable {
  readonly dir: string = mkdtempSync(path.join(tmpdir(), "tenure-cli-"));
  readonly #running: Running[] = [];

  /** Starts the command. */
  start(args: readonly string[], { env, cwd, command = bin }: Settings = {}): Running {
    const child = spawn(process.execPath, [command, ...args], {
      cwd: cwd ?? this.dir,
      env: { ...this.#env(), ...env },
      stdio: "pipe",
    });
    const running = new Running(child);
    this.#running.push(running);
    return running;
  }

  /** Runs the command to its end. */
  tenure(args: readonly string[], settings?: Settings): Promise<Ended> {
    return this.start(args, settings).ended;
  }

  /** A copy of the command where no package is installed beside it. */
  commandAlone(): string {
    const folder = path.join(this.dir, "alone", "dist", "bin");
    cpSync(path.dirname(bin), folder, { recursive: true });
    writeFileSync(path.join(this.dir, "alone", "package.json"), '{ "type": "module" }');
    return path.join(folder, path.basename(bin));
  }

  /** The holder of a name as `tenure show --json` tells it. */
  async show(name: string): Promise<Record<string, any>> {
    return JSON.parse((await this.tenure(["show", name, "--json"])).stdout) as Record<string, any>;
  }

  /** Runs a line of shell to its end, with `$tenure` as the command. */
  shell(line: string, env: Readonly<Record<string, string>> = {}): Ended {
    const { status, signal, stdout, stderr } = spawnSync("sh", ["-c", line], {
      cwd: this.dir,
      env: { ...this.#env(), tenure: `${process.execPath} ${bin}`, ...env },
      encoding: "utf8",
      // A test that waits in here cannot be timed out from outside.
      timeout: 280_000,
      killSignal: "SIGKILL",
    });
    return { code: status, signal, stdout, stderr };
  }

  file(name: string): string {
    return path.join(this.dir, name);
  }

  write(name: string, text: string, mode = 0o644): string {
    writeFileSync(this.file(name), text, { mode });
    return this.file(name);
  }

  lines(name: string): string[] {
    return readFileSync(this.file(name), "utf8").split("\n").filter((line) => line !== "");
  }

  /** The first part of a command line that runs a script on Node. */
  script(name: string, code: string): string[] {
    return [process.execPath, this.write(name, code)];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const running of this.#running) {
      try {
        running.kill("SIGCONT");
        running.kill("SIGKILL");
      } catch {
        // It has ended.
      }
    }
    await Promise.all(this.#running.map((running) => running.ended));
    rmSync(this.dir, { recursive: true, force: true });
  }

  #env(): NodeJS.ProcessEnv {
    const own = Object.entries(process.env).filter(([name]) => !name.startsWith("TENURE_"));
    return { ...Object.fromEntries(own), TENURE_STORE: `sqlite:${this.file("locks.db")}` };
  }
}

/** Waits until the store shows so many waiters. */
export function waitersOf(box: Sandbox, name: string, count: number): Promise<void> {
  return until("in line", async () => ((await box.show(name))["waiters"] ?? 0) === count);
}

/** Whether a process runs; one that has ended and was not reaped does not. */
export function isRunning(pid: number): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return false;
  }
}

/** Whether a process is stopped, as it is seen; inside vfork one waits for its child instead. */
export function isStopped(pid: number): boolean {
  return / T /.test(readFileSync(`/proc/${pid}/stat`, "latin1").replace(/.*\)/s, ""));
}

/** The parent of a process. */
export function parentOf(pid: number): number {
  return Number(/\) \S (\d+) /.exec(readFileSync(`/proc/${pid}/stat`, "latin1"))![1]);
}

/** Code of a script that notes the machine's time every 5 ms in a file, and prints `up PID`. */
export function beating(file: string, more = ""): string {
  return `
const { appendFileSync } = require("node:fs");
${more}
const note = () => appendFileSync(${JSON.stringify(file)},
  Number(process.hrtime.bigint()) / 1e6 + "\\n");
note();
setInterval(note, 5);
console.log("up " + process.pid);
`;
}
