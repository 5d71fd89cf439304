/** Signals that reach the wrapper, and what becomes of them. */
import { constants } from "node:os";
import type { GuardedChild } from "./guarded-child.js";

/**
 * Signals that ask to end, and go to all of the child's group: a terminal would have sent them to
 * all of it, and a shell that dies of one leaves its own children behind.
 */
const ENDING = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"] as const;
/** Signals with a meaning that the child gave them; a child of its own would die of them. */
const PRIVATE = ["SIGUSR1", "SIGUSR2"] as const;

/** An ending signal came while there was no child to end. */
export class InterruptError extends Error {
  readonly signal: NodeJS.Signals;

  constructor(signal: NodeJS.Signals) {
    super(`ended by ${signal}`);
    this.name = "InterruptError";
    this.signal = signal;
  }

  /** The signal's number. */
  get number(): number {
    return constants.signals[this.signal];
  }
}

/**
 * Listens from its making: before there is a child, an ending signal aborts {@link waiting}; with
 * one, signals are passed on. USR1 and USR2 before there is a child are dropped, because nobody is
 * there to understand them.
 *
 * Ctrl-Z stops the child first and then the wrapper; what continues the wrapper continues the
 * child. A stopped wrapper does not renew: past the deadline the guard ends the child.
 */
export class Signals {
  readonly #waiting = new AbortController();
  readonly #listeners = new Map<NodeJS.Signals, () => void>();
  #child: GuardedChild | undefined;
  #asked: InterruptError | undefined;

  constructor() {
    for (const signal of ENDING) this.#on(signal, () => this.#end(signal));
    for (const signal of PRIVATE) this.#on(signal, () => void this.#child?.signal(signal, false));
    this.#on("SIGWINCH", () => void this.#child?.signal("SIGWINCH", true));
    this.#on("SIGCONT", () => void this.#child?.signal("SIGCONT", true));
    this.#on("SIGTSTP", () => void this.#stopBoth());
  }

  /** Aborted by the first ending signal, with an {@link InterruptError}. */
  get waiting(): AbortSignal {
    return this.#waiting.signal;
  }

  /** The first ending signal, or undefined. */
  get asked(): InterruptError | undefined {
    return this.#asked;
  }

  /** From now on signals go to this child. */
  passTo(child: GuardedChild): void {
    this.#child = child;
  }

  /** The child has ended. */
  passToNobody(): void {
    this.#child = undefined;
  }

  /** Ends listening. */
  close(): void {
    for (const [signal, listener] of this.#listeners) process.removeListener(signal, listener);
  }

  #on(signal: NodeJS.Signals, listener: () => void): void {
    this.#listeners.set(signal, listener);
    process.on(signal, listener);
  }

  #end(signal: NodeJS.Signals): void {
    this.#asked ??= new InterruptError(signal);
    void this.#child?.signal(signal, true);
    this.#waiting.abort(this.#asked);
  }

  async #stopBoth(): Promise<void> {
    await this.#child?.signal("SIGSTOP", true);
    process.kill(process.pid, "SIGSTOP");
  }
}
