/**
 * The session for what belongs to no lease: looking, listing, breaking, fencing. It carries no
 * nodes and is kept alive by nobody: unused it ends, and the next call opens another.
 */
import type { Call } from "../../core/backend.js";
import { ConnectionLostError, SessionGoneError } from "./errors.js";

const TIMEOUT_MS = 10_000;

interface Closable {
  readonly isGone: boolean;
  close(): Promise<void>;
}

/** A session when one is needed. */
export class PlainSession<S extends Closable> {
  readonly #openOne: (timeoutMs: number, call: Call) => Promise<S>;
  #session: S | undefined;
  #opening: Promise<S> | undefined;
  #isClosed = false;

  constructor(openOne: (timeoutMs: number, call: Call) => Promise<S>) {
    this.#openOne = openOne;
  }

  /** Runs `ask` on a session; once more where that one turned out to have ended, unasked. */
  async use<R>(call: Call, ask: (session: S) => Promise<R>): Promise<R> {
    const session = await this.#open(call);
    try {
      return await ask(session);
    } catch (error) {
      if (!(error instanceof SessionGoneError) || this.#isClosed) throw error;
      return ask(await this.#open(call));
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const opening = await this.#opening?.catch(() => undefined);
    await Promise.all([opening?.close(), this.#session?.close()]);
  }

  async #open(call: Call): Promise<S> {
    if (this.#isClosed) throw new ConnectionLostError("it is closed", false);
    if (this.#session?.isGone === false) return this.#session;
    this.#opening ??= this.#openOne(TIMEOUT_MS, call).finally(() => {
      this.#opening = undefined;
    });
    this.#session = await this.#opening;
    return this.#session;
  }
}
