/** What a queue makes of very many keys, of whatever handlers throw, and of what is revived. */
import { expect, it } from "vitest";
import { queue, type Queue } from "../../src/queue/open.js";
import { onStores, type Spot } from "./stores.js";
import { until } from "./until.js";

const open = (spot: Spot, options: object = {}): Promise<Queue<any>> => spot.open(queue, options);

const table = (spot: Spot, name: string): string =>
  spot.dialect === "sqlite" ? `tenure_queue_${name}` : `${spot.options.schema}.queue_${name}`;

const MANY = `WITH RECURSIVE many (n) AS (
  SELECT 1 UNION ALL SELECT n + 1 FROM many WHERE n < 3500)`;

onStores(
  "a queue in trouble",
  (store) => {
    it("comes to the job behind more delayed ones than one transaction has time for", async () => {
      const spot = await store.fresh();
      const q = await open(spot, { timeout: 2_000 });
      const far = "4000000000000";
      await spot.query(`INSERT INTO ${table(spot, "key")} (queue, job_key, ready_ms, until_ms)
        ${MANY} SELECT 'jobs', 'k' || n, n, 0 FROM many`);
      await spot.query(`INSERT INTO ${table(spot, "job")} (queue, job_key, id, payload, state,
        added_ms, due_ms, tries)
        ${MANY} SELECT 'jobs', 'k' || n, 'i' || n, '1', 'waiting', 0, ${far}, 0 FROM many`);
      await q.add({ key: "now", payload: 1 });
      const job = await q.take();
      expect(job!.key).toBe("now");
      await job!.complete();
      expect(await q.take()).toBeNull();
    }, 60_000);

    it("gives a job back whatever its handler threw, and says why as well as can be", async () => {
      const spot = await store.fresh();
      const q = await open(spot, { maxTries: 1 });
      const thrown = [Object.create(null), undefined, Symbol("s")];
      for (const n of thrown.keys()) await q.add({ key: `k${n}`, payload: n });
      const stop = new AbortController();
      const handler = ({ payload }: { payload: unknown }): void => {
        throw thrown[payload as number];
      };
      const done = q.work(handler, { pollEvery: 10, signal: stop.signal });
      await until(async () => (await q.stats()).dead === thrown.length);
      stop.abort();
      await done;
      expect((await q.dead()).map(({ reason }) => reason).sort()).toEqual([
        "Symbol(s)",
        "failed with something that has no text",
        "undefined",
      ]);
    });

    it("ends the work with what `onError` throws, once the jobs that run have ended", async () => {
      const spot = await store.fresh();
      const q = await open(spot, { maxTries: 1 });
      await q.add({ key: "bad", payload: 1 });
      await q.add({ key: "good", payload: 2 });
      let [begin, finish] = [(): void => undefined, (): void => undefined];
      const isBegun = new Promise<void>((resolve) => (begin = resolve));
      const isTold = new Promise<void>((resolve) => (finish = resolve));
      const handler = async ({ key }: { key: string }): Promise<void> => {
        if (key === "good") begin();
        await (key === "good" ? isTold : isBegun);
        if (key === "bad") throw new Error("broken");
      };
      const onError = (): never => {
        finish();
        throw new Error("enough");
      };
      const done = q.work(handler, { concurrency: 2, pollEvery: 10, onError });
      await expect(done).rejects.toThrow("enough");
      expect(await q.stats()).toMatchObject({ dead: 1, done: 1, waiting: 0, running: 0 });
    });

    it("runs what was revived before the delayed job behind it", async () => {
      const spot = await store.fresh();
      const q = await open(spot, { maxTries: 1 });
      await q.add({ key: "a", id: "first", payload: 1 });
      await q.add({ key: "a", id: "second", payload: 2, delay: "1h" });
      await (await q.take())!.fail();
      expect(await q.take()).toBeNull();
      expect(await q.revive("first")).toBe(true);
      expect((await q.take())!.id).toBe("first");
    });

    it("runs what was revived once the job that runs has failed", async () => {
      const spot = await store.fresh();
      const [once, often] = [await open(spot, { maxTries: 1 }), await open(spot, { maxTries: 9 })];
      await once.add({ key: "a", id: "first", payload: 1 });
      await once.add({ key: "a", id: "second", payload: 2 });
      await (await once.take())!.fail();
      const second = await often.take();
      expect(second!.id).toBe("second");
      expect(await once.revive("first")).toBe(true);
      expect(await often.take()).toBeNull();
      expect(await second!.fail({ retryIn: "1h" })).toBe("retry");
      const first = await often.take();
      expect(first!.id).toBe("first");
      await first!.complete();
      expect(await often.take()).toBeNull();
    });

    it("tells of options that are none, where there are few", async () => {
      const q = await open(await store.fresh());
      await q.add({ key: "a", payload: 1 });
      const job = (await q.take())!;
      await expect(q.dead(5 as any)).rejects.toThrow(/^options must be an object/);
      await expect(q.dead({ most: 5 } as any)).rejects.toThrow(/^most must be left out/);
      await expect(job.fail(null as any)).rejects.toThrow(/^options must be an object/);
      await expect(job.fail({ retryin: 5 } as any)).rejects.toThrow(/^retryin must be left out/);
      await job.complete();
    });

    it("forgets as much as is done", async () => {
      const spot = await store.fresh();
      const q = await open(spot, { keepDone: 0 });
      await spot.query(`INSERT INTO ${table(spot, "job")} (queue, job_key, id, payload, state,
        added_ms, due_ms, ended_ms, tries)
        ${MANY} SELECT 'jobs', 'k', 'i' || n, '1', 'done', 0, 0, 0, 1 FROM many`);
      for (let n = 0; n < 4; n++) await q.take();
      expect(await q.stats()).toMatchObject({ done: 0 });
    });
  },
  ["sqlite", "pg"],
);
