/** One of many places of an item, and the only place of an item of its own. */
import { reservations as openReservations } from "tenure/reservations";
import { beside } from "./stores.mjs";

const TABLES = [
  "CREATE TABLE bare_item (name VARCHAR(99) PRIMARY KEY, capacity INTEGER, taken INTEGER)",
  `CREATE TABLE bare_place (item VARCHAR(99), holder VARCHAR(99), held_until BIGINT,
    PRIMARY KEY (item, holder))`,
];
const MANY = 1_000_000_000;
const SEAT = `INSERT INTO bare_place (item, holder, held_until) VALUES ($1, $2, $3)
  ON CONFLICT DO NOTHING RETURNING item`;

export async function reservations(isQuick) {
  await beside("reserve", isQuick, TABLES, async ({ url, run }) => {
    const r = await openReservations(url);
    await r.define("hall", MANY);
    const must = (is) => {
      if (!is) throw new Error("not reserved");
    };
    return {
      turns: {
        "one INSERT … ON CONFLICT DO NOTHING": async (n) =>
          must((await run(SEAT, [`seat ${n}`, "ann", n])).length === 1),
        "**`reserve`, of an item with one place**": async (n) =>
          must(await r.reserve(`seat ${n}`, "ann", { for: "10m" })),
        "**`reserve`, of an item with many**": async (n) =>
          must(await r.reserve("hall", `holder ${n}`, { for: "10m" })),
      },
      close: () => r.close(),
    };
  });
}
