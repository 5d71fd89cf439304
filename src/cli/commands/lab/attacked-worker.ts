/** A worker of the user's that is frozen and woken, in a process group of its own. */
import { spawn, spawnSync } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { UnavailableError } from "../../../core/errors.js";
import { machineTimers } from "../../../platform/clocks.js";
import { UsageError } from "../../arguments.js";
import { StartError } from "../../guarded-child.js";
import { groupOf, isGone, signalGroup, type ProcessGroup } from "../../process-group.js";

/** How long a worker has between TERM and KILL, milliseconds. */
const KILL_AFTER_MS = 2_000;
const LOOK_EVERY_MS = 25;

/** A process that was started to be frozen. What it prints goes to stderr. */
export class AttackedWorker {
  readonly #child: ChildProcess;
  readonly #group: ProcessGroup;
  /** Exit code or signal, once its first process has ended. */
  end: string | undefined;

  private constructor(child: ChildProcess, pid: number) {
    this.#child = child;
    this.#group = groupOf(pid);
    child.once("exit", (code, signal) => (this.end = signal ?? `exit code ${code}`));
  }

  /** @throws StartError when it cannot be run. */
  static async start(
    [file, ...args]: readonly string[],
    env: NodeJS.ProcessEnv,
  ): Promise<AttackedWorker> {
    const child = spawn(file!, args, { env, detached: true, stdio: ["ignore", 2, 2] });
    await new Promise<void>((resolve, reject) => {
      child.once("spawn", resolve);
      child.once("error", (error: NodeJS.ErrnoException) =>
        reject(new StartError(error.code ?? "EIO", error.message)),
      );
    });
    return new AttackedWorker(child, child.pid!);
  }

  get pid(): number {
    return this.#child.pid!;
  }

  freeze(): void {
    signalGroup(this.#group, "SIGSTOP");
  }

  wake(): void {
    signalGroup(this.#group, "SIGCONT");
  }

  /** Ends whatever is left of its group: TERM, and KILL if that does not do. */
  async finish(): Promise<void> {
    signalGroup(this.#group, "SIGTERM");
    this.wake();
    for (let waitedMs = 0; !isGone(this.#group); waitedMs += LOOK_EVERY_MS) {
      if (waitedMs === KILL_AFTER_MS) signalGroup(this.#group, "SIGKILL");
      if (waitedMs > 2 * KILL_AFTER_MS) return;
      await pause(LOOK_EVERY_MS);
    }
  }
}

/** What the resource holds now, by a command that prints it. @throws UsageError when it fails. */
export function readResource(command: string, env: NodeJS.ProcessEnv): string {
  const { status, stdout, error } = spawnSync("sh", ["-c", command], {
    env,
    encoding: "utf8",
    stdio: ["ignore", "pipe", 2],
  });
  if (error === undefined && status === 0) return stdout;
  const why = error?.message ?? `exit code ${status}`;
  throw new UsageError(`--resource ${JSON.stringify(command)} failed: ${why}`);
}

/**
 * Asks again until there is an answer.
 *
 * @throws What `late` makes when there is none within `limitMs`; the signal's reason.
 */
export async function until<A>(
  ask: () => Promise<A | undefined> | A | undefined,
  limitMs: number,
  signal: AbortSignal,
  late: () => Error,
): Promise<A> {
  const startMs = elapsedMs();
  for (;;) {
    signal.throwIfAborted();
    const answer = await ask();
    if (answer !== undefined) return answer;
    if (elapsedMs() - startMs > limitMs) throw late();
    await pause(LOOK_EVERY_MS);
  }
}

/** A worker that was given its time, and did not take the lease. */
export function neverHeld(worker: AttackedWorker, store: string, limit: string): UnavailableError {
  const how = worker.end === undefined ? "still runs" : `ended with ${worker.end}`;
  return new UnavailableError(
    `the worker took no lease in ${store} within ${limit}, and ${how}: ` +
      "does it use this store, and this name?",
    { retryable: false },
  );
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void machineTimers.after(ms, resolve));
}

function elapsedMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n);
}
