/** Whether an open SQLite file is still the one that others find at its path. */
import { statSync, type Stats } from "node:fs";
import { UnavailableError } from "../../core/errors.js";

const LOOK_EVERY_MS = 100;

/**
 * A database file as it was when this was made, and its write-ahead log.
 *
 * SQLite goes on in a file that was deleted or replaced, and says nothing: what it answers is lost,
 * and whoever opens the path anew has another store, in which every key and every name is free.
 */
export class FilePlace {
  readonly #file: string;
  readonly #first: (readonly [path: string, seen: Stats | undefined])[];
  readonly #monotonicMs: () => number;
  #awaitsLog: boolean;
  #lookedMs = -Infinity;
  #inPlace = true;

  /**
   * To be made as soon as the file is open.
   *
   * @param file empty for a database in memory, which has no place
   * @param hasLog whether to look at the log, too: on a connection that keeps its journal mode
   * @throws UnavailableError when the file cannot be looked at
   */
  constructor(file: string, hasLog: boolean, monotonicMs: () => number) {
    this.#file = file;
    this.#awaitsLog = hasLog && file !== "";
    this.#monotonicMs = monotonicMs;
    this.#first = file === "" ? [] : [[file, look(file)]];
  }

  /** To be called in a transaction: before the first there may be no log. */
  begun(): void {
    if (!this.#awaitsLog) return;
    this.#awaitsLog = false;
    const log = `${this.#file}-wal`;
    const seen = look(log);
    if (seen !== undefined) this.#first.push([log, seen]);
  }

  /**
   * Looks at most every 100 ms unless `now` is set, as before whatever writes.
   *
   * @throws UnavailableError when it is not the same file, and from then on; or when it cannot be
   *   looked at.
   */
  check(now = false): void {
    const nowMs = this.#monotonicMs();
    if (this.#inPlace && (now || nowMs - this.#lookedMs >= LOOK_EVERY_MS)) {
      this.#lookedMs = nowMs;
      this.#inPlace = this.#first.every(([path, first]) => {
        const seen = look(path);
        return seen !== undefined && seen.ino === first?.ino && seen.dev === first.dev;
      });
    }
    if (this.#inPlace) return;
    throw new UnavailableError(
      `the SQLite database ${this.#file} or its log was deleted or replaced while open; close it ` +
        "and open it again",
      { backend: "sqlite", retryable: false },
    );
  }
}

function look(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (cause) {
    const text = `cannot look at the SQLite database: ${(cause as Error).message}`;
    throw new UnavailableError(text, { backend: "sqlite", retryable: false, cause });
  }
}
