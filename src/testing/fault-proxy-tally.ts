/** Which way bytes go: `request` from client to server, `reply` back. */
export type Direction = "request" | "reply";

/** What became of bytes or connections. */
export type Fate = "passed" | "dropped";

interface Watcher {
  readonly fate: Fate;
  left: number;
  readonly tell: () => void;
}

/** Bytes of one direction, counted, and events for those who wait for some. */
export class Tally {
  readonly #bytes: Record<Fate, number> = { passed: 0, dropped: 0 };
  readonly #watchers = new Set<Watcher>();

  get bytes(): Readonly<Record<Fate, number>> {
    return { ...this.#bytes };
  }

  count(fate: Fate, bytes: number): void {
    this.#bytes[fate] += bytes;
    for (const watcher of [...this.#watchers]) {
      if (watcher.fate !== fate) continue;
      watcher.left -= bytes;
      if (watcher.left > 0) continue;
      this.#watchers.delete(watcher);
      watcher.tell();
    }
  }

  /** Resolves once `bytes` more have met this fate, counted from the call. */
  next(fate: Fate, bytes: number): Promise<void> {
    return new Promise((tell) => void this.#watchers.add({ fate, left: bytes, tell }));
  }
}
