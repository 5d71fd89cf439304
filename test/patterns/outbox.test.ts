import { expect, it } from "vitest";
import {
  outbox,
  type Outbox,
  type OutboxMessage,
  type RelayOptions,
} from "../../src/outbox/open.js";
import { SupersededError } from "../../src/core/errors.js";
import {
  claimRelay,
  extendRelay,
  leaveRelay,
  readWaiting,
  recordOutcome,
} from "../../src/outbox/messages.js";
import { OUTBOX_TABLES } from "../../src/outbox/tables.js";
import { openSqlStore } from "../../src/sql/open.js";
import { onStores, type Spot } from "./stores.js";
import { until } from "./until.js";

const open = (spot: Spot): Promise<Outbox<any>> => spot.open(outbox, {});

const write = (spot: Spot, box: Outbox<any>, key: string, payload: unknown): Promise<any> =>
  spot.begin((tx) => box.write(tx, { key, topic: "t", payload }) as any);

/** Relays until the test says so. */
function relayed(
  box: Outbox<any>,
  options: RelayOptions = {},
  fails = (_: OutboxMessage) => false,
) {
  const stop = new AbortController();
  const seen: OutboxMessage[] = [];
  const publish = async (message: OutboxMessage): Promise<void> => {
    if (fails(message)) throw new Error("no route");
    seen.push(message);
  };
  const done = box.relay(publish, { pollEvery: 20, signal: stop.signal, ...options });
  return {
    seen,
    payloads: (key: string) => seen.filter((m) => m.key === key).map((m) => m.payload),
    end: async () => {
      stop.abort();
      await done;
    },
  };
}

onStores(
  "the outbox",
  (store) => {
    it("publishes what was committed, in the order of each key, and nothing else", async () => {
      const spot = await store.fresh();
      const box = await open(spot);
      for (let n = 0; n < 6; n++) await write(spot, box, `k${n % 2}`, n);
      const boom = (): never => {
        throw new Error("boom");
      };
      const undone = spot.begin((tx) => {
        const written: any = box.write(tx, { key: "k0", topic: "t", payload: "never" });
        return written instanceof Promise ? written.then(boom) : boom();
      });
      await expect(undone).rejects.toThrow("boom");
      expect(await box.stats()).toMatchObject({ waiting: 6, published: 0, isRelayed: false });
      const relay = relayed(box);
      await until(async () => (await box.stats()).published === 6);
      expect(relay.payloads("k0")).toEqual([0, 2, 4]);
      expect(relay.payloads("k1")).toEqual([1, 3, 5]);
      expect(relay.seen[0]).toMatchObject({ topic: "t", tries: 0, token: expect.any(BigInt) });
      expect(new Set(relay.seen.map(({ id }) => id)).size).toBe(6);
      expect(await box.stats()).toMatchObject({ waiting: 0, oldestMs: null, isRelayed: true });
      await relay.end();
      expect(await box.stats()).toMatchObject({ isRelayed: false });
    });

    it("writes an id once", async () => {
      const spot = await store.fresh();
      const box = await open(spot);
      const message = { key: "a", topic: "t", payload: 1, id: "one" };
      const first = await spot.begin((tx) => box.write(tx, message) as any);
      const second = await spot.begin((tx) => box.write(tx, message) as any);
      expect([first, second]).toEqual([
        { id: "one", written: true },
        { id: "one", written: false },
      ]);
    });

    it("skips nothing that commits late with a low number, and keeps the order of its key", async () => {
      if (store.dialect === "sqlite") return; // One writer at a time.
      const spot = await store.fresh();
      const box = await open(spot);
      const late = await spot.openTransaction();
      await box.write(late.tx, { key: "a", topic: "t", payload: "low" });
      const relay = relayed(box);
      await write(spot, box, "b", "other key");
      let isWritten = false;
      const second = write(spot, box, "a", "high").then(() => (isWritten = true));
      await until(() => relay.seen.length === 1);
      // A transaction that would overtake within the key waits for the first.
      const waits = "SELECT 1 AS w FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
      await until(async () => (await spot.query(waits)).length === 1);
      expect(isWritten).toBe(false);
      await late.commit();
      await second;
      await until(() => relay.seen.length === 3);
      expect(relay.payloads("a")).toEqual(["low", "high"]);
      await relay.end();
    });

    it("lets a poison message hold back its own key only, and shows it", async () => {
      const spot = await store.fresh();
      const box = await open(spot);
      await write(spot, box, "bad", "poison");
      await write(spot, box, "bad", "behind");
      await write(spot, box, "good", 1);
      const errors: unknown[] = [];
      let heals = false;
      const relay = relayed(
        box,
        { onError: (error) => errors.push(error) },
        ({ payload }) => payload === "poison" && !heals,
      );
      await until(() => relay.payloads("good").length === 1);
      await write(spot, box, "good", 2);
      await until(() => relay.payloads("good").length === 2);
      await until(async () => (await box.stats()).mostTries >= 2);
      expect(relay.payloads("bad")).toEqual([]);
      const stats = await box.stats();
      expect(stats).toMatchObject({ waiting: 2, failing: 1, dead: 0 });
      expect(stats.oldestMs).toBeGreaterThan(0);
      expect(await box.failing()).toMatchObject([
        { key: "bad", topic: "t", payload: "poison", reason: "Error: no route" },
      ]);
      expect(String(errors[0])).toBe("Error: no route");
      // Also when it is not tried again for long.
      const { schema } = spot.options;
      const table = schema === undefined ? "tenure_outbox_message" : `${schema}.outbox_message`;
      await spot.query(`UPDATE ${table} SET due_ms = due_ms + 3600000 WHERE tries > 0
        AND state = 'waiting'`);
      await write(spot, box, "good", 3);
      await until(() => relay.payloads("good").length === 3);
      expect(relay.payloads("bad")).toEqual([]);
      heals = true;
      await spot.query(`UPDATE ${table} SET due_ms = 0`);
      await until(() => relay.payloads("bad").length === 2);
      expect(relay.payloads("bad")).toEqual(["poison", "behind"]);
      await relay.end();
    });

    it("sets a poison message aside on request, goes on with its key, and revives it", async () => {
      const spot = await store.fresh();
      const box = await open(spot);
      const { id } = await write(spot, box, "bad", "poison");
      await write(spot, box, "bad", "behind");
      let heals = false;
      const relay = relayed(box, { maxTries: 2 }, (m) => m.payload === "poison" && !heals);
      await until(() => relay.payloads("bad").length === 1);
      expect(await box.dead()).toMatchObject([{ id, payload: "poison", tries: 2 }]);
      expect(await box.revive("other")).toBe(false);
      heals = true;
      expect(await box.revive(id)).toBe(true);
      await until(() => relay.payloads("bad").length === 2);
      await relay.end();
    });

    it("counts a publish that never answers as failed", async () => {
      const spot = await store.fresh();
      const box = await open(spot);
      await write(spot, box, "a", 1);
      let tries = 0;
      const stop = new AbortController();
      const publish = (): Promise<void> => {
        tries += 1;
        return tries === 1 ? new Promise(() => undefined) : Promise.resolve();
      };
      const done = box.relay(publish, { publishTimeout: 50, pollEvery: 20, signal: stop.signal });
      await until(async () => (await box.stats()).published === 1);
      expect(tries).toBe(2);
      stop.abort();
      await done;
    });

    it("relays in one process at a time, and in the next when that ends", async () => {
      const spot = await store.fresh();
      const [a, b] = [await open(spot), await open(spot)];
      const first = relayed(a);
      await until(async () => (await a.stats()).isRelayed);
      const second = relayed(b);
      for (let n = 0; n < 5; n++) await write(spot, a, "k", n);
      await until(() => first.seen.length === 5);
      expect(second.seen).toEqual([]);
      await first.end();
      await write(spot, a, "k", 5);
      await until(() => second.seen.length === 1);
      expect(second.seen[0]!.token).toBeGreaterThan(first.seen[0]!.token);
      await second.end();
    });

    it("records nothing for a relay whose claim is over", async () => {
      const spot = await store.fresh();
      const box = await open(spot);
      await write(spot, box, "a", 1);
      const s = await spot.open((target, more) => openSqlStore(target, OUTBOX_TABLES, more));
      const claim = (holder: string, leaseMs: number) =>
        s.run("claim", () => claimRelay(holder, leaseMs));
      const first: any = await claim("old", 100);
      const second: any = await until(async () => {
        const claimed = await claim("new", 60_000);
        return "token" in claimed ? claimed : null;
      });
      expect(second.token).toBeGreaterThan(first.token);
      const [old, now] = [
        { holder: "old", token: first.token },
        { holder: "new", token: second.token },
      ];
      const [message] = await s.run("read", () => readWaiting(1));
      const outcome = { published: [message!.seq], failed: [] };
      await expect(s.run("record", () => recordOutcome(old, outcome))).rejects.toThrow(
        SupersededError,
      );
      expect(await s.run("extend", () => extendRelay(old, 60_000))).toBe(false);
      await s.run("leave", () => leaveRelay(old));
      expect(await box.stats()).toMatchObject({ waiting: 1, published: 0, isRelayed: true });
      await s.run("record", () => recordOutcome(now, outcome));
      expect(await box.stats()).toMatchObject({ waiting: 0, published: 1 });
    });

    it("forgets what was published long ago, and only that", async () => {
      const spot = await store.fresh();
      const box = await open(spot);
      await write(spot, box, "a", 1);
      await write(spot, box, "b", "stays");
      const first = relayed(box, {}, ({ key }) => key === "b");
      await until(async () => (await box.stats()).published === 1);
      await first.end();
      const second = relayed(box, { keepPublished: 1 }, ({ key }) => key === "b");
      await until(async () => (await box.stats()).published === 0);
      await second.end();
      expect(await box.stats()).toMatchObject({ waiting: 1 });
    });

    it("tells what is wrong before it writes", async () => {
      const spot = await store.fresh();
      const box = await open(spot);
      const message = { key: "a", topic: "t", payload: 1 };
      for (const [wrong, what] of [
        [{ ...message, key: "" }, /^key must be/],
        [{ ...message, topic: 1 }, /^topic must be/],
        [{ ...message, payload: undefined }, /^payload must be JSON/],
        [{ ...message, payload: "x".repeat(1_048_576) }, /^payload must be at most/],
        [{ ...message, topics: 1 }, /^topics must be left out/],
      ] as const) {
        const writing = spot.begin((tx) => box.write(tx, wrong as any) as any);
        await expect(writing).rejects.toThrow(what);
      }
      const without = async (): Promise<unknown> => box.write(undefined as any, message);
      await expect(without()).rejects.toThrow(/^tx must be|database|transaction/);
      await expect(box.relay(1 as any)).rejects.toThrow(/^publish must be a function/);
      await expect(box.relay(() => 1, { batch: 0 })).rejects.toThrow(/^batch must be/);
      await expect(box.relay(() => 1, { tries: 1 } as any)).rejects.toThrow(/^tries must be/);
      await expect(outbox("mysql://h/d" as any)).rejects.toThrow(/^target must be SQLite or/);
      expect(await box.stats()).toMatchObject({ waiting: 0 });
    });
  },
  ["sqlite", "pg", "postgres"],
);
