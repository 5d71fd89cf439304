import { expect, it } from "vitest";
import type { Clock } from "../../src/core/clock.js";
import { openSqlStore } from "../../src/sql/open.js";
import { sqliteClock, type SqliteMachine } from "../../src/sql/sqlite-clock.js";
import { onStores } from "./stores.js";

const HOUR_MS = 3_600_000;
const WALL_MS = 1_700_000_000_000;

onStores(
  "the clock of a file",
  (store) => {
    it("is anchored by the first process of a boot, and moved by no wall clock", async () => {
      const spot = await store.fresh();
      const s = await spot.open((target) => openSqlStore(target, EMPTY));
      const clockOf = (boot: string | undefined, uptimeMs: number | undefined, wallMs: number) => {
        const here: SqliteMachine = { bootId: boot, clockId: "", nowMs: () => 7_000 };
        const clock: Clock = {
          monotonicMs: () => 1,
          uptimeMs: () => uptimeMs,
          wallMs: () => wallMs,
        };
        return s.run("read the clock", () => sqliteClock(here, clock));
      };
      const first = await clockOf("boot 1", 5_000, WALL_MS);
      expect(first()).toBe(BigInt(WALL_MS));
      // A second later, on a process whose wall clock is an hour ahead, or behind.
      for (const wrong of [HOUR_MS, -HOUR_MS]) {
        const later = await clockOf("boot 1", 6_000, WALL_MS + wrong);
        expect(later()).toBe(BigInt(WALL_MS + 1_000));
      }
      // Time since boot begins again; the time of day does not.
      const rebooted = await clockOf("boot 2", 100, WALL_MS + 60_000);
      expect(rebooted()).toBe(BigInt(WALL_MS + 60_000));
      // Where the system does not count suspends apart, its shared monotonic clock counts them.
      const elsewhere = await clockOf("boot 3", undefined, WALL_MS);
      expect(elsewhere()).toBe(BigInt(WALL_MS));
      const nowhere = await clockOf(undefined, 1, WALL_MS + HOUR_MS);
      expect(nowhere()).toBe(BigInt(WALL_MS + HOUR_MS));
    });
  },
  ["sqlite"],
);

const EMPTY = { pattern: "empty", version: 1, tables: {} };
