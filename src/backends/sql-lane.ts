import type { Call } from "../core/backend.js";
import { UnavailableError } from "../core/errors.js";
import type { OwnConnection, Result } from "./sql-client.js";

/**
 * A connection kept for one kind of work, made anew when it has broken: renewals do not wait for a
 * busy pool, nor behind a slow statement.
 */
export class Lane<V, C extends OwnConnection<V>> {
  readonly #connect: (waitingMs: number) => Promise<C>;
  #connection: C | undefined;
  #connecting: Promise<C> | undefined;
  /** How much is not answered yet. */
  #underWay = 0;
  #isClosed = false;

  constructor(connect: (waitingMs: number) => Promise<C>) {
    this.#connect = connect;
  }

  /** Runs a statement. A connection that has not answered in time is given up. */
  async query(text: string, values: readonly V[], call: Call): Promise<Result> {
    return this.use(call, (connection) => connection.query(text, values));
  }

  /** Does something with the connection. */
  async use<R>(call: Call, work: (connection: C) => Promise<R>): Promise<R> {
    const connection = await this.#ready(call);
    // Nothing is sent for a call that ended while the connection was being made.
    call.signal.throwIfAborted();
    this.#underWay++;
    // The next renewal must not queue behind a server that does not answer.
    const giveUp = (): void => connection.destroy();
    call.signal.addEventListener("abort", giveUp, { once: true });
    try {
      return await work(connection);
    } finally {
      this.#underWay--;
      call.signal.removeEventListener("abort", giveUp);
    }
  }

  /** Gives up the connection unless somebody uses it; whoever comes next makes another. */
  drop(): void {
    if (this.#underWay === 0 && this.#connection?.isOpen === true) this.#connection.destroy();
  }

  /** Closes the connection, in good order unless something on it is not answered yet. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const connecting = await this.#connecting?.catch(() => undefined);
    const connection = this.#connection ?? connecting;
    // A good order would begin behind the answer, and a silent server gives none.
    if (this.#underWay > 0) connection?.destroy();
    else await connection?.close();
  }

  async #ready({ timeoutMs }: Call): Promise<C> {
    if (this.#isClosed) throw new UnavailableError("the backend is closed", { retryable: false });
    if (this.#connection?.isOpen === true) return this.#connection;
    this.#connecting ??= this.#connect(timeoutMs)
      .then((connection) => (this.#connection = connection))
      .finally(() => (this.#connecting = undefined));
    return this.#connecting;
  }
}
