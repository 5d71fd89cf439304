/** Whether an open SQLite file is still the one that others find at its path. */
import { statSync, type Stats } from "node:fs";
import { UnavailableError } from "../../core/errors.js";

const LOOK_EVERY_MS = 100;

/**
 * A database file, and its write-ahead log, as they were when this was made.
 *
 * SQLite goes on in a file that was deleted or replaced, and says nothing: what it answers is lost,
 * and whoever opens the path anew has another store, in which every key and every name is free.
 */
export class FilePlace {
  readonly #file: string;
  readonly #first: readonly (readonly [path: string, seen: Stats])[];
  readonly #monotonicMs: () => number;
  #lookedMs = -Infinity;
  #inPlace = true;

  /**
   * To be made once the connection has begun a transaction: until then there may be no log.
   *
   * @param file empty for a database in memory, which has no place
   * @param hasLog whether to look at the log, too: on a connection that keeps its journal mode
   */
  constructor(file: string, hasLog: boolean, monotonicMs: () => number) {
    this.#file = file;
    this.#monotonicMs = monotonicMs;
    const paths = file === "" ? [] : hasLog ? [file, `${file}-wal`] : [file];
    this.#first = paths.flatMap((path) => {
      const seen = look(path);
      return seen === undefined ? [] : [[path, seen] as const];
    });
  }

  /**
   * Whether it is the same file. Looks at most every 100 ms unless `now` is set, as before whatever
   * writes; once false, false for ever.
   */
  isInPlace(now = false): boolean {
    const nowMs = this.#monotonicMs();
    if (this.#inPlace && (now || nowMs - this.#lookedMs >= LOOK_EVERY_MS)) {
      this.#lookedMs = nowMs;
      this.#inPlace = this.#first.every(([path, first]) => {
        const seen = look(path);
        return seen !== undefined && seen.ino === first.ino && seen.dev === first.dev;
      });
    }
    return this.#inPlace;
  }

  /** @throws UnavailableError when {@link isInPlace} says no. */
  check(now = false): void {
    if (this.isInPlace(now)) return;
    throw new UnavailableError(
      `the SQLite database ${this.#file} or its log was deleted or replaced while open; close it ` +
        "and open it again",
      { backend: "sqlite", retryable: false },
    );
  }
}

function look(path: string): Stats | undefined {
  return statSync(path, { throwIfNoEntry: false });
}
