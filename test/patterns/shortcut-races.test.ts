/** Random calls over eight connections, whose single statements meet those of the others. */
import { expect, it } from "vitest";
import { claims } from "../../src/claims/open.js";
import { SupersededError, type TenureError } from "../../src/core/errors.js";
import { queue } from "../../src/queue/open.js";
import { reservations } from "../../src/reservations/open.js";
import { onStores } from "./stores.js";

const CONNECTIONS = 8;
const CALLS = 250;

/** Numbers below `n`, the same in each run. */
function draws(seed: number): (n: number) => number {
  let state = seed;
  return (n) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    return (state >> 8) % n;
  };
}

/** All connections at once, each its calls in turn; what is refused in order is no failure. */
async function race<C>(
  all: readonly C[],
  step: (one: C, n: number) => Promise<void>,
): Promise<void> {
  const run = async (one: C): Promise<void> => {
    for (let n = 0; n < CALLS; n++) {
      await step(one, n).catch((error: unknown) => {
        const { family } = error as Partial<TenureError>;
        if (family !== "refused") throw error;
      });
    }
  };
  await Promise.all(all.map(run));
}

onStores(
  "single statements that race",
  (store) => {
    it("give each key's jobs to one at a time, in order, and lose none", async () => {
      const spot = await store.fresh();
      const all = await Promise.all(
        Array.from({ length: CONNECTIONS }, () =>
          spot.open((target, more) => queue(target, { ...more, maxTries: 100 })),
        ),
      );
      const draw = draws(1);
      const [held, tokens] = [new Set<string>(), new Map<string, bigint>()];
      const done: Record<string, number[]> = {};
      const adding = new Map<string, Promise<unknown>>();
      let added = 0;
      const work = async (q: (typeof all)[number], outlasts: boolean): Promise<void> => {
        const job = await q.take({ lease: outlasts ? 100 : 60_000 });
        if (job === null) return;
        const { key, token } = job;
        expect(held).not.toContain(key);
        expect(token).toBeGreaterThan(tokens.get(key) ?? 0n);
        tokens.set(key, token);
        if (outlasts) {
          while (job.remaining() > 0) await new Promise((later) => setTimeout(later, 5));
          return await job.fail({ retryIn: 0 }).then(() => undefined, superseded);
        }
        held.add(key);
        await new Promise((later) => setTimeout(later, draw(3)));
        // From here on the next may have the key before this one sees its answer.
        held.delete(key);
        if (draw(5) === 0) return void (await job.fail({ retryIn: 0 }));
        (done[key] ??= []).push(job.payload as number);
        await job.complete();
        if (draw(4) === 0) await job.complete();
      };
      await race(all, async (q) => {
        const what = draw(20);
        if (what >= 8) return await work(q, what === 8);
        // One after the other for each key: the order of those that overlap is nobody's.
        const key = `k${draw(3)}`;
        const mine = (adding.get(key) ?? Promise.resolve()).then(() =>
          q.add({ key, payload: ++added }),
        );
        adding.set(key, mine);
        await mine;
      });
      while ((await all[0]!.stats()).waiting > 0) await work(all[0]!, false);
      for (const payloads of Object.values(done)) {
        expect(payloads).toEqual([...payloads].sort((a, b) => a - b));
      }
      expect(Object.values(done).flat()).toHaveLength(added);
      expect(await all[0]!.stats()).toMatchObject({ waiting: 0, done: added, dead: 0 });
    });

    it("never take more places than there are, and count what is taken", async () => {
      const spot = await store.fresh();
      const all = await Promise.all(
        Array.from({ length: CONNECTIONS }, () =>
          spot.open((target, more) => reservations(target, more)),
        ),
      );
      const draw = draws(2);
      await race(all, async (r) => {
        const [item, holder, what] = [`i${draw(2)}`, `h${draw(12)}`, draw(10)];
        if (what < 4) await r.reserve(item, holder, { for: [5, 60_000, Infinity][draw(3)]! });
        else if (what === 4) await r.reserve(item, holder, { for: "1m", quantity: 2, capacity: 3 });
        else if (what < 7) await r.cancel(item, holder);
        else if (what === 7) await r.confirm(item, holder);
        else if (what === 8) await r.define(item, 1 + draw(6));
        else {
          const places = await r.available(item);
          if (places !== null) expect(places.available).toBeGreaterThanOrEqual(0);
        }
      });
      const { schema } = spot.options;
      const items = await spot.query(`SELECT capacity, taken, (SELECT coalesce(sum(quantity), 0)
        FROM ${schema}.reservation r WHERE r.item = i.name) AS sum
        FROM ${schema}.reservation_item i`);
      expect(items).toHaveLength(2);
      for (const { capacity, taken, sum } of items) {
        expect(taken).toBe(sum);
        expect(Number(taken)).toBeLessThanOrEqual(Number(capacity));
      }
    });

    it("let one claim a key for good, and raise the token of each that has it for a time", async () => {
      const spot = await store.fresh();
      const all = await Promise.all(
        Array.from({ length: CONNECTIONS }, () =>
          spot.open((target, more) => claims(target, more)),
        ),
      );
      const draw = draws(3);
      const [forGood, tokens] = [new Set<string>(), new Set<string>()];
      await race(all, async (c, n) => {
        const key = `c${draw(10)}.${n >> 5}`;
        if (draw(4) > 0) {
          const claim = await c.claim(key, "me", { lease: 20 });
          if (claim === null) return;
          expect(tokens).not.toContain(`${key} ${claim.token}`);
          tokens.add(`${key} ${claim.token}`);
          if (draw(2) === 0) await c.complete(claim);
        } else if (await c.claim(key, "me")) {
          expect(forGood).not.toContain(key);
          forGood.add(key);
        }
      });
      expect(forGood.size).toBeGreaterThan(0);
    });
  },
  ["pg"],
);

function superseded(error: unknown): void {
  if (!(error instanceof SupersededError)) throw error;
}
