/** The time that one transaction on a server has, as a process that runs keeps it. */
import type { Timer, Timers } from "./clock.js";

/** How long the answer to a COMMIT, or to a ROLLBACK, may take beyond the transaction's time. */
const GRACE_MS = 1_000;

/** How far a transaction has come: nothing sent that matters, under way, COMMIT sent. */
export interface Progress {
  stage: "before" | "work" | "commit";
}

/** The transaction's time is over. */
export class OutOfTime extends Error {
  /** Whether a part of it may be committed all the same; see {@link Bounded}. */
  readonly isInDoubt: boolean;

  constructor(ms: number, isInDoubt = false) {
    super(`its time of ${ms} ms was over`);
    this.isInDoubt = isInDoubt;
  }
}

/** A transaction as a driver gives it. */
export interface Bounded<R> {
  readonly native: unknown;
  query(text: string, values?: readonly unknown[]): Promise<R>;
  /** Whether what the work sent may have committed a part of it. */
  readonly isInDoubt?: boolean;
}

/** The time of one transaction. */
export interface TimeLimit {
  /** When to give up waiting for a connection, and when to cut it off. */
  readonly limits: { readonly patience: AbortSignal; readonly signal: AbortSignal };
  /** The transaction as long as there is time: work that goes on must not write outside it. */
  bound<R>(transaction: Bounded<R>): Bounded<R>;
  /** Rejects when the time is over. */
  readonly isOver: Promise<never>;
  /**
   * Rejects when nobody need wait any more: at once for what is being undone, after a moment for
   * an answer that would tell what became of it.
   */
  readonly isGivenUp: Promise<never>;
  /** As of the transaction that was bound. */
  readonly isInDoubt: boolean;
  stop(): void;
}

/** Begins at once; to be stopped. */
export function timeLimit(timers: Timers, ms: number, progress: Progress): TimeLimit {
  const patience = new AbortController();
  const cut = new AbortController();
  const [isOver, endIt] = rejectable();
  const [isGivenUp, giveUp] = rejectable();
  let grace: Timer | undefined;
  let over: OutOfTime | undefined;
  let current: { readonly isInDoubt?: boolean } | undefined;
  const timer = timers.after(ms, () => {
    const error = new OutOfTime(ms, current?.isInDoubt === true);
    over = error;
    const abandon = (): void => {
      cut.abort();
      giveUp(error);
    };
    endIt(error);
    patience.abort();
    if (progress.stage === "work") abandon();
    else grace = timers.after(GRACE_MS, abandon);
  });
  return {
    limits: { patience: patience.signal, signal: cut.signal },
    bound(transaction) {
      current = transaction;
      return {
        // Only once asked for: a driver does not see what is sent on it.
        get native() {
          return transaction.native;
        },
        query: async (text, values) => {
          if (over !== undefined) throw over;
          return await transaction.query(text, values);
        },
      };
    },
    isOver,
    isGivenUp,
    get isInDoubt() {
      return current?.isInDoubt === true;
    },
    stop() {
      timer.cancel();
      grace?.cancel();
    },
  };
}

function rejectable(): [Promise<never>, (error: Error) => void] {
  let reject: (error: Error) => void = () => undefined;
  const promise = new Promise<never>((_, no) => (reject = no));
  promise.catch(() => undefined);
  return [promise, reject];
}
