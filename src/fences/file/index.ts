/**
 * Fence over files: mark and value of each resource in one file, replaced by one rename.
 *
 * A write takes the folder's lock (`lock.ts`), reads the file, decides, runs the work, writes a new
 * file beside it, flushes that, renames it over the old one and flushes the folder. A process
 * killed anywhere in between leaves the old content or the new, never a part; its lock is taken
 * over. A read needs no lock: it opens one file, which never changes after its rename.
 *
 * Not promised: that a process stopped (not killed) inside a write lets others in; that a process
 * killed in one pid namespace (container) frees its lock for another; that a killed process frees
 * its lock at all where there is no `/proc`; network file systems are refused.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { parseDuration } from "../../core/duration.js";
import { ArgumentTypeError } from "../../core/errors.js";
import { checkObject } from "../../core/options.js";
import { throwIfAborted } from "../bearer.js";
import type {
  Fence,
  FenceCall,
  FenceOptions,
  FenceRuntime,
  FenceStore,
  OnStale,
  Ran,
  Work,
} from "../contract.js";
import { decide, rebase, type FenceRequest, type Verdict } from "../decide.js";
import { createFence } from "../fence.js";
import type { Content } from "./container.js";
import { makeFolder, openDirectory, type Directory } from "./directory.js";
import { lockFolder, type FolderLock } from "./lock.js";
import { explain, load, removeRemains, replace } from "./replace.js";
import { runRead, runWrite, type ReadFile, type WriteFile } from "./transaction.js";

const BUSY_MS = 5_000;

/** Options of a file fence. */
export interface FileFenceOptions<S extends OnStale = "reject"> extends FenceOptions<S> {
  /** Longest wait for another process's write, milliseconds. Default 5000. */
  readonly busyMs?: number;
}

/** Fence over files of one folder, which is made if only it is missing. */
export function createFileFence<S extends OnStale = "reject">(
  directory: string,
  runtime: FenceRuntime & { readonly holderInfo: Readonly<Record<string, string | number>> },
  options: FileFenceOptions<S> = {},
): Fence<WriteFile, ReadFile, S> {
  if (typeof directory !== "string" || directory === "" || directory.includes("\0")) {
    throw new ArgumentTypeError("directory", directory, "the path of a folder");
  }
  checkObject(options, "options");
  const busyMs = parseDuration(options.busyMs ?? BUSY_MS, "busyMs");
  const pid = Number(runtime.holderInfo["pid"] ?? 0);
  return createFence(fileStore(directory, runtime, { pid, busyMs }), runtime, options);
}

/** Options of the store alone. */
export interface FileStoreOptions {
  /** Named as the owner of locks where there is no `/proc`. */
  readonly pid: number;
  readonly busyMs?: number;
}

interface Place {
  readonly directory: Directory;
  readonly folder: string;
}

/** The store alone, for those who put something between a handle and it. */
export function fileStore(
  path: string,
  runtime: FenceRuntime,
  options: FileStoreOptions,
): FenceStore<WriteFile, ReadFile> {
  const { pid, busyMs = BUSY_MS } = options;
  const turns = new Turns();
  let directory: Promise<Directory> | undefined;

  async function open(resource: string): Promise<Place> {
    directory ??= openDirectory(path, pid);
    try {
      const opened = await directory;
      // A hash: names are longer than file names may be, and some differ only in case.
      const name = createHash("sha256").update(resource).digest("hex");
      return { directory: opened, folder: join(opened.path, name) };
    } catch (error) {
      directory = undefined;
      throw error;
    }
  }

  async function lock(resource: string, call: FenceCall): Promise<Place & { lock: FolderLock }> {
    const place = await open(resource);
    await makeFolder(place.directory, place.folder, runtime.random.id());
    const { owner } = place.directory;
    return { ...place, lock: await lockFolder(place.folder, call, { runtime, owner, busyMs }) };
  }

  async function peek(resource: string): Promise<Content | null> {
    return await explain("read", resource, async () => {
      const { folder } = await open(resource);
      return await load(folder, resource);
    });
  }

  /** Replaces the content in one step; `step` gets what is there and says what is to be. */
  function change<T>(
    resource: string,
    call: FenceCall,
    step: (content: Content | null) => { readonly answer: T; readonly next?: Content },
  ): Promise<T> {
    return turns.take(resource, async () => {
      const locked = await explain("lock", resource, () => lock(resource, call));
      const { folder } = locked;
      try {
        throwIfAborted(call);
        const content = await explain("read", resource, async () => {
          if (locked.lock.tookOver) await removeRemains(folder);
          return await load(folder, resource);
        });
        const { answer, next } = step(content);
        if (next !== undefined) await replace(folder, resource, locked.lock.id, next);
        return answer;
      } finally {
        // What was done stays done: a lock that sticks shows up at the next step, with its owner.
        await locked.lock.release().catch(() => undefined);
      }
    });
  }

  return {
    kind: "file",
    work: "sync",
    load: async (resource) => (await peek(resource))?.record ?? null,
    arm: (request, call) =>
      change<Verdict>(request.resource, call, (content) => {
        const answer = decide(content?.record ?? null, request);
        if (!answer.accepted) return { answer };
        return { answer, next: { record: answer.record, value: content?.value } };
      }),
    read: async <R>(request: FenceRequest, work: Work<ReadFile, R>): Promise<Ran<R>> => {
      const content = await peek(request.resource);
      const verdict = decide(content?.record ?? null, request);
      if (!verdict.accepted) return verdict;
      return { accepted: true, result: runRead(content?.value, work) };
    },
    write: <R>(request: FenceRequest, work: Work<WriteFile, R>, call: FenceCall) =>
      change<Ran<R>>(request.resource, call, (content) => {
        const verdict = decide(content?.record ?? null, request);
        if (!verdict.accepted) return { answer: verdict };
        const { result, value } = runWrite(content?.value, work);
        return { answer: { accepted: true, result }, next: { record: verdict.record, value } };
      }),
    rebase: (request, call) =>
      change(request.resource, call, (content) => {
        const before = content?.record ?? null;
        const after = rebase(before, request);
        const answer = { before, after };
        if (after === before) return { answer };
        return { answer, next: { record: after, value: content?.value } };
      }),
  };
}

/** One change at a time within this store object; the lock of the folder is for the others. */
class Turns {
  readonly #tails = new Map<string, Promise<unknown>>();

  take<T>(key: string, step: () => Promise<T>): Promise<T> {
    const turn = (this.#tails.get(key) ?? Promise.resolve()).then(step);
    const tail = turn.then(
      () => undefined,
      () => undefined,
    );
    this.#tails.set(key, tail);
    void tail.then(() => {
      if (this.#tails.get(key) === tail) this.#tails.delete(key);
    });
    return turn;
  }
}
