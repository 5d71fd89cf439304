/**
 * The lock of one resource's folder: a file that always exists under exactly one name.
 *
 * Its name is `free`, or `held.` with the owner and an id that is never used twice. Whoever
 * renames it has it: a rename succeeds only while the old name exists, so each is a
 * compare-and-swap done by the kernel. A lock held by a dead process is taken over by renaming
 * *its* name:
 *
 * (1) A and B both see `held.D` of the dead D; (2) A renames it to `held.A`; (3) B's rename finds
 * no `held.D` any more, and B starts anew. Nothing is deleted and created, so there is no moment at
 * which B could remove the lock that A has just taken.
 */
import { readdir, rename } from "node:fs/promises";
import { join } from "node:path";
import { UnavailableError } from "../../core/errors.js";
import type { FenceCall, FenceRuntime } from "../contract.js";
import { throwIfAborted } from "../bearer.js";
import { formatOwner, isDead, parseOwner, type Owner } from "./owner.js";

/** What the lock needs to know. */
export interface LockContext {
  readonly runtime: FenceRuntime;
  readonly owner: Owner;
  /** Longest wait for the lock, milliseconds. */
  readonly busyMs: number;
}

/** A lock that is held. */
export interface FolderLock {
  /** Part of the names of files that belong to this turn. */
  readonly id: string;
  /** Whether a dead process had it: it may have left files behind. */
  readonly tookOver: boolean;
  release(): Promise<void>;
}

/** Name of the lock while nobody has it. */
export const FREE = "free";
const HELD = "held.";
/** A rename can hide the file from a listing that runs at that moment, but not often in a row. */
const MISSES = 40;

/**
 * Waits for the lock of a folder.
 *
 * @throws UnavailableError when it stays taken for longer than `busyMs` or than the lease has left,
 *   naming the process that has it, or when the lock file is missing.
 */
export async function lockFolder(
  folder: string,
  call: FenceCall,
  context: LockContext,
): Promise<FolderLock> {
  const { clock, random } = context.runtime;
  const id = random.id();
  const mine = join(folder, `${HELD}${formatOwner(context.owner)}.${id}`);
  const release = (): Promise<void> => rename(mine, join(folder, FREE));
  const untilMs = clock.monotonicMs() + Math.min(context.busyMs, Math.max(call.remainingMs(), 0));
  let misses = 0;
  for (;;) {
    throwIfAborted(call);
    if (await tryRename(join(folder, FREE), mine)) return { id, tookOver: false, release };
    const name = (await readdir(folder)).find((entry) => entry.startsWith(HELD));
    const owner = name === undefined ? undefined : parseOwner(name.slice(HELD.length));
    if (name !== undefined && owner !== undefined && (await isDead(owner, context.owner))) {
      if (await tryRename(join(folder, name), mine)) return { id, tookOver: true, release };
    }
    misses = name === undefined ? misses + 1 : 0;
    if (misses > MISSES) throw missing(folder);
    if (clock.monotonicMs() >= untilMs) throw taken(folder, name, owner);
    await pause(context.runtime, 1 + random.uniform() * 9);
  }
}

async function tryRename(from: string, to: string): Promise<boolean> {
  try {
    await rename(from, to);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

function pause(runtime: FenceRuntime, ms: number): Promise<void> {
  return new Promise((resolve) => void runtime.timers.after(ms, resolve));
}

function missing(folder: string): UnavailableError {
  return new UnavailableError(
    `${folder} has no lock file; while no process uses the folder, create an empty file named ` +
      `${FREE} in it`,
    { backend: "file", retryable: false },
  );
}

function taken(folder: string, name: string | undefined, owner: Owner | undefined): Error {
  const by = owner === undefined ? "another process" : `process ${owner.pid}`;
  const repair =
    name === undefined
      ? ""
      : `; if that process is gone for good (in another container, say), rename ${name} to ${FREE}`;
  return new UnavailableError(`${folder} is locked by ${by}${repair}`, { backend: "file" });
}
