/** Waiting between two looks at a store. */
import { whenAborted } from "../core/aborting.js";
import type { Runtime } from "../core/runtime.js";

/** A wait under way. */
export interface Rest {
  /** Resolves when the time is over, or it was ended, or the signal aborts; never rejects. */
  readonly over: Promise<void>;
  end(): void;
}

/** Begins to wait for so many milliseconds. */
export function restFor(
  { timers }: Pick<Runtime, "timers">,
  ms: number,
  signal?: AbortSignal,
): Rest {
  let end = (): void => undefined;
  const over = new Promise<void>((resolve) => {
    const timer = timers.after(ms, () => end());
    let unlisten = (): void => undefined;
    end = (): void => {
      timer.cancel();
      unlisten();
      resolve();
    };
    unlisten = whenAborted(signal, () => end());
  });
  return { over, end: () => end() };
}

/** Three quarters to five quarters of a time: so that those who wait do not come all at once. */
export function jittered({ random }: Pick<Runtime, "random">, ms: number): number {
  return ms * (0.75 + random.uniform() / 2);
}
