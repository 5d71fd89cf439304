import { createConnection } from "mysql2/promise";
import { expect, it } from "vitest";
import { OutcomeUnknownError, UnavailableError } from "../../src/core/errors.js";
import { inbox } from "../../src/inbox/open.js";
import { rows } from "../../src/rows/open.js";
import { onStores, type Spot } from "./stores.js";

const WAITING = "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";

/** Work that meets a deadlock, lets it pass and tries again, as many a helper does. */
async function deadlocks(
  spot: Spot,
): Promise<{ work(tx: any): Promise<void>; end(): Promise<void> }> {
  await spot.query("CREATE TABLE account (id INTEGER PRIMARY KEY, v INTEGER)");
  await spot.query("INSERT INTO account SELECT seq, 0 FROM seq_1_to_20");
  const other = await createConnection(String(spot.target));
  await other.query("START TRANSACTION");
  // The server gives up the transaction that has changed fewer rows.
  await other.query("UPDATE account SET v = 100 WHERE id BETWEEN 2 AND 9");
  return {
    async work(tx) {
      await tx.query("UPDATE account SET v = v - 10 WHERE id = 1");
      const crossed = other.query("UPDATE account SET v = 100 WHERE id = 1");
      while ((await spot.query(WAITING)).length === 0) {
        await new Promise((resolve) => setTimeout(resolve, 150));
      }
      const add = (): Promise<unknown> => tx.query("UPDATE account SET v = v + 10 WHERE id = 2");
      await expect(add()).rejects.toMatchObject({ errno: 1213 });
      await crossed;
      await other.query("COMMIT");
      await add().catch(() => undefined);
      const { native } = tx;
      await new Promise((resolve) => native.query("UPDATE account SET v = 7 WHERE id = 15", resolve));
    },
    end: () => other.end(),
  };
}

onStores(
  "work whose transaction was ended",
  (store) => {
    const values = async (spot: Spot, ...ids: number[]): Promise<number[]> =>
      (await spot.query(`SELECT v FROM account WHERE id IN (${ids.join()}) ORDER BY id`)).map(
        ({ v }) => Number(v),
      );

    it("commits nothing after a deadlock, in rows and in an inbox", async () => {
      for (const kind of ["rows", "inbox"] as const) {
        const spot = await store.fresh();
        const { work, end } = await deadlocks(spot);
        const begin =
          kind === "rows"
            ? await spot.open((target) => rows(target)).then((r: any) => r.transaction)
            : await spot
                .open((target) => inbox(target))
                .then((i: any) => (run: any) => i.once("event", "c", run));
        await expect(begin(work)).rejects.toBeInstanceOf(UnavailableError);
        expect(await values(spot, 1, 2, 15)).toEqual([100, 100, 0]);
        const again = (tx: any): Promise<unknown> =>
          tx.query("UPDATE account SET v = v + 1 WHERE id = 15");
        await begin(again);
        expect(await values(spot, 15)).toEqual([1]);
        await end();
      }
    });

    it("tells a procedure that commits, and commits nothing more", async () => {
      const spot = await store.fresh();
      await spot.query("CREATE TABLE account (id INTEGER PRIMARY KEY, v INTEGER)");
      await spot.query("INSERT INTO account VALUES (1, 0), (2, 0)");
      await spot.query("CREATE PROCEDURE done() BEGIN COMMIT; END");
      const r: any = await spot.open((target) => rows(target));
      const torn = r.transaction(async (tx: any) => {
        await tx.query("UPDATE account SET v = 1 WHERE id = 1");
        await tx.query("CALL done()").catch(() => undefined);
        await tx.query("UPDATE account SET v = 1 WHERE id = 2").catch(() => undefined);
      });
      await expect(torn).rejects.toBeInstanceOf(OutcomeUnknownError);
      expect(await values(spot, 1, 2)).toEqual([1, 0]);
    });
  },
  ["mysql"],
);
