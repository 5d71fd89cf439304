/**
 * A real server for tests: found on this machine, started on a free loopback port with a folder of
 * its own, and done to it what the world may do.
 *
 * Nothing is left behind. A server ends with `dispose`, else when this process exits; where the
 * system has `setpriv`, also when this process is killed. The folder of a killed process is removed
 * by the next one.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync, readFileSync, rmSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { findBinary, mustFind, type Program } from "./find.js";
import { freePort } from "./free-port.js";

/** A server under test. All methods resolve once what they say has come to pass. */
export interface Server extends AsyncDisposable {
  /** Stays the same over restarts. */
  readonly port: number;
  readonly url: string;
  /** Of the present process; undefined while the server is down. */
  readonly pid: number | undefined;
  /** Starts the process and waits until the server answers. */
  start(): Promise<void>;
  /** Resolves once the server answers; rejects with its log when it does not. */
  ready(): Promise<void>;
  /** Asks it to end, as an operator would. */
  stop(): Promise<void>;
  /** SIGKILL: nothing is written any more. */
  kill(): Promise<void>;
  /** SIGSTOP: connections stay open, and nobody answers. */
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  /** Stops, unless it is down already, and starts again on the same port with the same data. */
  restart(): Promise<void>;
  /** Ends it and removes its folder. */
  dispose(): Promise<void>;
}

/** How one kind of server is run. */
export interface ServerKind extends Program {
  args(port: number, folder: string): readonly string[];
  url(port: number): string;
  /**
   * Whether it serves now. May reject: that counts as no. `pid` is for stores that tell theirs:
   * another process may have the port, and answer while ours is about to give up.
   */
  isReady(port: number, folder: string, pid: number): Promise<boolean>;
  /** Called once, before the first start. */
  prepare?(folder: string): Promise<void>;
  /** Called before each start, for a server that wants its port in a file. */
  configure?(port: number, folder: string): Promise<void>;
  /** User to run as where this process is root: some servers refuse to be. */
  readonly user?: string;
  /** How an operator ends it. Default SIGTERM. */
  readonly stopSignal?: NodeJS.Signals;
  /** Ends it at once, and lets it remove what it shares with its children. Default SIGKILL. */
  readonly quitSignal?: NodeJS.Signals;
}

/** No server needs it but one of several in Java that start while all else runs, too. */
const READY_WITHIN_MS = 60_000;
const STOP_WITHIN_MS = 5_000;
const LOOK_EVERY_MS = 10;
/** Between the free port being found and the server taking it, somebody else may. */
const PORT_TRIES = 5;
const FOLDER_PREFIX = "tenure-server-";

const running = new Set<ServerProcess>();

process.on("exit", () => {
  for (const server of running) server.destroy();
});

/** One server process, and the next ones on the same port and data. */
export class ServerProcess implements Server {
  readonly #kind: ServerKind;
  #port = 0;
  #folder: string | undefined;
  #child: ChildProcess | undefined;
  #frozen = false;

  constructor(kind: ServerKind) {
    this.#kind = kind;
  }

  get port(): number {
    return this.#port;
  }

  get url(): string {
    return this.#kind.url(this.#port);
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** What the server wrote to its log so far; nothing where it was never started. */
  get log(): string {
    if (this.#folder === undefined || !existsSync(this.#logFile())) return "";
    return readFileSync(this.#logFile(), "utf8");
  }

  async start(): Promise<void> {
    if (this.#child !== undefined) throw new Error(`${this.#kind.name} is running`);
    const isFirst = this.#folder === undefined;
    this.#folder ??= await makeFolder(this.#kind.name);
    running.add(this);
    if (isFirst) await this.#kind.prepare?.(this.#folder);
    for (let tries = 1; ; tries++) {
      if (isFirst) this.#port = await freePort();
      try {
        await this.#kind.configure?.(this.#port, this.#folder);
        await this.#spawn();
        await this.ready();
        return;
      } catch (error) {
        await this.kill().catch((second: unknown) => {
          throw new AggregateError([error, second], String(error));
        });
        const retry = isFirst && /address already in use|could not.*(bind|listen)/i.test(this.log);
        if (!retry || tries === PORT_TRIES) throw error;
        rmSync(this.#logFile(), { force: true });
      }
    }
  }

  async ready(): Promise<void> {
    const { name } = this.#kind;
    let cause: unknown;
    for (let waitedMs = 0; waitedMs < READY_WITHIN_MS; waitedMs += LOOK_EVERY_MS) {
      const { pid } = this;
      if (pid === undefined) throw new Error(`${name} has ended:\n${this.log}`);
      try {
        if (await this.#kind.isReady(this.#port, this.#folder!, pid)) return;
      } catch (error) {
        cause = error;
      }
      await sleep(LOOK_EVERY_MS);
    }
    throw new Error(`${name} was not ready within ${READY_WITHIN_MS} ms:\n${this.log}`, { cause });
  }

  async stop(): Promise<void> {
    await this.thaw();
    await this.#end(this.#kind.stopSignal ?? "SIGTERM");
  }

  async kill(): Promise<void> {
    const children = childrenOf(this.pid);
    await this.#end("SIGKILL");
    // A server of several processes: those would only notice some time later.
    for (const pid of children) signalChild(pid, "SIGKILL");
    while (children.some(isAlive)) await sleep(1);
  }

  async freeze(): Promise<void> {
    this.#signal("SIGSTOP");
    this.#frozen = true;
    for (const pid of childrenOf(this.pid)) signalChild(pid, "SIGSTOP");
    // The signal is delivered a moment later: until then the server may still answer.
    while (!isStopped(this.pid)) await sleep(1);
  }

  async thaw(): Promise<void> {
    if (!this.#frozen) return;
    this.#frozen = false;
    for (const pid of childrenOf(this.pid)) signalChild(pid, "SIGCONT");
    this.#signal("SIGCONT");
  }

  async restart(): Promise<void> {
    await this.stop();
    await this.start();
  }

  async dispose(): Promise<void> {
    if (this.#kind.quitSignal === undefined) await this.kill();
    else {
      await this.thaw();
      await this.#end(this.#kind.quitSignal);
    }
    running.delete(this);
    if (this.#folder !== undefined) await rm(this.#folder, { recursive: true, force: true });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  /** The end of this process: no time for anything asynchronous. */
  destroy(): void {
    this.#child?.kill(this.#kind.quitSignal ?? "SIGKILL");
    if (this.#folder !== undefined) rmSync(this.#folder, { recursive: true, force: true });
  }

  async #spawn(): Promise<void> {
    const binary = mustFind(this.#kind);
    const args = this.#kind.args(this.#port, this.#folder!);
    const log = openSync(this.#logFile(), "a");
    // Ends the server when this process is killed, which no handler of ours can.
    const leash = findBinary({ binary: "setpriv" });
    const { user, quitSignal = "SIGKILL" } = this.#kind;
    const as = user === undefined || process.getuid?.() !== 0 ? [] : runAs(user);
    const [file, before] =
      leash === undefined
        ? [binary, []]
        : [leash, [...as, "--pdeathsig", quitSignal.replace("SIG", ""), binary]];
    const child = spawn(file, [...before, ...args], {
      cwd: this.#folder!,
      stdio: ["ignore", log, log],
    });
    closeSync(log);
    this.#child = child;
    const ended = (): void => {
      if (this.#child === child) this.#child = undefined;
    };
    child.once("exit", ended);
    child.once("error", ended);
    if (child.pid === undefined) {
      const [cause] = (await once(child, "error")) as [Error];
      throw new Error(`${this.#kind.name} cannot be started: ${cause.message}`, { cause });
    }
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    this.#frozen = false;
    if (child === undefined) return;
    const exit = once(child, "exit");
    child.kill(signal);
    const giveUp = setTimeout(() => child.kill("SIGKILL"), STOP_WITHIN_MS);
    await exit;
    clearTimeout(giveUp);
    this.#child = undefined;
  }

  #signal(signal: NodeJS.Signals): void {
    if (this.#child?.kill(signal) !== true) throw new Error(`${this.#kind.name} is down`);
  }

  #logFile(): string {
    return path.join(this.#folder!, "server.log");
  }
}

/** Whether the process does not run any more. Linux tells; elsewhere the signal is trusted. */
function isStopped(pid: number | undefined): boolean {
  if (pid === undefined || process.platform !== "linux") return true;
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return stat.slice(stat.lastIndexOf(")") + 2).startsWith("T");
}

/** Arguments of `setpriv` for running a program as another user. */
export function runAs(user: string): readonly string[] {
  return ["--reuid", user, "--regid", user, "--clear-groups"];
}

/** Processes that a process has started. Linux tells; elsewhere none are known. */
function childrenOf(pid: number | undefined): readonly number[] {
  if (pid === undefined || process.platform !== "linux") return [];
  const list = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8");
  return list.split(" ").filter((text) => text !== "").map(Number);
}

/** A child of a server may have ended by itself meanwhile. */
function signalChild(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

async function makeFolder(name: string): Promise<string> {
  await removeAbandoned();
  return mkdtemp(path.join(tmpdir(), `${FOLDER_PREFIX}${process.pid}-${name}-`));
}

/** Removes what processes left that were killed with their servers running. */
async function removeAbandoned(): Promise<void> {
  for (const entry of await readdir(tmpdir())) {
    if (!entry.startsWith(FOLDER_PREFIX)) continue;
    const owner = Number(entry.slice(FOLDER_PREFIX.length).split("-")[0]);
    if (!isAlive(owner)) await rm(path.join(tmpdir(), entry), { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
