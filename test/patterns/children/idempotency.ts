/** A process that works under idempotency keys; every effect is a row of `effects`. */
import { idempotency } from "../../../src/idempotency/open.js";
import { serve } from "../serve.js";
import { withWallClockOff } from "../wrong-clock.js";

interface Opening {
  readonly target: { readonly url: string; readonly options: object };
}

let keys: any;
let note: (tx: any, key: string, how: Work) => unknown;

/** How the work goes on after its effect. */
interface Work {
  readonly hangs?: boolean;
  readonly pauseMs?: number;
}

const forSoLong = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const asleep = (ms: number): void =>
  void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

serve({
  async open({ target: { url, options } }: Opening) {
    // Some are an hour early, some an hour late.
    const runtime = withWallClockOff(((process.pid % 3) - 1) * 3_600_000);
    keys = await idempotency(url as any, { ...options, runtime });
    const who = String(process.pid);
    if (url.startsWith("redis")) {
      // Loading it takes longer than all else that a child begins with.
      const { createClient } = await import("redis");
      const client = createClient({ url });
      await client.connect();
      note = async (_, key, { hangs, pauseMs = 0 }) => {
        await client.rPush(`effects:${key}`, who);
        await forSoLong(hangs ? 60_000 : pauseMs);
        return { who };
      };
      return;
    }
    if (url.startsWith("sqlite")) {
      note = (tx, key, { hangs, pauseMs = 0 }) => {
        tx.run("INSERT INTO effects (k, who) VALUES (?, ?)", key, who);
        asleep(hangs ? 60_000 : pauseMs);
        return { who };
      };
      return;
    }
    const [a, b] = url.startsWith("postgres") ? ["$1", "$2"] : ["?", "?"];
    note = async (tx, key, { hangs, pauseMs = 0 }) => {
      await tx.query(`INSERT INTO effects (k, who) VALUES (${a}, ${b})`, [key, who]);
      await forSoLong(hangs ? 60_000 : pauseMs);
      return { who };
    };
  },
  async once({ key, options = {}, work = {} }: { key: string; options?: object; work?: Work }) {
    try {
      const once = await keys.once(key, options, (tx: any) => note(tx, key, work));
      return { ...once, pid: process.pid };
    } catch (error) {
      return { failed: (error as Error).name, pid: process.pid };
    }
  },
});
