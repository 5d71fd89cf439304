/** What a schedule makes of whatever its work and its `onError` throw. */
import { expect, it } from "vitest";
import { cronCoordinator, schedule } from "../../src/schedule/open.js";
import type { TenureEvent } from "../../src/core/events.js";
import { platform } from "../../src/platform/index.js";
import { CronCoordinator } from "../../src/schedule/coordinator.js";
import { SCHEDULE_TABLES } from "../../src/schedule/tables.js";
import { openSqlStore } from "../../src/sql/open.js";
import type { Script } from "../../src/sql/script.js";
import type { SqlStore } from "../../src/sql/store.js";
import { onStores } from "./stores.js";
import { until } from "./until.js";

onStores(
  "a schedule in trouble",
  (store) => {
    it("does not run work again that threw something without text", async () => {
      const spot = await store.fresh();
      const begun: number[] = [];
      const work = ({ fireMs }: { fireMs: number }): never => {
        begun.push(fireMs);
        throw Object.create(null);
      };
      const one = await spot.open((target, more) =>
        schedule(target, "job", "* * * * * *", work, { ...more, lease: "200ms" }),
      );
      await until(() => begun.length >= 2);
      const first = (await one.history()).at(-1);
      const reason = "failed with something that has no text";
      expect(first).toMatchObject({ fireMs: begun[0], state: "failed", tries: 1, reason });
      await one.close();
      expect(new Set(begun).size).toBe(begun.length);
    });

    it("forgets old fires also where node-cron keeps time", async () => {
      const spot = await store.fresh();
      const coordinator = await spot.open(cronCoordinator);
      const table = spot.dialect === "sqlite" ? "tenure_" : `${spot.options.schema}.`;
      const fires = `${table}schedule_fire`;
      await spot.query(`INSERT INTO ${fires} (name, fire_ms, state, tries, ended_ms)
        VALUES ('report', 1, 'done', 1, 2), ('other', 1, 'done', 1, 2)`);
      const key = "report:2026-01-01T03:00:00.000Z";
      expect(await coordinator.shouldRun(key, 1_000)).toBe(true);
      await coordinator.onComplete(key);
      const left = await spot.query(`SELECT name, fire_ms FROM ${fires} ORDER BY fire_ms`);
      expect(left.map(({ name, fire_ms: ms }) => `${name} ${ms}`)).toEqual([
        "other 1",
        `report ${Date.UTC(2026, 0, 1, 3)}`,
      ]);
    });

    it("loses no run of node-cron's where old fires cannot be deleted", async () => {
      const spot = await store.fresh();
      const opened = await spot.open((target, more) => openSqlStore(target, SCHEDULE_TABLES, more));
      const { run, within, dialect } = opened;
      const told: TenureEvent[] = [];
      const events = { publish: (event: TenureEvent) => void told.push(event), wants: () => true };
      const runs: string[] = [];
      const coordinator = new CronCoordinator(
        {
          ...{ dialect, storeId: opened.storeId, within: within.bind(opened) },
          run: (during: string, make: () => Script<unknown>) => {
            runs.push(during);
            if (during === "forget old fires") return Promise.reject(new Error("not allowed"));
            return run(during, make);
          },
        } as unknown as SqlStore<"sqlite">,
        { ...platform(), events },
        (text) => Date.parse(text),
      );
      const key = "report:2026-01-01T03:00:00.000Z";
      expect(await coordinator.shouldRun(key, 1_000)).toBe(true);
      expect(runs).toEqual(["claim a fire"]);
      await coordinator.onComplete(key);
      expect(runs.at(-1)).toBe("forget old fires");
      const message = "Error: not allowed";
      expect(told).toEqual([{ type: "warning", name: "report", backend: dialect, message }]);
    });

    it("tells what ended it where asking the store again cannot help", async () => {
      const spot = await store.fresh();
      const told: unknown[] = [];
      const onError = (error: unknown): void => void told.push(error);
      const one = await spot.open((target, more) =>
        schedule(target, "job", "* * * * * *", () => undefined, { ...more, onError }),
      );
      const table = spot.dialect === "sqlite" ? "tenure_" : `${spot.options.schema}.`;
      await spot.query(`DROP TABLE ${table}schedule_name`);
      const why: unknown = await one.ended.catch((error: unknown) => error);
      expect(why).toMatchObject({ family: "unavailable", retryable: false });
      expect(told).toEqual([why]);
    });

    it("ends with what `onError` throws over the last that it is told", async () => {
      const spot = await store.fresh();
      const own = new Error("own");
      const onError = (): never => {
        throw own;
      };
      const one = await spot.open((target, more) =>
        schedule(target, "job", "* * * * * *", () => undefined, { ...more, onError }),
      );
      const table = spot.dialect === "sqlite" ? "tenure_" : `${spot.options.schema}.`;
      await spot.query(`DROP TABLE ${table}schedule_name`);
      await expect(one.ended).rejects.toBe(own);
    });

    it("ends with what `onError` throws, once the run is recorded", async () => {
      const spot = await store.fresh();
      const work = (): never => {
        throw new Error("no paper");
      };
      const onError = (): never => {
        throw new Error("enough");
      };
      const one = await spot.open((target, more) =>
        schedule(target, "job", "* * * * * *", work, { ...more, onError }),
      );
      await expect(one.ended).rejects.toThrow("enough");
      const failed = { state: "failed", tries: 1, reason: "Error: no paper" };
      expect(await one.history()).toMatchObject([failed]);
      await expect(one.history(5 as any)).rejects.toThrow(/^options must be an object/);
    });
  },
  ["sqlite", "pg"],
);
