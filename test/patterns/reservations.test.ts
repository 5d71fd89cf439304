import { expect, it } from "vitest";
import {
  CapacityError,
  reservations,
  ReservationStateError,
  tableSql,
  type Reservations,
} from "../../src/reservations/open.js";
import { race } from "./children.js";
import { RACE_MS, RACERS, tell } from "./race-size.js";
import { itRaces, onStores, type Spot, type Store } from "./stores.js";
import { until } from "./until.js";
import { withWallClockOff } from "./wrong-clock.js";

const open = (spot: Spot, options: object = {}): Promise<Reservations<any>> =>
  spot.open(reservations as never, options);

onStores("reservations", (store) => {
  it("hold a place for one, refuse it to others, and give it back", async () => {
    const r = await open(await store.fresh());
    const mine = await r.reserve("seat", "ann", { for: "10m" });
    expect(mine).toMatchObject({ item: "seat", holder: "ann", quantity: 1, state: "held" });
    expect(mine!.leftMs).toBe(600_000);
    expect(await r.reserve("seat", "bob", { for: "10m" })).toBeNull();
    expect(await r.available("seat")).toEqual({ capacity: 1, available: 0 });
    expect(await r.cancel("seat", "bob")).toBe(false);
    expect(await r.cancel("seat", "ann")).toBe(true);
    expect(await r.cancel("seat", "ann")).toBe(false);
    expect(await r.cancel("other", "ann")).toBe(false);
    expect(await r.available("seat")).toEqual({ capacity: 1, available: 1 });
    expect(await r.reserve("seat", "bob", { for: Infinity })).toMatchObject({ leftMs: null });
    expect(await r.available("unknown")).toBeNull();
    expect(await r.list("unknown")).toEqual([]);
  });

  it("answer the same to a holder that asks again", async () => {
    const r = await open(await store.fresh());
    await r.reserve("room", "ann", { for: "1m", quantity: 2, capacity: 3 });
    const again = await r.reserve("room", "ann", { for: "10m", quantity: 2, capacity: 3 });
    expect(again).toMatchObject({ quantity: 2, state: "held" });
    expect(again!.leftMs).toBeLessThanOrEqual(60_000);
    expect(await r.available("room")).toEqual({ capacity: 3, available: 1 });
    await expect(r.reserve("room", "ann", { for: "1m", quantity: 1 })).rejects.toMatchObject({
      code: "TENURE_RESERVATION_STATE",
      state: "held",
    });
    const last = { item: "room", holder: "ann", quantity: 2, state: "confirmed", leftMs: null };
    expect(await r.confirm("room", "ann")).toEqual(last);
    expect(await r.confirm("room", "ann")).toEqual(last);
    expect(await r.reserve("room", "ann", { for: "1m", quantity: 2 })).toEqual(last);
    await r.reserve("room", "bob", { for: "1m" });
    expect((await r.list("room")).map(({ holder }) => holder)).toEqual(["ann", "bob"]);
    expect(await r.reserve("room", "cem", { for: "1m" })).toBeNull();
    expect(await r.cancel("room", "ann")).toBe(true);
    expect(await r.available("room")).toEqual({ capacity: 3, available: 2 });
  });

  it("expire by the store's clock, and are then nobody's to confirm", async () => {
    const spot = await store.fresh();
    const [r, ahead, behind] = await Promise.all(
      [0, 3_600_000, -3_600_000].map((byMs) => open(spot, { runtime: withWallClockOff(byMs) })),
    );
    await r!.reserve("seat", "long", { for: "10m", capacity: 2 });
    await behind!.reserve("seat", "short", { for: 60 });
    expect(await ahead!.available("seat")).not.toBeNull();
    await until(async () => (await ahead!.available("seat"))!.available === 1);
    expect((await r!.list("seat")).map(({ holder }) => holder)).toEqual(["long"]);
    for (const change of [
      () => r!.confirm("seat", "short"),
      () => r!.extend("seat", "short", { for: "1m" }),
      () => ahead!.confirm("seat", "short"),
    ]) {
      const failure = await change().catch((error: unknown) => error);
      expect(failure).toBeInstanceOf(ReservationStateError);
      expect(failure).toMatchObject({ state: "expired", item: "seat", holder: "short" });
    }
    expect(await r!.cancel("seat", "short")).toBe(false);
    expect(await ahead!.reserve("seat", "other", { for: "1m" })).toMatchObject({ state: "held" });
    expect(await behind!.reserve("seat", "third", { for: "1m" })).toBeNull();
    await expect(r!.confirm("seat", "short")).rejects.toMatchObject({ state: "absent" });
    expect(await r!.confirm("seat", "long")).toMatchObject({ state: "confirmed" });
  });

  it("are extended from now on, and confirmed ones not", async () => {
    const r = await open(await store.fresh());
    await r.reserve("seat", "ann", { for: "1m" });
    expect(await r.extend("seat", "ann", { for: "5m" })).toMatchObject({ leftMs: 300_000 });
    expect(await r.extend("seat", "ann", { for: Infinity })).toMatchObject({ leftMs: null });
    expect(await r.extend("seat", "ann", { for: "1s" })).toMatchObject({ leftMs: 1_000 });
    await r.confirm("seat", "ann");
    const late = r.extend("seat", "ann", { for: "5m" });
    await expect(late).rejects.toMatchObject({ state: "confirmed" });
    await expect(r.extend("seat", "bob", { for: "5m" })).rejects.toThrow(/does not exist/);
    await expect(r.confirm("none", "bob")).rejects.toMatchObject({ state: "absent" });
  });

  it("never have a capacity below what is taken", async () => {
    const r = await open(await store.fresh());
    await r.define("hall", 3);
    await r.define("hall", 3);
    await r.reserve("hall", "ann", { for: "10m", quantity: 2 });
    const failure = await r.define("hall", 1).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(CapacityError);
    expect(failure).toMatchObject({ capacity: 3, taken: 2, item: "hall", family: "refused" });
    // What has expired does not count.
    await r.reserve("hall", "bob", { for: 1 });
    await until(async () => (await r.available("hall"))!.available === 1);
    await r.define("hall", 2);
    expect(await r.available("hall")).toEqual({ capacity: 2, available: 0 });
    const more = r.reserve("hall", "cem", { for: "1m", quantity: 3 });
    await expect(more).rejects.toBeInstanceOf(CapacityError);
    const other = r.reserve("hall", "cem", { for: "1m", capacity: 9 });
    await expect(other).rejects.toThrow(/capacity of 9 does not go with "hall".*define/);
    expect(await r.reserve("hall", "cem", { for: "1m" })).toBeNull();
    await r.define("hall", 4);
    expect(await r.reserve("hall", "cem", { for: "1m" })).toMatchObject({ quantity: 1 });
    await r.define("closed", 0);
    await expect(r.reserve("closed", "ann", { for: 1 })).rejects.toBeInstanceOf(CapacityError);
  });

  it("tell what is wrong before anything is sent", async () => {
    const spot = await store.fresh();
    const r = await open(spot);
    const wrong = async (option: string, call: () => unknown): Promise<void> => {
      await expect((async () => await call())()).rejects.toThrow(new RegExp(`^${option} must be`));
    };
    await wrong("item", () => r.reserve("", "a", { for: 1 }));
    await wrong("holder", () => r.confirm("i", "x".repeat(513)));
    await wrong("for", () => r.reserve("i", "a", {} as never));
    await wrong("options", () => r.reserve("i", "a", undefined as never));
    for (const time of [0, -1, NaN, "10", "1d"]) {
      await wrong("for", () => r.reserve("i", "a", { for: time as never }));
    }
    for (const quantity of [0, 1.5, -1, NaN, "2", Infinity]) {
      await wrong("quantity", () => r.reserve("i", "a", { for: 1, quantity: quantity as never }));
    }
    await wrong("capacity", () => r.reserve("i", "a", { for: 1, capacity: 0 }));
    await wrong("capacity", () => r.define("i", -1));
    await wrong("amount", () => r.reserve("i", "a", { for: 1, amount: 2 } as never));
    await wrong("maxBytes", () => open(spot, { maxBytes: 1 }));
    expect(await r.available("i")).toBeNull();
  });

  it("take part in the caller's transaction: all or nothing", async () => {
    const spot = await store.fresh();
    const r = await open(spot);
    const both = (fails: boolean) => (tx: any) => {
      const inside = r.within(tx);
      const boom = (): void => {
        if (fails) throw new Error("boom");
      };
      const first: any = inside.reserve("flight", "ann", { for: "1m" });
      if (store.dialect === "sqlite") {
        expect(first).toMatchObject({ state: "held" });
        expect(inside.reserve("hotel", "ann", { for: "1m" })).toMatchObject({ state: "held" });
        return boom();
      }
      return first.then(() => inside.reserve("hotel", "ann", { for: "1m" })).then(boom);
    };
    await expect(spot.begin(both(true))).rejects.toThrow("boom");
    expect(await r.available("flight")).toBeNull();
    await spot.begin(both(false));
    expect(await r.list("flight")).toHaveLength(1);
    expect(await r.list("hotel")).toHaveLength(1);
  });

  if (store.dialect !== "sqlite") {
    it("count what others took since the caller's snapshot", async () => {
      const spot = await store.fresh();
      const r = await open(spot);
      await r.define("seat", 1);
      await spot.query("CREATE TABLE other (n INTEGER)");
      const isolation = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ";
      // MySQL takes a transaction's level before it, and this one is its default.
      const old = await spot.openTransaction();
      if (store.dialect === "postgres") await old.query(isolation);
      await old.query("SELECT n FROM other");
      expect(await r.reserve("seat", "ann", { for: "1m" })).not.toBeNull();
      const inside: any = r.within(old.tx);
      const late = await inside
        .reserve("seat", "bob", { for: "1m" })
        .catch((error: Error) => error.name);
      expect(late).toBe(store.dialect === "postgres" ? "UnavailableError" : null);
      await old.rollback();
      expect(await r.list("seat")).toHaveLength(1);
    });
  }

  it("leave nothing behind when they are swept", async () => {
    const spot = await store.fresh();
    const r = await open(spot);
    for (let i = 0; i < 4; i++) await r.reserve(`i${i}`, "ann", { for: i === 0 ? "1m" : 1 });
    const rows = async (): Promise<number> => {
      const table = store.dialect === "postgres" ? "reservation" : "tenure_reservation";
      return (await spot.query(`SELECT item FROM ${table}`)).length;
    };
    expect(await rows()).toBe(4);
    let swept = 0;
    await until(async () => (swept += await r.sweep()) === 3);
    expect(await rows()).toBe(1);
    expect(await r.available("i1")).toEqual({ capacity: 1, available: 1 });
    expect(await r.available("i0")).toEqual({ capacity: 1, available: 0 });
  });

  // One race for both: to start 50 processes takes longer than to let them race.
  itRaces(store, "let one of 50 that race have a place, and never a sixth have one of five", async () => {
    const { spot, r } = await withGrants(store);
    let refused = 0;
    const raced = await race<Wished>({
      program: "reservations",
      processes: RACERS,
      opening: { do: "open", target: spot.forChildren },
      round: (n) => {
        if (isOfSeat(n)) {
          return { do: "wish", item: `seat ${n}`, forMs: 600_000, capacity: 1, times: 1 };
        }
        const hall = (n - 1) / 2;
        return {
          ...{ do: "wish", item: "hall", capacity: 5, times: 2 },
          ...{ forMs: [1_000, 250, 40][hall % 3], ends: hall % 2 === 1 },
        };
      },
      forMs: 2 * RACE_MS,
      dying: 2,
      judge: async (n, answers) => {
        if (!isOfSeat(n)) {
          for (const one of answers) refused += one.refused;
          expect((await r.available("hall"))!.available).toBeGreaterThanOrEqual(0);
          return;
        }
        const item = `seat ${n}`;
        const grants = await spot.query("SELECT holder FROM grants WHERE item = ?", [item]);
        expect(grants).toHaveLength(1);
        const told = answers.flatMap(({ holders }) => holders);
        expect([grants[0]!["holder"], undefined]).toContain(told[0]);
        expect(told.length).toBeLessThanOrEqual(1);
        expect((await r.list(item)).map(({ holder }) => holder)).toEqual([grants[0]!["holder"]]);
      },
    });
    tell(`reservations on ${store.name}`, raced);
    const name = nameOf(store.dialect);
    const sum = `SELECT taken, (SELECT SUM(quantity) FROM ${name} WHERE item = 'hall') AS rows_taken
    FROM ${name}_item WHERE name = 'hall'`;
    const [row] = await spot.query(sum);
    expect(Number(row!["taken"])).toBe(Number(row!["rows_taken"] ?? 0));
    const log = await spot.query("SELECT * FROM grants WHERE item = 'hall' ORDER BY id");
    expect(mostAtOnce(log)).toBeLessThanOrEqual(5);
    // Somebody was refused, so all places were taken then.
    expect(refused).toBeGreaterThan(0);
    expect(mostAtOnce(log)).toBe(5);
  });
});

/** Every second round is about one place. */
const isOfSeat = (n: number): boolean => n % 2 === 0;

/** What a process tells of a round. */
interface Wished {
  readonly holders: readonly string[];
  readonly refused: number;
}

/**
 * A log that is written in the transactions of the reservations: its order is that of the lock, and
 * its times are the store's own.
 */
async function withGrants(store: Store): Promise<{ spot: Spot; r: Reservations<any> }> {
  const spot = await store.fresh();
  const id = {
    sqlite: "INTEGER PRIMARY KEY AUTOINCREMENT",
    postgres: "BIGSERIAL PRIMARY KEY",
    mysql: "BIGINT AUTO_INCREMENT PRIMARY KEY",
  }[store.dialect];
  await spot.query(`CREATE TABLE grants (id ${id}, kind VARCHAR(3), item VARCHAR(100),
    holder VARCHAR(100), at_ms BIGINT, held_until BIGINT)`);
  return { spot, r: await open(spot) };
}

/** How many places were taken at once, by the log. */
function mostAtOnce(log: readonly Record<string, any>[]): number {
  const live = new Map<string, number>();
  let most = 0;
  for (const { kind, holder, at_ms, held_until } of log) {
    if (kind === "out") {
      live.delete(holder);
      continue;
    }
    for (const [one, untilMs] of live) if (untilMs <= Number(at_ms)) live.delete(one);
    live.set(holder, Number(held_until));
    most = Math.max(most, live.size);
  }
  return most;
}

const nameOf = (dialect: string): string =>
  dialect === "postgres" ? "reservation" : "tenure_reservation";

it("prints the SQL of its tables", () => {
  expect(tableSql("postgres", { schema: "x" })).toContain('"x"."reservation_item"');
  expect(tableSql("sqlite")).toContain("tenure_reservation");
  expect(tableSql("mysql")).toContain("ENGINE=InnoDB");
});
