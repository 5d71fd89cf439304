/**
 * The wrapper's side of a guarded child.
 *
 * The guard starts the child, so that no moment exists at which the child runs unguarded, and so
 * that the child's pid cannot pass to a stranger before its end was seen. The wrapper knows the
 * child's group only to finish the guard's work when the guard itself is killed or frozen.
 */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Timer, Timers } from "../core/clock.js";
import type { ChildCommand, ChildEnd, FromGuard, Orphan, ToGuard } from "./guard-protocol.js";
import { left, stamp } from "./machine-time.js";
import type { Limit } from "./machine-time.js";
import { isGone, signalGroup } from "./process-group.js";
import type { ProcessGroup } from "./process-group.js";

/** How long past a limit the wrapper leaves the KILL to the guard, milliseconds. */
const GUARD_LATE_MS = 20;
/** How often the wrapper looks whether a group that it killed itself is gone. */
const LOOK_AGAIN_MS = 25;

/** The child could not be started; `code` is an errno name, or `LATE`. */
export class StartError extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.name = "StartError";
    this.code = code;
  }
}

/** A child that does not outlive its lease. */
export class GuardedChild {
  readonly #guard: ChildProcess;
  readonly #timers: Timers;
  /** Resolves when nothing of the child's group is left; never for a child that did not start. */
  readonly ended: Promise<ChildEnd>;
  #endWith: (end: ChildEnd) => void = () => undefined;
  #starting: { resolve(pid: number): void; reject(error: StartError): void } | undefined;
  #group: ProcessGroup | undefined;
  #guardError: Error | undefined;
  #isOver = false;
  #backstop: Timer | undefined;

  /** Starts a guard. It takes some milliseconds to load: start it before asking for the lease. */
  constructor(label: string, timers: Timers) {
    this.#timers = timers;
    // Same folder and name in the bundle as in the compiled tree.
    const script = fileURLToPath(new URL("./guard.js", import.meta.url));
    this.#guard = spawn(process.execPath, [script, label], {
      stdio: ["inherit", "inherit", "inherit", "ipc"],
      detached: true,
      env: withoutNodeOptions(process.env),
    });
    this.#guard.on("message", (message: FromGuard) => this.#hear(message));
    this.#guard.on("error", (error) => this.#guardIsGone(error));
    this.#guard.once("exit", () => this.#guardIsGone(new Error("the guard process was killed")));
    this.ended = new Promise((resolve) => (this.#endWith = resolve));
  }

  /**
   * Runs the command until `limit`; answers its pid. The guard sees to the lease of `orphan`, with
   * the child's environment, when the wrapper is gone without a word.
   *
   * @throws StartError when it cannot be run.
   */
  start(
    command: ChildCommand,
    limit: Limit | null,
    orphan: Orphan | null,
  ): Promise<number> {
    return new Promise((resolve, reject) => {
      if (this.#guardError !== undefined) throw new StartError("GUARD", this.#guardError.message);
      this.#starting = { resolve, reject };
      this.#tell({ type: "start", command, limit, orphan });
      if (limit !== null) this.#watch(limit);
    });
  }

  /** The lease was renewed. */
  extend(limit: Limit): void {
    this.#tell({ type: "extend", limit });
    this.#watch(limit);
  }

  /** The lease is lost: TERM and KILL by `limit`, whatever comes later. */
  stop(limit: Limit): void {
    this.#tell({ type: "stop", limit });
    this.#watch(limit);
  }

  /** Passes a signal on: to all of the child's group, or to the child alone. */
  signal(signal: NodeJS.Signals, whole: boolean): Promise<void> {
    return new Promise((resolve) => this.#tell({ type: "signal", signal, whole }, resolve));
  }

  /** Lets a guard go that has nothing to guard any more. */
  dismiss(): void {
    this.#tell({ type: "done" });
    if (this.#guard.connected) this.#guard.disconnect();
    this.#guard.unref();
  }

  #tell(message: ToGuard, then: () => void = () => undefined): void {
    if (this.#guard.connected) this.#guard.send(message, () => then());
    else then();
  }

  #hear(message: FromGuard): void {
    switch (message.type) {
      case "started":
        this.#group = message.group;
        this.#starting?.resolve(message.group.pid);
        return;
      case "failed":
        this.#over();
        this.#starting?.reject(new StartError(message.code, message.message));
        return;
      case "ended":
        this.#finish(message);
    }
  }

  #finish({ code, signal, stopped }: ChildEnd): void {
    this.#over();
    this.#endWith({ code, signal, stopped });
  }

  #over(): void {
    this.#isOver = true;
    this.#backstop?.cancel();
  }

  #guardIsGone(error: Error): void {
    if (this.#isOver) return;
    this.#guardError = error;
    if (this.#group === undefined) {
      this.#over();
      this.#starting?.reject(new StartError("GUARD", error.message));
    } else this.#killDirectly(this.#group, false);
  }

  /** A guard that is frozen does not kill: the wrapper does, a little later. */
  #watch(limit: Limit): void {
    this.#backstop?.cancel();
    const late = left(limit, stamp()).killMs + GUARD_LATE_MS;
    this.#backstop = this.#timers.after(Math.max(0, late), () => {
      if (this.#group !== undefined && !this.#isOver) this.#killDirectly(this.#group, true);
    });
  }

  #killDirectly(group: ProcessGroup, stopped: boolean): void {
    signalGroup(group, "SIGKILL");
    if (isGone(group)) {
      // A frozen guard would keep the output open for whoever reads it to its end.
      this.#guard.kill("SIGKILL");
      this.#finish({ code: null, signal: "SIGKILL", stopped });
    } else {
      this.#backstop?.cancel();
      this.#backstop = this.#timers.after(LOOK_AGAIN_MS, () => {
        if (!this.#isOver) this.#killDirectly(group, stopped);
      });
    }
  }
}

/** The guard is ours: what the user sets for Node is meant for the child. */
function withoutNodeOptions(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith("NODE_")));
}
