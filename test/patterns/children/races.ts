/** A process that races for claims, and takes events into an inbox. */
import { setTimeout as sleep } from "node:timers/promises";
import { claims } from "../../../src/claims/open.js";
import { inbox } from "../../../src/inbox/open.js";
import { say, serve } from "../serve.js";

let c: any;
let i: any;
let claim: any;

serve({
  async open({ url, options, timeout }) {
    const isSql = !/^redis/.test(url);
    c = await claims(url, { ...options, timeout });
    i = isSql ? await inbox(url, { ...options, timeout }) : undefined;
  },

  /** Claims each key; answers those that it got. */
  async claim({ keys, owner }) {
    const won: string[] = [];
    for (const key of keys) if (await c.claim(key, owner)) won.push(key);
    return { won };
  },

  /** Takes each event in; its effect is a row. Answers those whose effect ran here. */
  async once({ events }) {
    const won: string[] = [];
    for (const event of events) {
      const text = `INSERT INTO effects (event) VALUES ('${event}')`;
      const effect = (tx: any): unknown => {
        if (tx.query !== undefined) return tx.query(text);
        tx.run(text);
        return undefined;
      };
      if (await i.once(event, "mailer", effect)) won.push(event);
    }
    return { won };
  },

  /** Takes jobs until none is left for so long; answers what it has completed. */
  async jobs({ owner, lease, untilDone }) {
    const done: string[] = [];
    while (done.length < untilDone) {
      const job = await c.next(owner, { lease });
      if (job !== null) {
        await sleep(Math.random() * 3);
        const ok = await c.complete(job).then(
          () => true,
          (error: Error) => {
            if (error.name === "SupersededError") return false;
            throw error;
          },
        );
        if (ok) done.push(job.key);
        continue;
      }
      const left = await c.list({ state: "running", limit: 1 });
      if (left.length === 0) break;
      await sleep(20);
    }
    return { done };
  },

  /** Begins the effect of an event and never ends it. */
  async stall({ event }) {
    await i.once(event, "mailer", async (tx: any) => {
      await tx.query("SELECT 1");
      say("stalling");
      await new Promise(() => undefined);
    });
  },

  async take({ key, owner, lease }) {
    claim = await c.claim(key, owner, { lease });
    return { claim };
  },

  /** Says what becomes of completing what it took. */
  async complete() {
    return await c.complete(claim).then(
      () => ({ completed: true }),
      (error: any) => ({ completed: false, name: error.name, mark: error.mark }),
    );
  },
});
