/** Read, change, write if nobody else has: over any store of versions. */
import { whenAborted } from "../core/aborting.js";
import type { Timers } from "../core/clock.js";
import { jsonText } from "../core/json.js";
import { checkName } from "../core/names.js";
import type { Random } from "../core/random.js";
import { checkUpdate, checkVersion, type UpdateTerms } from "./arguments.js";
import type { Cas, Updated, Versioned } from "./contract.js";
import { conflict } from "./errors.js";

/** What pausing takes from the outside world. */
export interface UpdateRuntime {
  readonly timers: Timers;
  readonly random: Random;
}

/** How a write went: the new version, or the one that is there instead. */
export type Written =
  | { readonly isWritten: true; readonly version: bigint }
  | { readonly isWritten: false; readonly version: bigint | null };

/** One thing that is changed. `V` is read, `C` is written. */
export interface Changing<V, C> {
  /** For errors. */
  readonly key: string;
  readonly backend: string;
  read(): Promise<Versioned<V> | null>;
  change(value: V | undefined): C | PromiseLike<C>;
  write(changed: C, version: bigint | null): Promise<Written>;
}

const FIRST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 1_000;

/** Carries it out. Null where nothing is there and `needsValue` is true. */
export async function update<V, C>(
  changing: Changing<V, C>,
  { attempts, signal }: UpdateTerms,
  runtime: UpdateRuntime,
  needsValue = false,
): Promise<Updated<C> | null> {
  for (let n = 1; ; n++) {
    signal?.throwIfAborted();
    const seen = await changing.read();
    if (seen === null && needsValue) return null;
    signal?.throwIfAborted();
    const value = await beforeAbort(signal, changing.change(seen?.value));
    signal?.throwIfAborted();
    const written = await changing.write(value, seen?.version ?? null);
    if (written.isWritten) return { value, version: written.version, attempts: n };
    if (n >= attempts) throw conflict(changing.key, written.version, n, changing.backend);
    await pause(n, signal, runtime);
  }
}

/** What a change answers, unless the signal comes first: then nobody waits for the change. */
async function beforeAbort<C>(
  signal: AbortSignal | undefined,
  changed: C | PromiseLike<C>,
): Promise<C> {
  if (signal === undefined) return await changed;
  let unlisten = (): void => undefined;
  const aborted = new Promise<never>((_, reject) => {
    unlisten = whenAborted(signal, () => reject(signal.reason));
  });
  try {
    return await Promise.race([changed, aborted]);
  } finally {
    unlisten();
  }
}

async function pause(
  n: number,
  signal: AbortSignal | undefined,
  { timers, random }: UpdateRuntime,
): Promise<void> {
  const longestMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(n, 30));
  await new Promise<void>((resolve) => {
    let unlisten = (): void => undefined;
    const timer = timers.after(random.uniform() * longestMs, () => {
      unlisten();
      resolve();
    });
    unlisten = whenAborted(signal, () => {
      timer.cancel();
      resolve();
    });
  });
}

/** A store of values under keys, as JSON text. */
export interface TextStore {
  readonly backend: string;
  readonly maxBytes: number;
  readonly runtime: UpdateRuntime;
  read(key: string): Promise<Versioned<string> | null>;
  write(key: string, text: string, version: bigint | null): Promise<Written>;
  close(): Promise<void>;
}

/** The calls over such a store. */
export function casOver(store: TextStore): Cas {
  const { backend, maxBytes } = store;
  const read = async (key: string): Promise<Versioned<unknown> | null> => {
    const seen = await store.read(key);
    return seen === null ? null : { value: JSON.parse(seen.value), version: seen.version };
  };
  return {
    read: async (key) => (await read(checkName(key, "key"))) as Versioned<never> | null,
    write: async (key, value, options) => {
      const name = checkName(key, "key");
      const text = jsonText(value, "value", maxBytes);
      const written = await store.write(name, text, checkVersion(options));
      if (written.isWritten) return written.version;
      throw conflict(name, written.version, 1, backend);
    },
    update: async (key, change, options) => {
      const name = checkName(key, "key");
      const terms = checkUpdate(change, options);
      let text = "";
      const updated = await update<unknown, unknown>(
        {
          key: name,
          backend,
          read: () => read(name),
          change,
          write: (value, version) => {
            text = jsonText(value, "value", maxBytes);
            return store.write(name, text, version);
          },
        },
        terms,
        store.runtime,
      );
      return { ...updated!, value: JSON.parse(text) as never };
    },
    close: () => store.close(),
  };
}
