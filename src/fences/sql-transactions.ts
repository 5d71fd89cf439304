/**
 * Transactions whose length is bounded from both sides.
 *
 * A transaction holds the mark's row, and a newer holder waits for it. So it has **its time**: what
 * the lease has left when it begins, at most `transactionMs`. A process that runs gives up when its
 * time is over, and rolls back. One that is frozen cannot; for it the server is given limits, which
 * each dialect says for itself.
 */
import type { Timers } from "../core/clock.js";
import {
  LeaseLostError,
  OutcomeUnknownError,
  UnavailableError,
  type TenureError,
} from "../core/errors.js";
import { OutOfTime, timeLimit, type Progress, type TimeLimit } from "../core/time-limit.js";
import { throwIfAborted } from "./bearer.js";
import type { FenceCall } from "./contract.js";
import type { SqlTransactions } from "./sql-store.js";
import type { SqlTransaction } from "./sql-work.js";

/** No lease bounds it. */
export const UNBOUND: FenceCall = { signal: undefined, remainingMs: () => Infinity };

/** What a transaction sees, and may do. */
export type Mode = "write" | "read";

/** How the driver's errors are read. */
export interface SqlFaults {
  /** Whether a statement only met others that were faster. */
  isContention(error: unknown): boolean;
  /** Whether an error of the server ended its session: no answer to a COMMIT. */
  endsSession(error: unknown): boolean;
  explain(
    error: unknown,
    failure: { readonly during: string; readonly backend: string; readonly unsent?: boolean },
  ): TenureError;
}

/** What transactions are made of. */
export interface SqlTransactionParts {
  readonly backend: string;
  readonly timers: Timers;
  readonly faults: SqlFaults;
  /** Longest time of one transaction, milliseconds. */
  readonly transactionMs: number;
  /**
   * Runs `work` between BEGIN and COMMIT, with limits in the server of about `ms` each; rolls back
   * when it throws.
   */
  begin<R>(
    mode: Mode,
    ms: number,
    limits: TimeLimit["limits"],
    work: (transaction: SqlTransaction) => Promise<R>,
  ): Promise<R>;
}

/** How the transactions of one fence run. */
export class Transactions implements SqlTransactions {
  readonly #parts: SqlTransactionParts;

  constructor(parts: SqlTransactionParts) {
    this.#parts = parts;
  }

  /**
   * Milliseconds that a transaction has.
   *
   * @throws LeaseLostError when there are none: no trying again gives it some.
   */
  timeFor(during: string, call: FenceCall): number {
    const leftMs = call.remainingMs();
    // After it: whoever asks a lease for its time may be the first to see that this is over.
    throwIfAborted(call);
    const ms = Math.floor(Math.min(leftMs, this.#parts.transactionMs));
    if (ms >= 1) return ms;
    const message = `cannot ${during}: the lease has no time left: it was given back, or is over`;
    // At its deadline a lease has aborted its signal.
    const reason = call.signal === undefined || leftMs > 0 ? "deadline" : "released";
    throw new LeaseLostError(message, { backend: this.#parts.backend, reason });
  }

  async run<R>(
    mode: Mode,
    during: string,
    call: FenceCall,
    step: (transaction: SqlTransaction) => Promise<R>,
  ): Promise<R> {
    const { timers } = this.#parts;
    const ms = this.timeFor(during, call);
    const state: Progress = { stage: "before" };
    const time = timeLimit(timers, ms, state);
    const begun = this.#parts.begin(mode, ms, time.limits, async (transaction) => {
      state.stage = "work";
      const result = await Promise.race([step(time.bound(transaction)), time.isOver]);
      state.stage = "commit";
      return result;
    });
    // Where nobody waits any more, nobody hears of it.
    begun.catch(() => undefined);
    try {
      return await Promise.race([begun, time.isGivenUp]);
    } catch (error) {
      const told = this.#told(error, during, state);
      const isOpen = told instanceof OutcomeUnknownError && (told === error || time.isInDoubt);
      if (mode === "write" || !(told instanceof OutcomeUnknownError) || isOpen) throw told;
      // A read that was not left has no effect that could have happened.
      throw this.#unavailable(told.message, told);
    } finally {
      time.stop();
    }
  }

  async own<R>(during: string, statements: () => Promise<R>): Promise<R> {
    const { backend, faults } = this.#parts;
    try {
      return await statements();
    } catch (error) {
      // A caller's mistake, or one of our own errors already.
      if (error instanceof OutOfTime || (error instanceof Error && "family" in error)) throw error;
      if (faults.isContention(error)) {
        const message = `cannot ${during}: another transaction has the lock for it`;
        throw this.#unavailable(message, error);
      }
      const explained = faults.explain(error, { during, backend });
      if (explained.family !== "unknown") throw explained;
      // No COMMIT was sent, so nothing can have happened.
      const { message } = error instanceof Error ? error : explained;
      throw this.#unavailable(`cannot ${during}: it was broken off (${message})`, error);
    }
  }

  #told(error: unknown, during: string, { stage }: Progress): unknown {
    const { backend, faults } = this.#parts;
    if (error instanceof OutOfTime && stage !== "commit") {
      if (error.isInDoubt) {
        const message = `cannot ${during}: ${error.message}, and a part of it may be committed`;
        return new OutcomeUnknownError(message, { backend, cause: error });
      }
      return this.#unavailable(`cannot ${during}: ${error.message}; it was rolled back`);
    }
    if (stage === "work") return error;
    if (stage === "commit" && faults.endsSession(error)) {
      const message = `cannot ${during}: the session ended during COMMIT`;
      return new OutcomeUnknownError(message, { backend, cause: error });
    }
    return faults.explain(error, { during, backend, unsent: stage === "before" });
  }

  #unavailable(message: string, cause?: unknown): UnavailableError {
    const { backend } = this.#parts;
    return new UnavailableError(message, cause === undefined ? { backend } : { backend, cause });
  }
}
