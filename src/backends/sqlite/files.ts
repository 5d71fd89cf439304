/** What is done with the files themselves, beside SQLite: flushing, and seeing them replaced. */
import { statSync, type Stats } from "node:fs";
import { open, statfs, type FileHandle } from "node:fs/promises";
import { dirname } from "node:path";
import { GuaranteeError, UnavailableError } from "../../core/errors.js";

/** `f_type` of file systems that other machines may share, by statfs(2) of Linux. */
const NETWORK_FILE_SYSTEMS: ReadonlyMap<number, string> = new Map([
  [0x6969, "NFS"],
  [0x517b, "SMB"],
  [0xfe534d42, "SMB"],
  [0xff534d42, "CIFS"],
  [0x01021997, "9P"],
  [0x65735546, "FUSE"],
  [0x00c36400, "Ceph"],
  [0x5346414f, "AFS"],
  [0x6b414653, "AFS"],
  [0x73757245, "Coda"],
  [0x0bd00bd0, "Lustre"],
  [0x7461636f, "OCFS2"],
  [0x01161970, "GFS2"],
  [0x47504653, "GPFS"],
  [0x786f4256, "a VirtualBox shared folder"],
]);

/** Name of the network file system that `type` (`f_type` of statfs) stands for, if it is one. */
export function networkFileSystem(type: number): string | undefined {
  return NETWORK_FILE_SYSTEMS.get(type >>> 0);
}

/**
 * Refuses a file on a file system that other machines may share: the write-ahead log needs memory
 * that all processes share (https://sqlite.org/wal.html), and so does the clock.
 *
 * @throws GuaranteeError naming the file system.
 */
export async function refuseNetworkFileSystem(
  file: string,
  ask: (folder: string) => Promise<{ readonly type: number }> = statfs,
): Promise<void> {
  const found = await ask(dirname(file)).catch(() => undefined);
  const name = found === undefined ? undefined : networkFileSystem(found.type);
  if (name === undefined) return;
  throw new GuaranteeError(
    `${file} is on ${name}: SQLite's locks and shared memory do not work between machines; ` +
      "put the file on a local disk, or set trustFileSystem if no other machine uses it",
    { backend: "sqlite" },
  );
}

const LOOK_EVERY_MS = 100;

/** The database file and its write-ahead log, as they were when the connection was made. */
export class StoreFiles {
  readonly #paths: readonly [database: string, wal: string];
  readonly #inodes: readonly (Stats | undefined)[];
  readonly #monotonicMs: () => number;
  #lookedMs = -Infinity;
  #inPlace = true;
  #wal: Promise<FileHandle> | undefined;

  /** To be made after the first write through the connection: until then there is no log. */
  constructor(file: string, monotonicMs: () => number) {
    this.#paths = [file, `${file}-wal`];
    this.#inodes = this.#paths.map(look);
    this.#monotonicMs = monotonicMs;
  }

  /**
   * Whether the file and its log are still those that were opened. If not, this connection would
   * go on writing into a file that nobody else sees, and two holders would each have their own
   * store. Looks at most every 100 ms unless `now` is set; once false, false for ever.
   */
  isInPlace(now = false): boolean {
    const nowMs = this.#monotonicMs();
    if (this.#inPlace && (now || nowMs - this.#lookedMs >= LOOK_EVERY_MS)) {
      this.#lookedMs = nowMs;
      this.#inPlace = this.#paths.every((path, i) => {
        const seen = look(path);
        const first = this.#inodes[i];
        return seen !== undefined && seen.ino === first?.ino && seen.dev === first.dev;
      });
    }
    return this.#inPlace;
  }

  /** @throws UnavailableError when {@link StoreFiles.isInPlace} says no. */
  check(): void {
    if (this.isInPlace()) return;
    throw new UnavailableError(
      `the SQLite database ${this.#paths[0]} or its log was deleted or replaced while open; ` +
        "close and connect again",
      { backend: "sqlite", retryable: false },
    );
  }

  /**
   * Flushes the log, in the thread pool, so that what is committed survives a power failure.
   *
   * Its descriptor is kept open: SQLite holds no lock on the log, but closing a descriptor of the
   * database or of the shared memory would drop the locks that this process holds there.
   */
  async flush(): Promise<void> {
    this.#wal ??= open(this.#paths[1], "r");
    const wal = await this.#wal;
    await wal.datasync();
  }

  /** Flushes the folder, so that files just created are found again after a power failure. */
  async flushFolder(): Promise<void> {
    const folder = await open(dirname(this.#paths[0]), "r");
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  }

  /** To be called after the connection was closed. */
  async close(): Promise<void> {
    await (await this.#wal?.catch(() => undefined))?.close();
  }
}

function look(path: string): Stats | undefined {
  return statSync(path, { throwIfNoEntry: false });
}
