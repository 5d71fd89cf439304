/** What goes wrong in a caller's own functions, while something of ours goes on around them. */
import { ArgumentTypeError } from "./errors.js";
import type { EventSink } from "./events.js";

const REASON_LENGTH = 2_000;

/** Text for people, shortened, of a kind that every store takes. */
export function reasonText(text: string): string {
  return text.slice(0, REASON_LENGTH).replaceAll("\0", "").toWellFormed();
}

/** What was thrown, as text for people. Never throws: also what has no text can be thrown. */
export function reasonOf(thrown: unknown): string {
  try {
    const isError = thrown instanceof Error;
    return reasonText(isError ? `${thrown.name}: ${thrown.message}` : String(thrown)) || "failed";
  } catch {
    return "failed with something that has no text";
  }
}

/** A caller's `onError`: told what was thrown, and over what, where it was one thing. */
export type OnError<A> = (error: unknown, about?: A) => void;

/** A caller's `onError` as given. @throws TypeError for anything but a function. */
export function checkOnError<A>(onError: OnError<A> | undefined): OnError<A> | undefined {
  if (onError === undefined || typeof onError === "function") return onError;
  throw new ArgumentTypeError("onError", onError, "a function");
}

/** Where no `onError` was given: what went wrong is a warning, and nobody's silence. */
export function asWarnings(
  events: Pick<EventSink, "publish">,
  about: { readonly name: string; readonly backend: string },
): OnError<unknown> {
  return (error) => {
    const message = `${reasonOf(error)} (with onError it would be told there)`;
    events.publish({ type: "warning", ...about, message });
  };
}

/** Tells a caller's `onError`. What that throws ends what goes on, as soon as nothing is torn. */
export class Mishaps<A = never> {
  readonly #onError: OnError<A>;
  readonly #over = new AbortController();
  #thrown: { readonly error: unknown } | undefined;

  constructor(onError: OnError<A>) {
    this.#onError = onError;
  }

  /** Aborted when `onError` has thrown. */
  get over(): AbortSignal {
    return this.#over.signal;
  }

  /** Never throws. */
  tell(error: unknown, about?: A): void {
    try {
      this.#onError(error, about);
    } catch (thrown) {
      this.#thrown ??= { error: thrown };
      this.#over.abort();
    }
  }

  /** @throws What `onError` threw first. */
  throwIfOver(): void {
    if (this.#thrown !== undefined) throw this.#thrown.error;
  }
}
