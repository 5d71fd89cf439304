/** A SQLite file that is deleted or replaced while open: nothing is answered out of the old one. */
import { copyFileSync, renameSync, rmSync } from "node:fs";
import { expect, it, onTestFinished } from "vitest";
import { cas } from "../../src/cas/open.js";
import { claims } from "../../src/claims/open.js";
import { sqliteFence } from "../../src/fences/sqlite/open.js";
import { inbox } from "../../src/inbox/open.js";
import { queue } from "../../src/queue/open.js";
import { reservations } from "../../src/reservations/open.js";
import { rows } from "../../src/rows/open.js";
import { toToken } from "../../src/core/token.js";
import { onStores, type Spot } from "./stores.js";

const fileOf = (spot: Spot): string => String(spot.target).slice("sqlite:".length);

const WAYS: Readonly<Record<string, (file: string) => void>> = {
  deleted: (file) => rmSync(file),
  moved: (file) => renameSync(file, `${file}.old`),
  "replaced by a copy": (file) => {
    copyFileSync(file, `${file}.copy`);
    renameSync(`${file}.copy`, file);
  },
  "without its log": (file) => rmSync(`${file}-wal`),
};

const GONE = { family: "unavailable", retryable: false };
const TEXT = /was deleted or replaced while open; close it and open it again/;

onStores(
  "a file that is no longer where it was",
  (store) => {
    it.each(Object.keys(WAYS))("refuses what would be lost: %s", async (how) => {
      const spot = await store.fresh();
      const c = await spot.open(claims);
      const i = await spot.open(inbox);
      const q = await spot.open(queue);
      const r = await spot.open(reservations);
      const v = await spot.open(cas);
      const fence = sqliteFence(fileOf(spot));
      onTestFinished(() => fence.close());
      const lease = { name: "n", token: toToken(1n), holder: "h", storeId: "s" };
      const handle = await fence.arm(lease, "row");
      // The caller's connection is there from before, too.
      await spot.query("SELECT count(*) FROM sqlite_master");
      WAYS[how]!(fileOf(spot));
      const calls: readonly Promise<unknown>[] = [
        c.claim("k", "me"),
        i.once("e", "c", () => undefined),
        q.add({ key: "k", payload: 1 }),
        q.take(),
        r.reserve("item", "me", { for: "1m" }),
        v.update("v", () => 1),
        handle.write(() => undefined),
        spot.begin((tx) => c.within(tx).claim("k", "me")),
      ];
      for (const outcome of await Promise.allSettled(calls)) {
        expect(outcome).toMatchObject({ status: "rejected", reason: GONE });
        expect(String((outcome as PromiseRejectedResult).reason)).toMatch(TEXT);
      }
    });

    it("is told alike on a caller's own connection, also before its first transaction", async () => {
      const spot = await store.fresh();
      const db = spot.connect!();
      const c = await claims(db as never);
      const fence = sqliteFence(db as never);
      const lease = { name: "n", token: toToken(1n), holder: "h", storeId: "s" };
      const handle = await fence.arm(lease, "row");
      const early = await spot.open(rows);
      rmSync(fileOf(spot));
      for (const call of [
        c.claim("k", "me"),
        handle.write(() => undefined),
        early.transaction(() => undefined),
      ]) {
        const error: unknown = await call.catch((caught: unknown) => caught);
        expect(error).toMatchObject(GONE);
        expect(String(error)).toMatch(TEXT);
      }
      await c.close();
    });

    it("is not seen where a caller's own connection changes its journal", async () => {
      const db = (await store.fresh()).connect!();
      db.exec("PRAGMA journal_mode = WAL");
      const c = await claims(db as never);
      expect(await c.claim("a", "me")).toBe(true);
      db.exec("PRAGMA journal_mode = DELETE");
      expect(await c.claim("b", "me")).toBe(true);
      await c.close();
    });
  },
  ["sqlite"],
);
