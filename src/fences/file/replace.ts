/** Reads and replaces the content file of a resource's folder. */
import { open, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { OutcomeUnknownError, TenureError, UnavailableError } from "../../core/errors.js";
import { decode, encode, type Content } from "./container.js";

const CURRENT = "current";
const NEW = "new.";

/**
 * Runs a step that changes no content; what goes wrong in it certainly did nothing.
 *
 * @throws UnavailableError for every error that is not ours.
 */
export async function explain<T>(
  during: "lock" | "read" | "write",
  resource: string,
  step: () => Promise<T>,
): Promise<T> {
  try {
    return await step();
  } catch (error) {
    if (error instanceof TenureError) throw error;
    throw new UnavailableError(tell(during, resource, error), { cause: error, backend: "file" });
  }
}

/** The content, or null for a resource that was never armed. A damaged file is an error. */
export async function load(folder: string, resource: string): Promise<Content | null> {
  const path = join(folder, CURRENT);
  let bytes: Uint8Array;
  try {
    bytes = await readFile(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
  try {
    return decode(resource, bytes);
  } catch (error) {
    throw new UnavailableError(
      `${path} is no usable mark of ${JSON.stringify(resource)}: ${(error as Error).message}; ` +
        `restore it from a backup: without its mark, an old holder could write`,
      { cause: error, backend: "file", retryable: false },
    );
  }
}

/**
 * Puts new content in place of the old in one step that survives a crash.
 *
 * @throws UnavailableError when the new file could not be written: nothing happened.
 * @throws OutcomeUnknownError when it could not be put in place for certain.
 */
export async function replace(
  folder: string,
  resource: string,
  id: string,
  content: Content,
): Promise<void> {
  const path = join(folder, `${NEW}${id}`);
  await explain("write", resource, async () => {
    try {
      await writeFlushed(path, encode(resource, content));
    } catch (error) {
      await rm(path, { force: true });
      throw error;
    }
  });
  try {
    await rename(path, join(folder, CURRENT));
    await flushFolder(folder);
  } catch (error) {
    const message = tell("write", resource, error);
    throw new OutcomeUnknownError(message, { cause: error, backend: "file" });
  }
}

/** Removes what processes that were killed left half written. Only with the lock held. */
export async function removeRemains(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (name.startsWith(NEW)) await rm(join(folder, name), { force: true });
  }
}

/** Makes renames in a folder survive a power loss. */
export async function flushFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function writeFlushed(path: string, bytes: Uint8Array): Promise<void> {
  const handle = await open(path, "wx");
  try {
    await handle.writeFile(bytes);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function tell(during: string, resource: string, error: unknown): string {
  const why = error instanceof Error ? error.message : String(error);
  return `cannot ${during} ${JSON.stringify(resource)}: ${why}`;
}
