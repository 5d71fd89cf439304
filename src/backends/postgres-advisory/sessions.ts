/**
 * Sessions of the server, each with its time-out: the server itself ends one that was silent for a
 * TTL, and with it every lock that it holds. So a holder that is frozen, or cut off without a
 * packet, does not hold for ever.
 */
import type { Call } from "../../core/backend.js";
import { GuaranteeError } from "../../core/errors.js";
import type { Result, Value } from "../sql-client.js";
import type { Connection } from "./client.js";

/** One session. */
export interface Session {
  readonly id: string;
  readonly ttlMs: number;
  readonly connection: Connection;
  /** Shared by all who ask at the same time, so that questions do not pile up. */
  pinging: Promise<unknown> | undefined;
}

/** The sessions of one process. */
export class Sessions {
  readonly #connect: () => Promise<Connection>;
  readonly #byId = new Map<string, Session>();
  #opened = 0;

  constructor(connect: () => Promise<Connection>) {
    this.#connect = connect;
  }

  /** @throws GuaranteeError where a pooler stands between. */
  async open(ttlMs: number, call: Call): Promise<Session> {
    const connection = await this.#connect();
    const giveUp = (): void => connection.destroy();
    call.signal.addEventListener("abort", giveUp, { once: true });
    try {
      call.signal.throwIfAborted();
      const { rows } = await connection.query(
        `SELECT pg_backend_pid() AS pid, set_config('idle_session_timeout', $1, false)`,
        [String(ttlMs)],
      );
      const pid = Number(rows[0]!["pid"]);
      checkDirect(connection, pid);
      const session = { id: `${pid}-${++this.#opened}`, ttlMs, connection, pinging: undefined };
      this.#byId.set(session.id, session);
      return session;
    } catch (error) {
      connection.destroy();
      throw error;
    } finally {
      call.signal.removeEventListener("abort", giveUp);
    }
  }

  /** The session, if it is still the one that was opened. */
  find(id: string | undefined): Session | undefined {
    const session = id === undefined ? undefined : this.#byId.get(id);
    return session?.connection.isOpen === true ? session : undefined;
  }

  /** Whether the session lives; the server starts its time-out anew. */
  async ping(id: string): Promise<"alive" | "gone"> {
    const session = this.find(id);
    if (session === undefined) return "gone";
    session.pinging ??= session.connection
      .query("SELECT 1")
      .finally(() => (session.pinging = undefined));
    try {
      await session.pinging;
      return "alive";
    } catch (error) {
      if (session.connection.isOpen) throw error;
      this.#byId.delete(id);
      return "gone";
    }
  }

  /** Runs a statement in a session; undefined when it has ended before. */
  async query(
    id: string | undefined,
    text: string,
    values: readonly Value[],
  ): Promise<Result | undefined> {
    return this.find(id)?.connection.query(text, values);
  }

  /** Ends a session, and first its locks: the server notices an end only a moment later. */
  async close(id: string): Promise<void> {
    const session = this.find(id);
    this.#byId.delete(id);
    if (session === undefined) return;
    await session.connection.query("SELECT pg_advisory_unlock_all()").catch(() => undefined);
    await session.connection.close();
  }

  async closeAll(): Promise<void> {
    await Promise.all([...this.#byId.keys()].map((id) => this.close(id)));
  }

}

/**
 * A pooler gives each transaction whichever session is free: a lock taken in one statement would be
 * held by a stranger in the next. It announces a process id of its own making.
 *
 * @throws GuaranteeError
 */
export function checkDirect({ announcedPid }: Connection, pid: number): void {
  if (announcedPid === pid) return;
  throw new GuaranteeError(
    "a pooler stands between here and Postgres (the session's process id is not the one that was " +
      "announced): session locks need a direct connection; lease rows (postgres://) work " +
      "through a pooler",
    { backend: "postgres-advisory" },
  );
}
