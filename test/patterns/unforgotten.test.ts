/** What is over and cannot be forgotten, by a role that may not delete: nothing waits for it. */
import { expect, it } from "vitest";
import type { TenureEvent } from "../../src/core/events.js";
import { outbox } from "../../src/outbox/open.js";
import { platform } from "../../src/platform/index.js";
import { queue } from "../../src/queue/open.js";
import { schedule } from "../../src/schedule/open.js";
import type { PostgresServer } from "../servers/postgres.js";
import { onStores, type Spot, type Store } from "./stores.js";
import { until } from "./until.js";

/** A URL of a role that may do all in the tables that are there, but delete in one. */
async function withoutDelete(store: Store, { options }: Spot, table: string): Promise<string> {
  const { schema = "" } = options;
  const role = `${schema}_${table}`;
  const server = store.server() as PostgresServer;
  for (const text of [
    `CREATE ROLE ${role} LOGIN`,
    `GRANT USAGE ON SCHEMA ${schema} TO ${role}`,
    `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema} TO ${role}`,
    `REVOKE DELETE ON ${schema}.${table} FROM ${role}`,
  ]) {
    await server.query(text);
  }
  return server.urlFor(role);
}

const REFUSED = /no permission .*42501/;

onStores(
  "where a role may not delete",
  (store) => {
    it("a worker of a queue goes on, and tells it", async () => {
      const spot = await store.fresh();
      await spot.open(queue);
      const url = await withoutDelete(store, spot, "queue_job");
      const q = await spot.open((_target, more) => queue(url, more));
      await q.add({ key: "a", payload: 1 });
      const [done, told]: [unknown[], unknown[]] = [[], []];
      const stop = new AbortController();
      const work = q.work(({ payload }) => done.push(payload), {
        signal: stop.signal,
        onError: (error) => told.push(error),
      });
      await Promise.race([work, until(() => done.length > 0)]);
      stop.abort();
      await work;
      expect(done).toEqual([1]);
      expect(told.map(String)).toEqual([expect.stringMatching(REFUSED)]);
    });

    it("a take from a queue takes, and warns", async () => {
      const spot = await store.fresh();
      await spot.open(queue);
      const url = await withoutDelete(store, spot, "queue_job");
      const events: TenureEvent[] = [];
      const sink = { publish: (event: TenureEvent) => void events.push(event), wants: () => true };
      const runtime = { ...platform(), events: sink };
      const q = await spot.open((_target, more) => queue(url, { ...more, runtime }));
      await q.add({ key: "a", payload: 1 });
      expect((await q.take())?.payload).toBe(1);
      const message = expect.stringMatching(REFUSED) as string;
      expect(events).toMatchObject([{ type: "warning", name: "jobs", message }]);
    });

    it("a relay publishes what comes later, and tells it", async () => {
      const spot = await store.fresh();
      const o = await spot.open(outbox);
      const url = await withoutDelete(store, spot, "outbox_message");
      const relaying = await spot.open((_target, more) => outbox(url, more));
      const [published, told]: [string[], unknown[]] = [[], []];
      const stop = new AbortController();
      const relay = relaying.relay(({ id }) => published.push(id), {
        ...{ pollEvery: 10, signal: stop.signal },
        onError: (error) => told.push(error),
      });
      for (const id of ["first", "second"]) {
        await spot.begin((tx) => o.write(tx, { key: "k", topic: "t", id, payload: 1 }));
        await Promise.race([relay, until(() => published.includes(id))]);
      }
      stop.abort();
      await relay;
      expect(published).toEqual(["first", "second"]);
      expect(told.map(String)).toEqual([expect.stringMatching(REFUSED)]);
    });

    it("a schedule runs, and tells it", async () => {
      const spot = await store.fresh();
      const never = "0 0 1 1 *";
      await spot.open((target, more) => schedule(target, "other", never, () => undefined, more));
      const url = await withoutDelete(store, spot, "schedule_fire");
      const [runs, told]: [number[], unknown[]] = [[], []];
      const s = await spot.open((_target, more) =>
        schedule(url, "job", "* * * * * *", ({ fireMs }) => void runs.push(fireMs), {
          ...more,
          onError: (error: unknown) => told.push(error),
        }),
      );
      await Promise.race([s.ended, until(() => runs.length > 0)]);
      await s.close();
      expect(runs.length).toBeGreaterThan(0);
      expect(told.map(String)).toEqual([expect.stringMatching(REFUSED)]);
    });
  },
  ["pg"],
);
