import { Client } from "pg";
import { expect, it, onTestFinished, vi } from "vitest";
import { claims, type Claims } from "../../src/claims/open.js";
import { OutcomeUnknownError, UnavailableError } from "../../src/core/errors.js";
import { queue } from "../../src/queue/open.js";
import { reservations } from "../../src/reservations/open.js";
import { faultProxy } from "../../src/testing/fault-proxy.js";
import { startStandby } from "../servers/postgres.js";
import { onStores } from "./stores.js";
import { until } from "./until.js";

/** Counts statements from here on. */
function statements(): () => number {
  const sent = vi.spyOn(Client.prototype, "query");
  onTestFinished(() => void sent.mockRestore());
  return () => sent.mock.calls.splice(0).length;
}

onStores(
  "what one statement can say",
  (store) => {
    it("is not put in a transaction: a new claim, and a key that is taken", async () => {
      const spot = await store.fresh();
      const c = await spot.open((target, more) => claims(target, more));
      // A session prepares each statement with its first call.
      for (const who of ["a", "b"]) await c.claim("first", who, { lease: "1m" });
      await c.claim("first", "c");
      const sent = statements();
      const claim = (await c.claim("job", "a", { lease: "1m" }))!;
      expect(await c.claim("job", "b")).toBe(false);
      expect(await c.claim("job", "b", { lease: "1m" })).toBeNull();
      expect(await c.claim("good", "b")).toBe(true);
      expect(sent()).toBe(4);
      expect(await c.inspect("job")).toMatchObject({ state: "running", token: claim.token });
      await c.add("pending", { n: 1 });
      expect(await c.claim("pending", "a", { lease: "1m" })).toMatchObject({ body: { n: 1 } });
    });

    it("is refused by no session for being new to it", async () => {
      const spot = await store.fresh();
      const c = await spot.open((target, more) => claims(target, more));
      const q = await spot.open((target, more) => queue(target, more));
      const many = Array.from({ length: 20 }, (_, n) => n);
      await Promise.all(many.map((n) => c.claim(`job ${n % 10}`, "me")));
      await Promise.all(many.map((n) => q.add({ key: `k${n}`, payload: n })));
      await Promise.all(many.map(async () => await (await q.take())?.complete()));
      expect(store.server().log).not.toMatch(/prepared statement/);
    });

    it("is not put in a transaction: a place, while some are left", async () => {
      const spot = await store.fresh();
      const r = await spot.open((target, more) => reservations(target, more));
      await r.define("hall", 3);
      await r.define("first", 9);
      const shapes = [{ for: "1m" }, { for: Infinity }, { for: "1m", capacity: 9 }] as const;
      for (const [n, shape] of shapes.entries()) await r.reserve("first", `h${n}`, shape);
      const sent = statements();
      const first = await r.reserve("seat", "ann", { for: "1m" });
      expect(first).toEqual({
        ...{ item: "seat", holder: "ann", quantity: 1, state: "held", leftMs: 60_000 },
      });
      expect(await r.reserve("hall", "ann", { for: Infinity })).toMatchObject({ leftMs: null });
      expect(await r.reserve("hall", "bob", { for: "1m", capacity: 3 })).not.toBeNull();
      expect(sent()).toBe(3);
      // What needs a second look has it.
      expect(await r.reserve("seat", "ann", { for: "5m" })).toMatchObject({ holder: "ann" });
      expect(await r.reserve("seat", "bob", { for: "1m" })).toBeNull();
      expect(await r.reserve("hall", "bob", { for: "1m" })).toMatchObject({ quantity: 1 });
      expect(await r.available("hall")).toEqual({ capacity: 3, available: 1 });
      const other = r.reserve("hall", "cem", { for: "1m", capacity: 9 });
      await expect(other).rejects.toThrow(/capacity of 9 does not go with "hall"/);
      await r.reserve("hall", "cem", { for: 1 });
      await until(async () => (await r.available("hall"))!.available === 1);
      expect(await r.reserve("hall", "dan", { for: "1m" })).toMatchObject({ holder: "dan" });
      expect(await r.available("hall")).toEqual({ capacity: 3, available: 0 });
    });

    it("holds for one holder that asks twice at once", async () => {
      const spot = await store.fresh();
      const r = await spot.open((target, more) => reservations(target, more));
      await r.define("hall", 1_000);
      for (let round = 0; round < 20; round++) {
        const ask = () => r.reserve("hall", `h${round}`, { for: "1m" });
        const both = await Promise.all([ask(), ask()]);
        expect(both.map((one) => one?.quantity)).toEqual([1, 1]);
        expect((await r.available("hall"))!.available).toBe(1_000 - round - 1);
      }
    });

    it("is not put in a transaction: a job that is taken, and one that is done", async () => {
      const spot = await store.fresh();
      const q = await spot.open((target, more) => queue(target, more));
      for (const n of [1, 2, 3]) await q.add({ key: n < 3 ? "a" : "b", payload: { n } });
      // The counters of both keys are made with their first tokens.
      const first = [(await q.take())!, (await q.take())!];
      expect(first.map(({ payload }) => payload)).toEqual([{ n: 1 }, { n: 3 }]);
      expect(await q.take()).toBeNull();
      await q.add({ key: "c", payload: { n: 0 } });
      await (await q.take())!.complete();
      expect(await q.take()).toBeNull();
      const sent = statements();
      await first[0]!.complete();
      expect(sent()).toBe(1);
      const second = (await q.take())!;
      expect(sent()).toBe(1);
      // Nothing: a take, and a look for lines that are left over.
      expect(await q.take()).toBeNull();
      expect(sent()).toBe(2);
      await q.add({ key: "c", payload: 1, id: "c1" });
      expect(sent()).toBe(1);
      expect(await q.add({ key: "c", payload: 1, id: "c1" })).toMatchObject({ added: false });
      sent();
      await (await q.take())!.complete();
      expect(sent()).toBe(2);
      expect(second).toMatchObject({ key: "a", payload: { n: 2 }, tries: 1 });
      expect(second.token).toBeGreaterThan(first[0]!.token);
      // Once more, as after an answer that was lost; and by the next holder.
      await first[0]!.complete();
      await second.complete();
      await first[1]!.complete();
      expect(await q.stats()).toMatchObject({ waiting: 0, done: 5, dead: 0 });
    });

    it("has the time of a transaction in the server, too: nothing of it comes later", async () => {
      const spot = await store.fresh();
      const open = (target: any, more: object) => claims(target, { ...more, timeout: 300 });
      const c: Claims<"postgres"> = await spot.open(open);
      const other = await spot.openTransaction();
      await (c.within(other.tx).claim("job", "other") as Promise<unknown>);
      await expect(c.claim("job", "me")).rejects.toThrow(UnavailableError);
      const waiting = "SELECT pid FROM pg_locks WHERE NOT granted";
      expect(await spot.query(waiting)).toEqual([]);
      await other.rollback();
      expect(await c.inspect("job")).toBeNull();
    });

    it("is worth another try on a standby, which may become the primary", async () => {
      const spot = await store.fresh();
      await spot.open((target, more) => claims(target, more));
      const { port } = store.server();
      const standby = await startStandby(port, { max_connections: 200 });
      onTestFinished(() => standby.dispose());
      const url = String(spot.target).replace(`:${port}/`, `:${standby.port}/`);
      const opening = claims(url, spot.options);
      await expect(opening).rejects.toThrow(/read-only standby/);
      await expect(opening).rejects.toMatchObject({ family: "unavailable", retryable: true });
      await standby.promote();
      const c = await spot.open((_target, more) => claims(url, more));
      expect(await c.claim("job", "me")).toBe(true);
    });

    it("may have been done where the answer is lost, and says so", async () => {
      const spot = await store.fresh();
      const { port } = store.server();
      const proxy = await faultProxy({ port });
      onTestFinished(() => proxy.close());
      const url = String(spot.target).replace(`:${port}/`, `:${proxy.port}/`);
      const far = await spot.open((_target, more) => claims(url, more));
      const near = await spot.open((target, more) => claims(target, more));
      await far.claim("first", "me");
      proxy.hold("reply");
      const unknown = expect(far.claim("job", "me")).rejects.toThrow(OutcomeUnknownError);
      await until(async () => (await near.inspect("job")) !== null);
      proxy.cut();
      await unknown;
      await proxy.heal();
      expect(await near.inspect("job")).toMatchObject({ owner: "me", state: "running" });
    });

    it("waits for a lock as long as its own time, not the session's", async () => {
      const spot = await store.fresh();
      const open = (target: any, more: object) => claims(target, { ...more });
      const near: Claims<"postgres"> = await spot.open(open);
      const url = `${String(spot.target)}%20-clock_timeout=100`;
      const c = await spot.open((_target, more) => claims(url, more));
      const other = await spot.openTransaction();
      await (near.within(other.tx).claim("job", "other") as Promise<unknown>);
      const claiming = c.claim("job", "me");
      // By then it was refused as a single statement.
      const waiting = `SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'
        AND xact_start < query_start AND clock_timestamp() - query_start > interval '150 ms'`;
      await until(async () => (await spot.query(waiting)).length === 1);
      await other.rollback();
      expect(await claiming).toBe(true);
    });

    it.each([
      "default_transaction_read_only=on",
      "default_transaction_isolation=repeatable\\ read",
      "default_transaction_isolation=serializable",
      "lock_timeout=1",
    ])("does not depend on the session's defaults: %s", async (setting) => {
      const spot = await store.fresh();
      const q = await spot.open((target, more) => queue(target, more));
      await (await spot.open((target, more) => reservations(target, more))).define("hall", 30);
      await (await spot.open((target, more) => claims(target, more))).add("other");
      for (let n = 0; n < 30; n++) await q.add({ key: `k${n % 3}`, payload: n });
      const url = `${String(spot.target)}%20-c${encodeURIComponent(setting)}`;
      const [c, r, jobs] = await Promise.all([
        spot.open((_target, more) => claims(url, more)),
        spot.open((_target, more) => reservations(url, more)),
        spot.open((_target, more) => queue(url, more)),
      ]);
      const many = Array.from({ length: 40 }, (_, n) => n);
      const won = await Promise.all(many.map((n) => c.claim("job", `c${n}`)));
      expect(won.filter(Boolean)).toHaveLength(1);
      const places = await Promise.all(many.map((n) => r.reserve("hall", `h${n}`, { for: "1m" })));
      expect(places.filter((one) => one !== null)).toHaveLength(30);
      const workOff = async (): Promise<void> => {
        while ((await jobs.stats()).waiting > 0) await (await jobs.take())?.complete();
      };
      await Promise.all([workOff(), workOff(), workOff()]);
      expect(await jobs.stats()).toMatchObject({ waiting: 0, done: 30, dead: 0 });
    });
  },
  ["pg"],
);
