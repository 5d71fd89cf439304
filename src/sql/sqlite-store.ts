/**
 * The store in a SQLite file. Each transaction is one turn of the event loop.
 *
 * SQLite waits for a lock by sleeping inside the call, which stops the whole process; so the lock
 * is asked for without waiting, and again after a pause. `BEGIN EXCLUSIVE` is `BEGIN IMMEDIATE` in
 * WAL mode; with a rollback journal it also waits for readers, and does so at the start, where it
 * can, rather than failing at COMMIT, when the work has run.
 */
import { ArgumentTypeError, OutcomeUnknownError, UnavailableError } from "../core/errors.js";
import type { TenureError } from "../core/errors.js";
import type { Runtime } from "../core/runtime.js";
import { isGuarded, isSqlites, setGuard } from "../dialects/sqlite.js";
import { Alone, isBeforehand, LEFT_OUT, Look } from "./script.js";
import type { Run, Script, Shortcut } from "./script.js";
import type { SqlRows, Step } from "./script.js";
import type { NowMs } from "./sqlite-clock.js";
import { connectionOf, keepStatements, runAlone, runOn, SqliteWork } from "./sqlite-tx.js";
import type { CallersSqlite, SqliteConnection, SqliteTx } from "./sqlite-tx.js";
import type { Rendering } from "./statement.js";
import type { SqlStore, Work } from "./store.js";

/** What the store is given. */
export interface SqliteParts {
  readonly runtime: Pick<Runtime, "clock" | "timers" | "random">;
  readonly connection: SqliteConnection;
  /** Whether `close` closes the connection. */
  readonly ownsConnection: boolean;
  /** A caller's database object as a connection. @throws TypeError for anything else. */
  adopt(database: unknown): SqliteConnection;
  /** Whether another connection has the lock: nothing happened, and it can be tried again. */
  isBusy(error: unknown): boolean;
  /** An error of Tenure for what was thrown `during` a step; `committing`: by COMMIT itself. */
  explain(error: unknown, during: string, committing: boolean): TenureError;
  /** Reads the file's clock. */
  clock(): Script<NowMs>;
  readonly place: SqlitePlace;
}

/** Where the file was found. */
export interface SqlitePlace {
  /** To be called in a transaction: before the first there may be no log. */
  begun(): void;
  /**
   * Looks at most every 100 ms unless `now` is set, as before whatever writes.
   *
   * @throws UnavailableError when it was deleted or replaced since.
   */
  check(now?: boolean): void;
}

/** Tries that follow at once; most locks are held for less than a millisecond. */
const EAGER_TRIES = 5;
const LONGEST_PAUSE_MS = 8;

/** Nothing has happened yet, and another connection has the lock. */
class Busy extends Error {}

/** One SQLite file. */
export class SqliteStore implements SqlStore<"sqlite"> {
  readonly dialect = "sqlite" as const;
  /** Known once the tables are. */
  storeId = "";
  #nowMs: NowMs | undefined;
  readonly run: Run<"promised">;
  readonly setUp: Run<"promised">;
  readonly #parts: SqliteParts;
  readonly #timeoutMs: number;
  readonly #connection: SqliteConnection;
  readonly #rendering: Rendering;
  readonly #adopted = new WeakMap<object, SqliteConnection>();
  #isOpen = true;

  constructor(parts: SqliteParts, timeoutMs: number) {
    this.#parts = parts;
    this.#timeoutMs = timeoutMs;
    this.#connection = keepStatements(parts.connection);
    this.#rendering = { dialect: "sqlite", schema: undefined, nowMs: () => this.#nowMs!() };
    this.run = (during, make) => this.#run(during, make);
    this.setUp = this.run;
  }

  async #run<R>(during: string, make: () => Script<R>): Promise<R> {
    let script: Script<R> | undefined = make();
    let begun: IteratorResult<Step, R> | undefined = script.next([]);
    while (begun.done !== true && isBeforehand(begun.value)) {
      begun = script.next(this.#alone(during, begun.value));
    }
    if (begun.done === true && this.#isOpen) return begun.value;
    return await this.#whenFree(during, () =>
      this.#transact(during, () => {
        const [first, at] = [script ?? make(), begun];
        [script, begun] = [undefined, undefined];
        return this.#own(during, first, at);
      }),
    );
  }

  /** Left out where it is not the time for it: the transaction then decides. */
  #alone(during: string, step: Shortcut | Look): SqlRows {
    const connection = this.#connection;
    const isAlone = step instanceof Look || step instanceof Alone;
    if (!isAlone || !this.#isOpen || connection.inTransaction) return LEFT_OUT;
    this.#parts.place.check(!(step instanceof Look));
    try {
      return this.#withoutWaiting(() => runAlone(connection, this.#rendering, step));
    } catch (error) {
      if (this.#parts.isBusy(error)) return LEFT_OUT;
      throw this.#told(error, during, step instanceof Alone);
    }
  }

  within(tx: CallersSqlite): Run<"sqlite"> {
    const adopt = (database: unknown): SqliteConnection => this.#adopt(database);
    const connection = connectionOf(tx, adopt, this.#connection.file);
    return (during, make) => {
      // It may have ended since.
      connectionOf(tx, adopt, this.#connection.file);
      this.#parts.place.check(true);
      const script = make();
      try {
        return runOn(connection, this.#rendering, script);
      } catch (error) {
        throw this.#told(error, during);
      }
    };
  }

  async transaction<R>(during: string, work: Work<"sqlite", R>): Promise<Awaited<R>> {
    if (typeof work !== "function") throw new ArgumentTypeError("work", work, "a function");
    return await this.#whenFree(during, () =>
      this.#transact(during, () => this.#work(work as (tx: SqliteTx) => Awaited<R>)),
    );
  }

  /** To be called once the tables are there. */
  async startClock(): Promise<void> {
    this.#nowMs = await this.run("read the clock", () => this.#parts.clock());
  }

  /** SQLite knows no users. */
  isForbidden(): boolean {
    return false;
  }

  async close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    if (this.#parts.ownsConnection) this.#connection.close();
  }

  #adopt(database: unknown): SqliteConnection {
    const isObject = typeof database === "object" && database !== null;
    const known = isObject ? this.#adopted.get(database) : undefined;
    const connection = known ?? keepStatements(this.#parts.adopt(database));
    if (isObject) this.#adopted.set(database, connection);
    return connection;
  }

  #work<R>(work: (tx: SqliteTx) => R): R {
    const tx = new SqliteWork(this.#connection);
    try {
      const result = work(tx);
      if (typeof (result as { then?: unknown } | null | undefined)?.then !== "function") {
        return result;
      }
      void Promise.resolve(result).catch(() => undefined);
      throw new TypeError("work on SQLite must be synchronous: it returned a promise");
    } finally {
      tx.end();
    }
  }

  /** A script of the pattern itself: a lock that is taken is waited for, the rest is told. */
  #own<R>(during: string, script: Script<R>, begun?: IteratorResult<Step, R>): R {
    try {
      return runOn(this.#connection, this.#rendering, script, begun);
    } catch (error) {
      if (this.#parts.isBusy(error)) throw new Busy();
      throw this.#told(error, during);
    }
  }

  #told(error: unknown, during: string, committing = false): unknown {
    // A caller's mistake, or one of our own errors already.
    if (error instanceof Error && ("family" in error || error instanceof TypeError)) return error;
    return this.#parts.explain(error, during, committing);
  }

  async #whenFree<R>(during: string, attempt: () => R): Promise<R> {
    const { clock, timers, random } = this.#parts.runtime;
    const untilMs = clock.monotonicMs() + this.#timeoutMs;
    for (let tries = 1; ; tries++) {
      if (!this.#isOpen) {
        throw new UnavailableError(`cannot ${during}: the store is closed`, {
          backend: "sqlite",
          retryable: false,
        });
      }
      const busy = this.#attempt(attempt);
      if (!("busy" in busy)) return busy.done;
      if (clock.monotonicMs() >= untilMs) {
        const forMs = `for ${this.#timeoutMs} ms (${this.#connection.file})`;
        throw new UnavailableError(`cannot ${during}: ${busy.busy} ${forMs}`, {
          backend: "sqlite",
        });
      }
      await new Promise<void>((resolve) => {
        if (tries <= EAGER_TRIES) timers.soon(resolve);
        else timers.after(1 + random.uniform() * LONGEST_PAUSE_MS, resolve);
      });
    }
  }

  #attempt<R>(attempt: () => R): { readonly done: R } | { readonly busy: string } {
    if (this.#connection.inTransaction) return { busy: "this connection was in a transaction" };
    try {
      return { done: this.#withoutWaiting(attempt) };
    } catch (error) {
      if (error instanceof Busy) return { busy: "another connection was writing" };
      throw error;
    }
  }

  /** A caller's connection may be set to wait, asleep; one of our own never is. */
  #withoutWaiting<R>(step: () => R): R {
    if (this.#parts.ownsConnection) return step();
    const row = this.#connection.prepare("PRAGMA busy_timeout").get() as Record<string, bigint>;
    const before = Object.values(row)[0] ?? 0n;
    if (before === 0n) return step();
    this.#connection.exec("PRAGMA busy_timeout = 0");
    try {
      return step();
    } finally {
      this.#connection.exec(`PRAGMA busy_timeout = ${before}`);
    }
  }

  #transact<R>(during: string, step: () => R): R {
    const connection = this.#connection;
    try {
      connection.exec("BEGIN EXCLUSIVE");
    } catch (error) {
      if (this.#parts.isBusy(error)) throw new Busy();
      throw this.#parts.explain(error, during, false);
    }
    let result: R;
    try {
      if (!this.#parts.ownsConnection) setGuard(connection);
      this.#parts.place.begun();
      this.#parts.place.check(true);
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
      connection.exec("COMMIT");
    } catch (error) {
      this.#rollBack();
      throw this.#parts.explain(error, during, true);
    }
    return result;
  }

  /**
   * Whether the transaction is the one that was begun: its savepoint ends with it. On a connection
   * of our own the work has no words to begin another.
   */
  #isStill(): boolean {
    if (!this.#connection.inTransaction) return false;
    if (this.#parts.ownsConnection) return true;
    return isGuarded(this.#connection);
  }

  #ended(during: string, cause?: unknown): OutcomeUnknownError {
    return new OutcomeUnknownError(
      `cannot ${during}: the transaction was ended inside the work (${this.#connection.file})`,
      { backend: "sqlite", ...(cause === undefined ? {} : { cause }) },
    );
  }

  #rollBack(): void {
    if (!this.#connection.inTransaction) return;
    try {
      this.#connection.exec("ROLLBACK");
    } catch {
      // SQLite has rolled back by itself, or the connection is closed, which does the same.
    }
  }
}
