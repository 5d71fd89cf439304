/**
 * One of many places of an item, and the only place of an item of its own. A place that is counted
 * is two rows, which is a statement on PostgreSQL and a transaction of two on SQLite.
 */
import { reservations as openReservations } from "tenure/reservations";
import { beside } from "./stores.mjs";

const TABLES = [
  "CREATE TABLE bare_item (name VARCHAR(99) PRIMARY KEY, capacity INTEGER, taken INTEGER)",
  `CREATE TABLE bare_place (item VARCHAR(99), holder VARCHAR(99), held_until BIGINT,
    PRIMARY KEY (item, holder))`,
];
const MANY = 1_000_000_000;
const PLACE = `INSERT INTO bare_item AS i (name, capacity, taken) VALUES ($1, 1, 1)
  ON CONFLICT (name) DO UPDATE SET taken = i.taken + 1 WHERE i.taken < i.capacity RETURNING name`;
const HOLDER = "INSERT INTO bare_place (item, holder, held_until)";
const SEAT = `INSERT INTO bare_place (item, holder, held_until) VALUES ($1, $2, $3)
  ON CONFLICT DO NOTHING RETURNING item`;

export async function reservations(isQuick) {
  await beside("reserve", isQuick, TABLES, async ({ url, run }) => {
    const r = await openReservations(url);
    await r.define("hall", MANY);
    const must = (is) => {
      if (!is) throw new Error("not reserved");
    };
    await run("INSERT INTO bare_item (name, capacity, taken) VALUES ($1, $2, 0)", ["hall", MANY]);
    const both = async (item, holder, n) => {
      if (!url.startsWith("sqlite:")) {
        const text = `WITH i AS (${PLACE}) ${HOLDER} SELECT name, $2, $3 FROM i RETURNING 1`;
        return must((await run(text, [item, holder, n])).length === 1);
      }
      await run("BEGIN IMMEDIATE");
      must((await run(PLACE, [item])).length === 1);
      await run(`${HOLDER} VALUES ($1, $2, $3)`, [item, holder, n]);
      await run("COMMIT");
    };
    return {
      turns: {
        "one INSERT … ON CONFLICT DO NOTHING": async (n) =>
          must((await run(SEAT, [`seat ${n}`, "ann", n])).length === 1),
        "**`reserve`, of an item with one place**": async (n) =>
          must(await r.reserve(`seat ${n}`, "ann", { for: "10m" })),
        "both rows, of an item with one place": (n) => both(`seat ${n}`, "ann", n),
        "**`reserve`, of that**": async (n) =>
          must(await r.reserve(`seat ${n}`, "ann", { for: "10m" })),
        "both rows, of an item with many": (n) => both("hall", `holder ${n}`, n),
        "**`reserve`, of one of many**": async (n) =>
          must(await r.reserve("hall", `holder ${n}`, { for: "10m" })),
      },
      close: () => r.close(),
    };
  });
}
