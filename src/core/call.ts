/** Calls to a backend, each bounded in time and sorted by outcome. */
import { Ending } from "./aborting.js";
import type { Answer, Call } from "./backend.js";
import type { Timers } from "./clock.js";
import { parseDuration } from "./duration.js";
import {
  ArgumentRangeError,
  ArgumentTypeError,
  OutcomeUnknownError,
  TenureError,
  UnavailableError,
} from "./errors.js";
import type { ErrorContext } from "./errors.js";
import { Members, type Member } from "./members.js";

/** Longest that one call to a store may take unless told otherwise, milliseconds. */
const DEFAULT_CALL_TIMEOUT_MS = 5_000;

/** The option `timeout`, milliseconds. @throws TypeError or RangeError naming the value. */
export function callTimeoutMs(timeout: unknown): number {
  return timeout === undefined ? DEFAULT_CALL_TIMEOUT_MS : parseDuration(timeout, "timeout");
}

/** A `Call` whose signal comes into being when somebody asks for it: most calls need none. */
class BoundedCall implements Call, Member {
  readonly timeoutMs: number;
  place = -1;
  /** Ends the waiting for its answer. */
  end: ((error: OutcomeUnknownError) => void) | undefined;
  #controller: AbortController | undefined;
  #ending: Ending | undefined;
  #reason: unknown;

  constructor(timeoutMs: number) {
    this.timeoutMs = timeoutMs;
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#reason !== undefined) this.#controller.abort(this.#reason);
    return this.#controller.signal;
  }

  get over(): Ending {
    this.#ending ??= new Ending();
    if (this.#reason !== undefined) this.#ending.abort();
    return this.#ending;
  }

  abort(reason: unknown): void {
    this.#reason = reason;
    this.#controller?.abort(reason);
    this.#ending?.abort();
  }
}

/** The calls of one tenure to its backend. */
export class Calls {
  /** Longest that a call may take unless told otherwise, milliseconds. */
  readonly timeoutMs: number;
  readonly #timers: Timers;
  readonly #backend: string;
  readonly #running = new Members<BoundedCall>();

  constructor(timers: Timers, timeoutMs: number, backend: string) {
    this.#timers = timers;
    this.timeoutMs = timeoutMs;
    this.#backend = backend;
  }

  /**
   * Runs one call and waits for it no longer than `timeoutMs`, even if the backend never settles:
   * client libraries are known to lose a reply without an error. An answer that is there at once
   * is returned at once. Throws, or rejects:
   *
   * @throws UnavailableError when it certainly did not happen.
   * @throws OutcomeUnknownError when it may have happened: timed out, or failed in an unknown way.
   * @throws ArgumentTypeError or ArgumentRangeError as the backend threw it: the caller's mistake.
   */
  run<R>(
    during: string,
    lock: string | undefined,
    ask: (call: Call) => Answer<R>,
    timeoutMs: number = this.timeoutMs,
  ): Answer<R> {
    const call = new BoundedCall(timeoutMs);
    let answer: Answer<R>;
    try {
      answer = ask(call);
    } catch (error) {
      throw this.#sorted(error, during, lock);
    }
    return isPromise(answer) ? this.#bound(answer, call, during, lock) : answer;
  }

  /** One promise for all: an async function that races two promises costs three times as much. */
  #bound<R>(
    answer: Promise<R>,
    call: BoundedCall,
    during: string,
    lock: string | undefined,
  ): Promise<R> {
    return new Promise((resolve, reject) => {
      const done = (): void => {
        timer.cancel();
        this.#running.delete(call);
      };
      const end = (error: OutcomeUnknownError): void => {
        done();
        reject(error);
        call.abort(error);
      };
      const timer = this.#timers.after(call.timeoutMs, () => {
        const text = `${during} was not answered within ${Math.round(call.timeoutMs)} ms`;
        end(new OutcomeUnknownError(text, this.#about(lock)));
      });
      call.end = end;
      this.#running.add(call);
      answer.then(
        (value) => {
          done();
          resolve(value);
        },
        (error: unknown) => {
          done();
          reject(this.#sorted(error, during, lock));
        },
      );
    });
  }

  /** Waits no longer for any answer. */
  endAll(): void {
    const error = new OutcomeUnknownError(
      "closed before the store answered",
      this.#about(undefined),
    );
    for (const call of this.#running) call.end?.(error);
  }

  /** An error of a backend as one of the families. */
  #sorted(error: unknown, during: string, lock: string | undefined): unknown {
    if (error instanceof TenureError) return error;
    if (error instanceof ArgumentTypeError || error instanceof ArgumentRangeError) return error;
    const text = error instanceof Error ? error.message : String(error);
    return new OutcomeUnknownError(`${during} failed: ${text}`, {
      ...this.#about(lock),
      cause: error,
    });
  }

  #about(lock: string | undefined): ErrorContext {
    return lock === undefined ? { backend: this.#backend } : { backend: this.#backend, lock };
  }
}

/** Also a promise of a client library's own kind. */
function isPromise<R>(answer: Answer<R>): answer is Promise<R> {
  return typeof (answer as { readonly then?: unknown } | null | undefined)?.then === "function";
}

/** Whether the store could not be asked, and asking again would not help: a wrong password, say. */
export function isPermanent(error: unknown): boolean {
  return error instanceof UnavailableError && !error.retryable;
}

/** Whether the store could not be asked, or its answer is lost: not an answer of the store. */
export function isNoAnswer(error: unknown): error is UnavailableError | OutcomeUnknownError {
  return error instanceof UnavailableError || error instanceof OutcomeUnknownError;
}
