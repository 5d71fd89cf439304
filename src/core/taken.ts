/** Backends that a tenure serves, or is about to serve. */

interface Closable {
  close(): Promise<void>;
}

const taken = new WeakSet<Closable>();

/**
 * Runs what makes a tenure over a backend, and closes that where it is refused: it may have opened
 * a file or a client when it was made, and who wrote it into the call has nothing to close it by.
 * It may be given once more where only its store was not ready, and one that another tenure has is
 * left to that.
 */
export async function taking<R>(backend: Closable, open: () => R | Promise<R>): Promise<R> {
  const isOthers = taken.has(backend);
  taken.add(backend);
  try {
    return await open();
  } catch (error) {
    if (isOthers) throw error;
    taken.delete(backend);
    const { family } = (error ?? {}) as { readonly family?: unknown };
    if (family === "caller" || family === "refused") await closedFor(error, backend);
    throw error;
  }
}

/** Closes a backend for an error, and throws that: it says more than what closing fails with. */
export async function closedFor(error: unknown, backend: Closable): Promise<never> {
  await Promise.allSettled([(async () => await backend.close())()]);
  throw error;
}
