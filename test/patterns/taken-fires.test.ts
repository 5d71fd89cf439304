/** Fires that are taken over at the moment when their holder ends or extends them. */
import { expect, it } from "vitest";
import { SCHEDULE_TABLES } from "../../src/schedule/tables.js";
import {
  claimFire,
  extendFire,
  finishFire,
  isFinished,
  listFires,
  type Claimer,
  type Claiming,
  type RunningFire,
} from "../../src/schedule/fires.js";
import { openSqlStore } from "../../src/sql/open.js";
import { onStores, type Store } from "./stores.js";
import { until } from "./until.js";

const LEASE_MS = 1_000;

const claimer = (holder: string, more: Partial<Claimer> = {}): Claimer => ({
  ...{ name: "job", holder, worker: "w", leaseMs: LEASE_MS, overlap: "skip", crashed: "rerun" },
  ...{ maxTries: 3, due: (uptoMs) => (uptoMs < 5 ? [5] : []), next: () => null },
  ...more,
});

/** A fire at 5 ms that H runs, in a store where nobody has claimed anything yet. */
async function begun(store: Store) {
  const spot = await store.fresh();
  const opened = await spot.open((target, more) => openSqlStore(target, SCHEDULE_TABLES, more));
  const claim = (holder: string, more?: Partial<Claimer>): Promise<Claiming> =>
    opened.run("claim", () => claimFire(claimer(holder, more)));
  await claim("nobody", { due: () => [] });
  const { schema } = spot.options;
  await spot.query(`UPDATE ${schema}.schedule_name SET upto_ms = 0`);
  // What H ends or extends its fire in, before its lease is over.
  const open = await spot.openTransaction();
  const { fire } = (await claim("H")) as Extract<Claiming, { fire: unknown }>;
  const running: RunningFire = { name: "job", fireMs: 5, holder: "H", token: fire.token };
  const isOver = `SELECT 1 AS over FROM ${schema}.schedule_fire
    WHERE until_ms <= extract(epoch FROM clock_timestamp()) * 1000`;
  const leaseIsOver = () => until(async () => (await spot.query(isOver)).length > 0);
  return { open, opened, claim, running, leaseIsOver };
}

onStores(
  "a fire",
  (store) => {
    for (const crashed of ["rerun", "leave"] as const) {
      it(`that is completed in an open transaction is not taken: ${crashed}`, async () => {
        const { open, opened, claim, running, leaseIsOver } = await begun(store);
        await opened.within(open.tx)("complete", () => finishFire(running, "done"));
        await leaseIsOver();
        expect(await claim("C", { crashed })).toEqual({ inMs: expect.any(Number) });
        await open.commit();
        expect(await claim("C", { crashed })).toEqual({ inMs: null });
        expect(await opened.run("look", () => isFinished(running))).toBe(true);
        const fires = await opened.run("list", () => listFires("job", 9));
        expect(fires).toMatchObject([{ state: "done", tries: 1 }]);
      });
    }

    it("that was extended in time is not taken, and is taken once that is undone", async () => {
      const { open, opened, claim, running, leaseIsOver } = await begun(store);
      const extending = () => extendFire(running, 60_000);
      expect(await opened.within(open.tx)("extend", extending)).toBe(true);
      await leaseIsOver();
      expect(await claim("C")).toEqual({ inMs: expect.any(Number) });
      await open.rollback();
      expect(await claim("C")).toMatchObject({ fire: { fireMs: 5, tries: 2 } });
      await expect(opened.run("end", () => finishFire(running, "done"))).rejects.toThrow(
        "its lease is over",
      );
    });
  },
  ["pg", "postgres"],
);
