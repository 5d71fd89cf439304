/**
 * The store on a server: Postgres, MySQL or MariaDB.
 *
 * Each transaction is READ COMMITTED and has its time. A process that runs gives up when it is
 * over, and the connection is cut off, which rolls back. One that is frozen cannot; for it the
 * server has the same time as its limit for each wait: for a lock, for a statement to end, for the
 * next one to come.
 */
import { ArgumentTypeError, OutcomeUnknownError } from "../core/errors.js";
import type { Runtime } from "../core/runtime.js";
import type { RenderedKept } from "./kept-sql.js";
import { answerInTime, type MessageLimits } from "./message-limit.js";
import { isBeforehand, LEFT_OUT, Look, type Run, type Script, type Shortcut } from "./script.js";
import type { SqlRows } from "./script.js";
import { ServerScripts, type ServerDialect, type ServerFaults } from "./server-scripts.js";
import { askIn, ServerWork, type Ask, type CallersServer } from "./server-tx.js";
import type { ServerTransaction, ServerTx } from "./server-tx.js";
import type { SqlStore, Work } from "./store.js";
import { OutOfTime, timeLimit, type Progress, type TimeLimit } from "../core/time-limit.js";

/** When to give up. */
export interface ServerLimits {
  /** Aborted when no connection was free for too long: nothing was sent then. */
  readonly patience: AbortSignal;
  /** Aborted when nobody waits any more: the connection is cut off. */
  readonly signal: AbortSignal;
}

/** The part of a driver that is used. */
export interface ServerParts<K extends ServerDialect> extends ServerFaults {
  readonly dialect: K;
  readonly runtime: Pick<Runtime, "timers" | "random" | "clock">;
  /**
   * Runs `work` between BEGIN and COMMIT in READ COMMITTED, with time-outs of `ms` in the server
   * for every wait; rolls back when it throws, and when it is another transaction by then than the
   * one that was begun, unless the work is to set up tables.
   */
  begin<R>(
    work: (transaction: ServerTransaction) => Promise<R>,
    ms: number,
    limits: ServerLimits,
    isSetUp?: boolean,
  ): Promise<R>;
  /**
   * Runs statements by themselves, with a time-out of `ms` in the server, and answers the last;
   * several in READ COMMITTED as `begin` does, one with whatever else the session has. Left out
   * where a shortcut has no answer (no RETURNING).
   */
  readonly alone?: (
    statements: readonly RenderedKept[],
    ms: number,
    limits: MessageLimits,
  ) => Promise<{ readonly rows: SqlRows }>;
  /**
   * Whether `alone` met a key that is there, others that were faster, or a default of the session
   * that stands in its way: a transaction decides then, which sets what it needs.
   */
  readonly wantsTransaction?: (error: unknown) => boolean;
  /** Whether the server's error is the last of its session: at COMMIT this leaves it open. */
  endsSession(error: unknown): boolean;
  /** Whether the server refused a statement for what it says, and not for the time that it took. */
  refusesStatement(error: unknown): boolean;
  /** Whether the user has no permission. */
  isForbidden(error: unknown): boolean;
  close(): Promise<void>;
}

/** A conflict with others is tried again so often, after a short pause that grows. */
const TRIES = 20;
const LONGEST_PAUSE_MS = 100;

/** One database on a server. */
export class ServerStore<K extends ServerDialect> implements SqlStore<ServerDialect> {
  readonly dialect: K;
  /** Known once the tables are. */
  storeId = "";
  readonly run: Run<"promised">;
  readonly setUp: Run<"promised">;
  readonly #parts: ServerParts<K>;
  readonly #timeoutMs: number;
  readonly #scripts: ServerScripts;
  #isOpen = true;

  constructor(parts: ServerParts<K>, schema: string | undefined, timeoutMs: number) {
    this.#parts = parts;
    this.dialect = parts.dialect;
    this.#timeoutMs = timeoutMs;
    this.#scripts = new ServerScripts(parts, parts.dialect, schema);
    this.run = (during, make) => this.#run(during, make);
    this.setUp = (during, make) => this.#run(during, make, true);
  }

  #run<R>(during: string, make: () => Script<R>, isSetUp = false): Promise<R> {
    return this.#repeatedly(async () => {
      const script = make();
      let begun = script.next([]);
      while (begun.done !== true && isBeforehand(begun.value)) {
        const step = begun.value;
        begun = script.next(step instanceof Look ? LEFT_OUT : await this.#alone(during, step));
      }
      if (begun.done === true) return begun.value;
      const step = (transaction: ServerTransaction): Promise<R> => {
        const ask: Ask = async (text, values) => (await transaction.query(text, values)).rows;
        return this.#scripts.run(during, ask, script, begun);
      };
      return await this.#transact(during, step, isSetUp);
    });
  }

  async #alone(during: string, shortcut: Shortcut): Promise<SqlRows> {
    const { alone } = this.#parts;
    if (alone === undefined) return LEFT_OUT;
    this.#mustBeOpen(during);
    const ms = this.#timeoutMs;
    try {
      return await answerInTime(this.#parts.runtime.timers, ms, (limits) =>
        this.#scripts.alone((statements) => alone(statements, ms, limits), shortcut),
      );
    } catch (error) {
      if (this.#parts.wantsTransaction?.(error) === true) return LEFT_OUT;
      // As it is with COMMIT: who gets no answer does not know.
      throw this.#told(error, during, { stage: "commit" });
    }
  }

  /** Runs a transaction, and again after a conflict with others, as long as that may be. */
  async #repeatedly<R>(once: () => Promise<R>, isRepeatable = () => true): Promise<R> {
    const { runtime } = this.#parts;
    const untilMs = runtime.clock.monotonicMs() + this.#timeoutMs;
    for (let tries = 1; ; tries++) {
      try {
        return await once();
      } catch (error) {
        const { cause } = (error ?? {}) as { cause?: unknown };
        const isConflict = this.#parts.isContention(cause);
        if (!isConflict || !isRepeatable() || tries === TRIES) throw error;
        if (runtime.clock.monotonicMs() > untilMs) throw error;
      }
      const pauseMs = runtime.random.uniform() * Math.min(LONGEST_PAUSE_MS, 2 ** tries);
      await new Promise<void>((resolve) => runtime.timers.after(pauseMs, resolve));
    }
  }

  within(tx: CallersServer): Run<ServerDialect> {
    const begin = askIn(tx, this.dialect);
    return async (during, make) => {
      const answer = this.#scripts.run(during, begin(), make());
      return await (tx instanceof ServerWork ? tx.keep(answer) : answer);
    };
  }

  async transaction<R>(
    during: string,
    work: Work<ServerDialect, R>,
    isRepeatable: () => boolean = () => false,
  ): Promise<Awaited<R>> {
    if (typeof work !== "function") throw new ArgumentTypeError("work", work, "a function");
    return await this.#repeatedly(
      () => this.#transact(during, (transaction) => this.#work(during, transaction, work)),
      isRepeatable,
    );
  }

  async #work<R>(
    during: string,
    transaction: ServerTransaction,
    work: Work<ServerDialect, R>,
  ): Promise<Awaited<R>> {
    const tx = new ServerWork(transaction, this.dialect);
    let result: Awaited<R>;
    try {
      result = await (work as (tx: ServerTx) => R)(tx);
    } catch (error) {
      tx.abandon();
      const undone = tx.undoneBy(error);
      if (undone !== undefined) throw undone;
      throw tx.failedWith(error) ? this.#callersFailure(error, during) : error;
    }
    await tx.end();
    return result;
  }

  isForbidden(error: unknown): boolean {
    return this.#parts.isForbidden(error);
  }

  async close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    await this.#parts.close();
  }

  #transact<R>(
    during: string,
    step: (transaction: ServerTransaction) => Promise<R>,
    isSetUp = false,
  ): Promise<R> {
    return this.#inTime(during, (time, progress) =>
      this.#parts.begin(
        async (transaction) => {
          progress.stage = "work";
          const result = await Promise.race([step(time.bound(transaction)), time.isOver]);
          progress.stage = "commit";
          return result;
        },
        this.#timeoutMs,
        time.limits,
        isSetUp,
      ),
    );
  }

  async #inTime<R>(
    during: string,
    begin: (time: TimeLimit, progress: Progress) => Promise<R>,
  ): Promise<R> {
    this.#mustBeOpen(during);
    const progress: Progress = { stage: "before" };
    const time = timeLimit(this.#parts.runtime.timers, this.#timeoutMs, progress);
    const begun = begin(time, progress);
    // Where nobody waits any more, nobody hears of it.
    begun.catch(() => undefined);
    try {
      return await Promise.race([begun, time.isGivenUp]);
    } catch (error) {
      throw this.#told(error, during, progress);
    } finally {
      time.stop();
    }
  }

  #mustBeOpen(during: string): void {
    if (this.#isOpen) return;
    throw this.#scripts.refused(`cannot ${during}: the store is closed`, undefined, false);
  }

  #told(error: unknown, during: string, { stage }: Progress): unknown {
    if (error instanceof OutOfTime && stage !== "commit") {
      if (error.isInDoubt) {
        const message = `cannot ${during}: ${error.message}, and a part of it may be committed`;
        return new OutcomeUnknownError(message, { backend: this.dialect, cause: error });
      }
      return this.#scripts.refused(`cannot ${during}: ${error.message}; it was rolled back`, error);
    }
    if (stage === "work") return error;
    const isAtCommit = stage === "commit";
    if (isAtCommit && this.#parts.isContention(error)) return this.#scripts.conflict(error, during);
    if (isAtCommit && (error instanceof OutOfTime || this.#parts.endsSession(error))) {
      return new OutcomeUnknownError(`cannot ${during}: the COMMIT was not answered`, {
        backend: this.dialect,
        cause: error,
      });
    }
    const unsent = stage === "before";
    return this.#parts.explain(error, { during, backend: this.dialect, unsent });
  }

  /** What a statement in the caller's work failed with, and the work let through. */
  #callersFailure(error: unknown, during: string): unknown {
    if (this.#parts.isContention(error)) return this.#scripts.conflict(error, during);
    // The server's answer to the caller's own statement is the caller's business.
    const isTheirs = this.#parts.refusesStatement(error);
    return isTheirs ? error : this.#scripts.uncommitted(error, during);
  }
}
