/** What a relay makes of publishers that hang or throw anything, and of a store that is away. */
import { expect, it } from "vitest";
import { outbox, type Outbox, type OutboxMessage } from "../../src/outbox/open.js";
import { claimRelay, readWaiting, recordOutcome } from "../../src/outbox/messages.js";
import { OUTBOX_TABLES } from "../../src/outbox/tables.js";
import { openSqlStore } from "../../src/sql/open.js";
import { onStores, type Spot, type Store } from "./stores.js";
import { until } from "./until.js";

const open = (spot: Spot, options: object = {}): Promise<Outbox<any>> => spot.open(outbox, options);

const write = (spot: Spot, box: Outbox<any>, key: string, payload: unknown): Promise<any> =>
  spot.begin((tx) => box.write(tx, { key, topic: "t", payload }) as any);

const messages = (spot: Spot): string =>
  spot.dialect === "sqlite" ? "tenure_outbox_message" : `${spot.options.schema}.outbox_message`;

/** Keeps the store from answering, until it is told otherwise. */
async function away(store: Store, spot: Spot): Promise<() => Promise<void>> {
  const open = await spot.openTransaction();
  if (store.dialect !== "sqlite") await open.query(`LOCK TABLE ${messages(spot)}`);
  return () => open.rollback();
}

onStores(
  "a relay in trouble",
  (store) => {
    it("publishes other keys while one message hangs, and records them", async () => {
      const spot = await store.fresh();
      const box = await open(spot);
      await write(spot, box, "slow", "hangs");
      await write(spot, box, "slow", "behind");
      const stop = new AbortController();
      const seen: unknown[] = [];
      let arrive = (): void => undefined;
      const hangs = new Promise<void>((resolve) => (arrive = resolve));
      const publish = async ({ payload }: OutboxMessage): Promise<void> => {
        seen.push(payload);
        if (payload === "hangs") await hangs;
      };
      const done = box.relay(publish, { pollEvery: 20, signal: stop.signal });
      await until(() => seen.length === 1);
      for (const n of [1, 2, 3]) {
        await write(spot, box, "quick", n);
        await until(async () => (await box.stats()).published === n);
      }
      arrive();
      await until(async () => (await box.stats()).waiting === 0);
      expect(seen).toEqual(["hangs", 1, 2, 3, "behind"]);
      stop.abort();
      await done;
    });

    it("takes whatever is thrown for a message's failure", async () => {
      const spot = await store.fresh();
      const box = await open(spot);
      const thrown = [Object.create(null), undefined, Symbol("s"), "\0half \ud800", { name: 1 }];
      for (const n of thrown.keys()) await write(spot, box, `k${n}`, n);
      await write(spot, box, "good", "good");
      const stop = new AbortController();
      const publish = ({ payload }: OutboxMessage): void => {
        if (payload !== "good") throw thrown[payload as number];
      };
      const done = box.relay(publish, { pollEvery: 20, maxTries: 1, signal: stop.signal });
      await until(async () => (await box.stats()).dead === thrown.length);
      expect(await box.stats()).toMatchObject({ waiting: 0, published: 1 });
      expect((await box.dead()).map(({ reason }) => reason)).toEqual([
        "failed with something that has no text",
        "undefined",
        "Symbol(s)",
        "half \ufffd",
        "[object Object]",
      ]);
      stop.abort();
      await done;
    });

    it("ends with what `onError` throws, once what was published is recorded", async () => {
      const spot = await store.fresh();
      const box = await open(spot);
      await write(spot, box, "good", 1);
      await write(spot, box, "bad", 2);
      const publish = ({ key }: OutboxMessage): void => {
        if (key === "bad") throw new Error("no route");
      };
      const onError = (): never => {
        throw new Error("enough");
      };
      await expect(box.relay(publish, { onError })).rejects.toThrow("enough");
      const stats = { published: 1, waiting: 1, failing: 1, isRelayed: false };
      expect(await box.stats()).toMatchObject(stats);
    });

    it("goes on under its claim when the store is there again, and publishes nothing twice", async () => {
      const spot = await store.fresh();
      const box = await open(spot, { timeout: 200 });
      const seen: OutboxMessage[] = [];
      const errors: unknown[] = [];
      const stop = new AbortController();
      let back: (() => Promise<void>) | undefined;
      const publish = async (message: OutboxMessage): Promise<void> => {
        seen.push(message);
        if (message.payload === "last") back = await away(store, spot);
      };
      const onError = (error: unknown): void => void errors.push(error);
      await write(spot, box, "a", "first");
      await write(spot, box, "a", "last");
      const done = box.relay(publish, { pollEvery: 20, signal: stop.signal, onError });
      // What was published is to be recorded.
      await until(() => errors.length >= 1);
      await back!();
      await until(async () => (await box.stats()).published === 2);
      await write(spot, box, "b", "after");
      await until(async () => (await box.stats()).published === 3);
      expect(seen.map(({ payload }) => payload)).toEqual(["first", "last", "after"]);
      expect(new Set(seen.map(({ token }) => token)).size).toBe(1);
      expect(errors[0]).toMatchObject({ family: "unavailable" });
      stop.abort();
      await done;
    });

    it("publishes a large backlog", async () => {
      const spot = await store.fresh();
      const box = await open(spot);
      await spot.query(`INSERT INTO ${messages(spot)} (id, message_key, topic, payload, state,
        written_ms, due_ms, tries) WITH RECURSIVE many (n) AS (
          SELECT 1 UNION ALL SELECT n + 1 FROM many WHERE n < 20000)
        SELECT CAST(n AS text), 'k' || (n % 500), 't', '1', 'waiting', 0, 0, 0 FROM many`);
      const stop = new AbortController();
      const errors: unknown[] = [];
      const onError = (error: unknown): void => void errors.push(error);
      let published = 0;
      const publish = (): void => {
        published += 1;
        if (published === 2_000) stop.abort();
      };
      await box.relay(publish, { signal: stop.signal, onError });
      expect(errors).toEqual([]);
      expect(await box.stats()).toMatchObject({ published, waiting: 20_000 - published });
    });

    it("records what became of messages once, also where the answer was lost", async () => {
      const spot = await store.fresh();
      const box = await open(spot);
      for (const key of ["good", "bad", "last"]) await write(spot, box, key, key);
      const opened = await spot.open((target, more) => openSqlStore(target, OUTBOX_TABLES, more));
      const { run } = opened;
      const { token } = (await run("claim", () => claimRelay("me", 60_000))) as { token: never };
      const [good, bad, last] = await run("read", () => readWaiting(3));
      const failure = { tries: 0, reason: "r", retryInMs: 60_000 };
      const failed = [
        { ...failure, seq: bad!.seq, isLast: false },
        { ...failure, seq: last!.seq, isLast: true },
      ];
      const outcome = { published: [good!.seq], failed };
      const record = (): Promise<void> =>
        run("record", () => recordOutcome({ holder: "me", token }, outcome));
      await record();
      const rows = `SELECT id, state, tries, due_ms FROM ${messages(spot)} ORDER BY id`;
      const recorded = await spot.query(rows);
      expect(recorded.map(({ tries }) => Number(tries))).toEqual([1, 1, 1]);
      await record();
      expect(await spot.query(rows)).toEqual(recorded);
    });

    it("tells of options that are none, where there are few", async () => {
      const box = await open(await store.fresh());
      for (const list of [box.dead, box.failing]) {
        await expect(list.call(box, null as any)).rejects.toThrow(/^options must be an object/);
        await expect(list.call(box, { most: 5 } as any)).rejects.toThrow(/^most must be left/);
      }
    });

    it("forgets as much as is published", async () => {
      const spot = await store.fresh();
      const box = await open(spot);
      await spot.query(`INSERT INTO ${messages(spot)} (id, message_key, topic, payload, state,
        written_ms, due_ms, ended_ms, tries) WITH RECURSIVE many (n) AS (
          SELECT 1 UNION ALL SELECT n + 1 FROM many WHERE n < 3500)
        SELECT CAST(n AS text), 'k', 't', '1', 'published', 0, 0, 0, 1 FROM many`);
      const stop = new AbortController();
      const done = box.relay(() => undefined, { pollEvery: 20, signal: stop.signal });
      await until(async () => (await box.stats()).published === 0, 5_000);
      stop.abort();
      await done;
    });
  },
  ["sqlite", "pg"],
);
