/** What is used of an AbortSignal. */
export interface Abortable {
  readonly aborted: boolean;
  addEventListener(type: "abort", run: () => void, options?: { readonly once: true }): void;
  removeEventListener(type: "abort", run: () => void): void;
}

/**
 * That much of an AbortSignal and no more, for what there are many of: a controller costs several
 * microseconds, and so does each listener.
 */
export class Ending implements Abortable {
  aborted = false;
  readonly #runs = new Set<() => void>();

  abort(): void {
    this.aborted = true;
    for (const run of this.#runs) run();
    this.#runs.clear();
  }

  addEventListener(_type: "abort", run: () => void): void {
    this.#runs.add(run);
  }

  removeEventListener(_type: "abort", run: () => void): void {
    this.#runs.delete(run);
  }
}

/**
 * Listening to a signal that many calls share: they share one listener, too. A shutdown signal
 * passed to hundreds of calls would otherwise look like a leak to the platform, which warns of it.
 */
const listening = new WeakMap<Abortable, { runs: Set<() => void>; tell: () => void }>();

/**
 * Calls `run` once the signal aborts, at once when it has aborted already. Answers what ends the
 * listening.
 */
export function whenAborted(signal: Abortable | undefined, run: () => void): () => void {
  if (signal === undefined) return () => undefined;
  if (signal.aborted) {
    run();
    return () => undefined;
  }
  let entry = listening.get(signal);
  if (entry === undefined) {
    const runs = new Set<() => void>();
    entry = { runs, tell: () => [...runs].forEach((one) => one()) };
    listening.set(signal, entry);
    signal.addEventListener("abort", entry.tell);
  }
  const { runs, tell } = entry;
  // A function of its own, so that the same `run` may listen twice.
  const mine = (): void => run();
  runs.add(mine);
  return () => {
    if (!runs.delete(mine) || runs.size > 0) return;
    signal.removeEventListener("abort", tell);
    listening.delete(signal);
  };
}
