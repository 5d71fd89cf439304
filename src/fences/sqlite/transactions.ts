/**
 * Transactions on one connection, begun when the write lock is free and done in one turn of the
 * event loop.
 *
 * SQLite waits for a lock by sleeping inside the call, which stops the whole process; so the lock
 * is asked for without waiting, and again after a pause. `BEGIN EXCLUSIVE` is `BEGIN IMMEDIATE` in
 * WAL mode; with a rollback journal it also waits for readers, and does so at the start, where it
 * can, rather than failing at COMMIT, when the work has run.
 */
import { OutcomeUnknownError, UnavailableError } from "../../core/errors.js";
import { isGuarded, isSqlites, setGuard } from "../../dialects/sqlite.js";
import { throwIfAborted } from "../bearer.js";
import type { FenceCall } from "../contract.js";
import type { Connection, SqliteParts, SqlitePlace } from "./connection.js";

/** Tries that follow at once; most locks are held for less than a millisecond. */
const EAGER_TRIES = 5;
const LONGEST_PAUSE_MS = 8;

/** How the transactions of one fence run. */
export class Transactions {
  readonly connection: Connection;
  readonly #parts: SqliteParts;
  readonly #busyMs: number;
  readonly #place: SqlitePlace;

  constructor(connection: Connection, parts: SqliteParts, busyMs: number) {
    this.connection = connection;
    this.#parts = parts;
    this.#busyMs = busyMs;
    this.#place = parts.place(connection);
  }

  /**
   * One transaction that writes. What `step` throws undoes it and comes out as it is.
   *
   * @throws UnavailableError when the lock was not to be had in time.
   * @throws OutcomeUnknownError when COMMIT failed in a way that leaves open what is on the disk.
   */
  write<R>(during: string, call: FenceCall, step: () => R): Promise<R> {
    return this.#whenFree(during, call, () => this.#run("BEGIN EXCLUSIVE", "COMMIT", during, step));
  }

  /** One transaction that sees one state and cannot write. */
  read<R>(during: string, call: FenceCall, step: () => R): Promise<R> {
    return this.#whenFree(during, call, () =>
      this.#with("query_only", 1n, () => this.#run("BEGIN", "ROLLBACK", during, step)),
    );
  }

  /**
   * Runs statements of the fence itself, before the work: a lock that is taken is waited for, and
   * everything else is told as an error of Tenure.
   */
  own<R>(during: string, statements: () => R): R {
    try {
      return statements();
    } catch (error) {
      if (this.#parts.isBusy(error)) throw new Busy();
      // A caller's mistake, or one of our own errors already.
      if (error instanceof Error && "family" in error) throw error;
      throw this.#parts.explain(error, during, false);
    }
  }

  async #whenFree<R>(during: string, call: FenceCall, attempt: () => R): Promise<R> {
    const { clock, timers, random } = this.#parts.runtime;
    const waitMs = Math.min(this.#busyMs, Math.max(call.remainingMs(), 0));
    const untilMs = clock.monotonicMs() + waitMs;
    for (let tries = 1; ; tries++) {
      throwIfAborted(call);
      const busy = this.#attempt(attempt);
      if (!("busy" in busy)) return busy.done;
      if (clock.monotonicMs() >= untilMs) {
        throw new UnavailableError(
          `cannot ${during}: ${busy.busy} for ${Math.round(waitMs)} ms (${this.connection.file})`,
          { backend: "sqlite" },
        );
      }
      await new Promise<void>((resolve) => {
        if (tries <= EAGER_TRIES) timers.soon(resolve);
        else timers.after(1 + random.uniform() * LONGEST_PAUSE_MS, resolve);
      });
    }
  }

  #attempt<R>(attempt: () => R): { readonly done: R } | { readonly busy: string } {
    if (this.connection.inTransaction) return { busy: "this connection was in a transaction" };
    try {
      return { done: this.#with("busy_timeout", 0n, attempt) };
    } catch (error) {
      if (error instanceof Busy) return { busy: "another connection was writing" };
      throw error;
    }
  }

  /** Sets a pragma of the connection for the time of a step; it may be the caller's own. */
  #with<R>(pragma: string, value: bigint, step: () => R): R {
    const row = this.connection.prepare(`PRAGMA ${pragma}`).get() as Record<string, bigint>;
    const before = Object.values(row)[0];
    if (before === value) return step();
    this.connection.exec(`PRAGMA ${pragma} = ${value}`);
    try {
      return step();
    } finally {
      this.connection.exec(`PRAGMA ${pragma} = ${before ?? 0n}`);
    }
  }

  #run<R>(begin: string, end: string, during: string, step: () => R): R {
    const { connection } = this;
    this.own(during, () => connection.prepare(begin).run());
    let result: R;
    try {
      if (!this.#parts.ownsConnection) setGuard(connection);
      this.#place.begun();
      this.#place.check(end === "COMMIT");
      result = step();
    } catch (error) {
      const ended = isSqlites(error) || this.#isStill() ? undefined : this.#ended(during, error);
      this.#rollBack();
      throw ended ?? error;
    }
    if (!this.#isStill()) {
      this.#rollBack();
      throw this.#ended(during);
    }
    try {
      connection.prepare(end).run();
    } catch (error) {
      this.#rollBack();
      throw this.#parts.explain(error, during, end === "COMMIT");
    }
    return result;
  }

  /**
   * Whether the transaction is the one that was begun: its savepoint ends with it. On a connection
   * of our own the work has no words to begin another, and the savepoint would cost a third.
   */
  #isStill(): boolean {
    if (!this.connection.inTransaction) return false;
    if (this.#parts.ownsConnection) return true;
    return isGuarded(this.connection);
  }

  #ended(during: string, cause?: unknown): OutcomeUnknownError {
    return new OutcomeUnknownError(
      `cannot ${during}: the transaction was ended inside the work (${this.connection.file})`,
      { backend: "sqlite", ...(cause === undefined ? {} : { cause }) },
    );
  }

  #rollBack(): void {
    if (!this.connection.inTransaction) return;
    try {
      this.connection.exec("ROLLBACK");
    } catch {
      // SQLite has rolled back by itself, or the connection is closed, which does the same.
    }
  }
}

/** Nothing has happened yet, and another connection has the lock. */
class Busy extends Error {}
