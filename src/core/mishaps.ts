/** What goes wrong in a caller's own functions, while something of ours goes on around them. */

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

/** Tells a caller's `onError`. What that throws ends what goes on, as soon as nothing is torn. */
export class Mishaps {
  readonly #onError: (error: unknown) => void;
  readonly #over = new AbortController();
  #thrown: { readonly error: unknown } | undefined;

  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  /** Aborted when `onError` has thrown. */
  get over(): AbortSignal {
    return this.#over.signal;
  }

  /** Never throws. */
  tell(error: unknown): void {
    try {
      this.#onError(error);
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
