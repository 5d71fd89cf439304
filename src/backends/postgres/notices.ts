/**
 * Notices of releases, on a connection that listens for all waiters of this process.
 *
 * A notice sent while the connection is down is lost, so all waiters are woken once it listens
 * again; and a waiter that hears nothing asks again after a while, which is the core's to do.
 */
import type { Timer } from "../../core/clock.js";
import type { Runtime } from "../../core/runtime.js";
import type { Connection } from "./client.js";

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2_000;
/** Until a waiter looks again that could not leave its mark. */
const LOOK_AGAIN_MS = 200;

type Wake = () => void;

/** The waiters of one process. */
export class Notices {
  readonly #connect: () => Promise<Connection>;
  readonly #channel: string;
  readonly #runtime: Pick<Runtime, "timers" | "random">;
  readonly #wakes = new Map<string, Set<Wake>>();
  readonly #later = new Map<string, Timer>();
  #listening: Promise<Connection> | undefined;
  #retry: Timer | undefined;
  #failures = 0;
  #isClosed = false;

  constructor(
    connect: () => Promise<Connection>,
    channel: string,
    runtime: Pick<Runtime, "timers" | "random">,
  ) {
    this.#connect = connect;
    this.#channel = channel;
    this.#runtime = runtime;
  }

  /** Whether somebody of this process waits for a name. */
  isAwaited(name: string): boolean {
    return this.#wakes.has(name);
  }

  /**
   * Wakes the waiters of a name after a moment: an attempt only met others, and has left no mark,
   * so that nobody would tell of a release.
   */
  wakeLater(name: string): void {
    if (!this.#wakes.has(name) || this.#later.has(name)) return;
    const jitteredMs = LOOK_AGAIN_MS * (0.5 + this.#runtime.random.uniform() / 2);
    const wake = (): void => {
      this.#later.delete(name);
      this.#wake(this.#wakes.get(name));
    };
    this.#later.set(name, this.#runtime.timers.after(jitteredMs, wake, { ref: false }));
  }

  /** Resolves once notices are heard. */
  async subscribe(name: string, wake: Wake): Promise<AsyncDisposable> {
    const siblings = this.#wakes.get(name) ?? new Set();
    this.#wakes.set(name, siblings.add(wake));
    const leave = (): void => {
      siblings.delete(wake);
      if (siblings.size > 0 || this.#wakes.get(name) !== siblings) return;
      this.#wakes.delete(name);
      this.#later.get(name)?.cancel();
      this.#later.delete(name);
    };
    try {
      await this.#listen();
    } catch (error) {
      leave();
      throw error;
    }
    return { [Symbol.asyncDispose]: async () => leave() };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#retry?.cancel();
    for (const timer of this.#later.values()) timer.cancel();
    this.#later.clear();
    this.#wakes.clear();
    const connection = await this.#listening?.catch(() => undefined);
    await connection?.close();
  }

  #listen(): Promise<Connection> {
    this.#listening ??= this.#start().catch((error: unknown) => {
      this.#listening = undefined;
      throw error;
    });
    return this.#listening;
  }

  async #start(): Promise<Connection> {
    const connection = await this.#connect();
    connection.onNotice = (channel, name) => {
      if (channel === this.#channel) this.#wake(this.#wakes.get(name));
    };
    connection.onEnd = () => {
      this.#listening = undefined;
      this.#listenLater();
    };
    try {
      await connection.query(`LISTEN "${this.#channel}"`);
    } catch (error) {
      connection.onEnd = undefined;
      connection.destroy();
      throw error;
    }
    return connection;
  }

  #listenLater(): void {
    if (this.#isClosed || this.#wakes.size === 0) return;
    const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.#failures);
    const jitteredMs = pauseMs * (0.5 + this.#runtime.random.uniform() / 2);
    this.#retry = this.#runtime.timers.after(jitteredMs, () => void this.#listenAgain(), {
      ref: false,
    });
  }

  async #listenAgain(): Promise<void> {
    try {
      await this.#listen();
      this.#failures = 0;
      for (const wakes of [...this.#wakes.values()]) this.#wake(wakes);
    } catch {
      // Its waiters poll meanwhile.
      this.#failures++;
      this.#listenLater();
    }
  }

  #wake(wakes: ReadonlySet<Wake> | undefined): void {
    for (const wake of [...(wakes ?? [])]) wake();
  }
}
