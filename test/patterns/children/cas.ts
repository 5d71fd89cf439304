/** A process whose writers count up one value. */
import { cas, type Cas } from "../../../src/cas/open.js";
import { serve } from "../serve.js";
import { withWallClockOff } from "../wrong-clock.js";

interface Opening {
  readonly target: { readonly url: string; readonly options: object };
}

let values: Cas;

serve({
  async open({ target: { url, options } }: Opening) {
    // Some are an hour early, some an hour late.
    const runtime = withWallClockOff(((process.pid % 3) - 1) * 3_600_000);
    values = await cas(url as any, { ...options, runtime });
  },
  async count({ key, writers, times }: { key: string; writers: number; times: number }) {
    const writer = async (): Promise<number> => {
      let attempts = 0;
      for (let i = 0; i < times; i++) {
        const increment = (n: number | undefined): number => (n ?? 0) + 1;
        const updated = await values.update(key, increment, { attempts: Infinity });
        attempts += updated.attempts;
      }
      return attempts;
    };
    const all = await Promise.all(Array.from({ length: writers }, writer));
    return { attempts: all.reduce((a, b) => a + b) };
  },
});
