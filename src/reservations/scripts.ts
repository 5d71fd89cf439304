/**
 * The calls as scripts over the tables.
 *
 * Every change of an item's reservations is made with the item's row locked, so there is one order
 * of them, and the sum of what is taken stands in that row. It is not added up from the
 * reservations, since a transaction of the caller's may see those as they were when it began; the
 * locked row it sees as it is, or fails.
 *
 * Time is read after the lock is had, once for each call: a reservation that expires while a call
 * waits counts as expired.
 */
import { KeptSql, type Holes } from "../sql/kept-sql.js";
import { numberOf, orNull, textOf } from "../sql/reading.js";
import { Shortcut, type Script, type SqlRow } from "../sql/script.js";
import { byDialect, forUpdate, now, nowOnce, own, raw, sql } from "../sql/statement.js";
import type { Sql, SqlPiece } from "../sql/statement.js";
import type { Wanted, Which } from "./arguments.js";
import type { Places, Reservation } from "./contract.js";
import { CapacityError, ReservationStateError, type ReservationState } from "./errors.js";

interface Item {
  readonly name: string;
  readonly capacity: number;
  readonly taken: number;
}

interface Row extends Which {
  readonly quantity: number;
  readonly state: "held" | "confirmed";
  readonly untilMs: number | null;
}

const ITEM = own("reservation_item");
const RESERVATION = own("reservation");
const ROW = raw("item, holder, quantity, state, held_until");
const SWEPT_AT_ONCE = 100;
/** On MySQL this locks the row; a refused INSERT would share it, and block others who do. */
const UNLESS_THERE = byDialect({
  sqlite: raw("ON CONFLICT DO NOTHING"),
  postgres: raw("ON CONFLICT DO NOTHING"),
  mysql: raw("ON DUPLICATE KEY UPDATE name = name"),
});

function* lockItem(name: string): Script<Item | null> {
  const [row] = yield sql`SELECT capacity, taken FROM ${ITEM} WHERE name = ${name} ${forUpdate}`;
  if (row === undefined) return null;
  return { name, capacity: numberOf(row["capacity"]), taken: numberOf(row["taken"]) };
}

function* lockOrMakeItem(name: string, capacity: number): Script<Item> {
  for (;;) {
    const item = yield* lockItem(name);
    if (item !== null) return item;
    yield sql`INSERT INTO ${ITEM} (name, capacity, taken) VALUES (${name}, ${capacity}, ${0})
      ${UNLESS_THERE}`;
  }
}

function* time(): Script<number> {
  const [row] = yield sql`SELECT ${now} AS at_ms`;
  return numberOf(row!["at_ms"]);
}

function rowOf(row: SqlRow): Row {
  return {
    item: textOf(row["item"]),
    holder: textOf(row["holder"]),
    quantity: numberOf(row["quantity"]),
    state: textOf(row["state"]) as Row["state"],
    untilMs: orNull(row["held_until"], numberOf),
  };
}

function* lockRow({ item, holder }: Which): Script<Row | null> {
  const [row] = yield sql`SELECT ${ROW} FROM ${RESERVATION}
    WHERE item = ${item} AND holder = ${holder} ${forUpdate}`;
  return row === undefined ? null : rowOf(row);
}

function hasExpired({ untilMs }: Row, atMs: number): boolean {
  return untilMs !== null && untilMs <= atMs;
}

function reservationOf({ untilMs, ...row }: Row, atMs: number): Reservation {
  return { ...row, leftMs: untilMs === null ? null : untilMs - atMs };
}

function* remove({ item, holder }: Which): Script<void> {
  yield sql`DELETE FROM ${RESERVATION} WHERE item = ${item} AND holder = ${holder}`;
}

function* setTaken({ name }: Item, taken: number): Script<void> {
  yield sql`UPDATE ${ITEM} SET taken = ${taken} WHERE name = ${name}`;
}

/** Removes what has expired of a locked item; answers the item as it is then, and how many. */
function* free(item: Item, atMs: number): Script<{ item: Item; count: number }> {
  const rows = yield sql`SELECT ${ROW} FROM ${RESERVATION}
    WHERE item = ${item.name} AND held_until <= ${atMs} ${forUpdate}`;
  let { taken } = item;
  for (const row of rows.map(rowOf)) {
    taken -= row.quantity;
    yield* remove(row);
  }
  if (rows.length > 0) yield* setTaken(item, taken);
  return { item: { ...item, taken }, count: rows.length };
}

/**
 * A reservation for whoever has none, while there are places without looking for expired ones: one
 * statement. The item's row is locked by its own change, and counts as it is then; a reservation
 * of this holder that is made at the same time is met as a key that is there, and undoes it. On
 * SQLite, where nothing is made at the same time, it is two.
 */
function* reserveAtOnce(wanted: Wanted, backend: string): Script<Reservation | null> {
  const { item, holder, quantity, capacity, forMs } = wanted;
  // An item that is made has the capacity that is asked for, or one place.
  const values = { item, holder, quantity, capacity: capacity ?? 1, forMs };
  if (quantity > values.capacity) return null;
  if (backend === "sqlite") {
    const hole = (name: keyof typeof values): SqlPiece => sql`${values[name]}`;
    const holes = { text: hole, whole: hole };
    const [place] = yield takePlaces(holes, capacity !== undefined);
    if (place === undefined) return null;
    yield sql`INSERT INTO ${RESERVATION} (item, holder, quantity, state, held_until)
      VALUES (${item}, ${holder}, ${quantity}, 'held', ${now} + ${forMs})`;
  } else {
    const statement = capacity === undefined ? RESERVE : RESERVE_OF_CAPACITY;
    const [row] = yield new Shortcut(statement.with(values));
    if (row === undefined) return null;
  }
  return { item, holder, quantity, state: "held", leftMs: forMs };
}

type Asked = "item" | "holder" | "quantity" | "capacity" | "forMs";

/** Counts the places as taken, of an item that is made where it is not there. */
function takePlaces({ text, whole }: Holes<Asked>, isCapacityGiven: boolean): Sql {
  const isCapacity = isCapacityGiven ? sql`AND i.capacity = ${whole("capacity")}` : raw("");
  return sql`INSERT INTO ${ITEM} AS i (name, capacity, taken)
    SELECT ${text("item")}, ${whole("capacity")}, ${whole("quantity")}
    WHERE NOT EXISTS (SELECT 1 FROM ${RESERVATION}
      WHERE item = ${text("item")} AND holder = ${text("holder")})
    ON CONFLICT (name) DO UPDATE SET taken = i.taken + excluded.taken
      WHERE i.taken + excluded.taken <= i.capacity ${isCapacity}
    RETURNING name`;
}

function reserving(isCapacityGiven: boolean): KeptSql<Asked> {
  return new KeptSql<Asked>(
    (holes) => sql`WITH place AS (${takePlaces(holes, isCapacityGiven)})
    INSERT INTO ${RESERVATION} (item, holder, quantity, state, held_until)
    SELECT name, ${holes.text("holder")}, ${holes.whole("quantity")}, 'held',
      ${now} + ${holes.whole("forMs")}
    FROM place RETURNING 1 AS reserved`,
  );
}

const RESERVE = reserving(false);
const RESERVE_OF_CAPACITY = reserving(true);

/** Reserves for a holder. */
export function* reserve(wanted: Wanted, backend: string): Script<Reservation | null> {
  const done = yield* reserveAtOnce(wanted, backend);
  if (done !== null) return done;
  const { quantity, forMs } = wanted;
  let item = yield* lockOrMakeItem(wanted.item, wanted.capacity ?? 1);
  checkCapacity(item, wanted, backend);
  const atMs = yield* time();
  const own = yield* lockRow(wanted);
  if (own !== null && !hasExpired(own, atMs)) {
    if (own.quantity === quantity) return reservationOf(own, atMs);
    throw refused(wanted, own.state, `it is for ${own.quantity}, not ${quantity}`, backend);
  }
  // Only when it matters: freeing costs as much as has expired.
  const isShort = (): boolean => item.taken + quantity > item.capacity;
  if (own !== null || isShort()) ({ item } = yield* free(item, atMs));
  if (isShort()) return null;
  const untilMs = forMs === null ? null : atMs + forMs;
  yield sql`INSERT INTO ${RESERVATION} (item, holder, quantity, state, held_until)
    VALUES (${wanted.item}, ${wanted.holder}, ${quantity}, ${"held"}, ${untilMs})`;
  yield* setTaken(item, item.taken + quantity);
  const { holder } = wanted;
  return reservationOf({ item: item.name, holder, quantity, state: "held", untilMs }, atMs);
}

function checkCapacity(item: Item, wanted: Wanted, backend: string): void {
  const { quantity, capacity } = wanted;
  const isOther = capacity !== undefined && capacity !== item.capacity;
  if (!isOther && quantity <= item.capacity) return;
  const what = isOther ? `a capacity of ${capacity}` : `a quantity of ${quantity}`;
  throw new CapacityError(
    `${what} does not go with ${JSON.stringify(item.name)}, whose capacity is ${item.capacity}` +
      (isOther ? ": define() changes it" : ""),
    { backend, item: item.name, capacity: item.capacity, taken: item.taken },
  );
}

/** The row of a reservation that counts, with its item locked. @throws ReservationStateError. */
function* present(
  which: Which,
  change: string,
  backend: string,
): Script<{ row: Row; atMs: number }> {
  yield* lockItem(which.item);
  const atMs = yield* time();
  const row = yield* lockRow(which);
  if (row === null) throw refused(which, "absent", `cannot ${change} it`, backend);
  if (hasExpired(row, atMs)) throw refused(which, "expired", `cannot ${change} it`, backend);
  return { row, atMs };
}

/** Makes a reservation last. */
export function* confirm(which: Which, backend: string): Script<Reservation> {
  const { row, atMs } = yield* present(which, "confirm", backend);
  if (row.state === "confirmed") return reservationOf(row, atMs);
  yield sql`UPDATE ${RESERVATION} SET state = ${"confirmed"}, held_until = NULL
    WHERE item = ${which.item} AND holder = ${which.holder}`;
  return reservationOf({ ...row, state: "confirmed", untilMs: null }, atMs);
}

/** Sets the time that is left. */
export function* extend(which: Which, forMs: number | null, backend: string): Script<Reservation> {
  const { row, atMs } = yield* present(which, "extend", backend);
  if (row.state === "confirmed") throw refused(which, "confirmed", "cannot extend it", backend);
  const untilMs = forMs === null ? null : atMs + forMs;
  yield sql`UPDATE ${RESERVATION} SET held_until = ${untilMs}
    WHERE item = ${which.item} AND holder = ${which.holder}`;
  return reservationOf({ ...row, untilMs }, atMs);
}

/** Gives places back. */
export function* cancel(which: Which): Script<boolean> {
  const item = yield* lockItem(which.item);
  if (item === null) return false;
  const atMs = yield* time();
  const row = yield* lockRow(which);
  if (row === null) return false;
  yield* remove(row);
  yield* setTaken(item, item.taken - row.quantity);
  return !hasExpired(row, atMs);
}

/** Says how many places an item has. */
export function* define(name: string, capacity: number, backend: string): Script<void> {
  const locked = yield* lockOrMakeItem(name, capacity);
  if (locked.capacity === capacity) return;
  const { item } = yield* free(locked, yield* time());
  if (capacity < item.taken) {
    throw new CapacityError(
      `the capacity of ${JSON.stringify(name)} cannot be ${capacity}: ${item.taken} are taken`,
      { backend, item: name, capacity: item.capacity, taken: item.taken },
    );
  }
  yield sql`UPDATE ${ITEM} SET capacity = ${capacity} WHERE name = ${name}`;
}

/** Reservations that count. */
export function* list(item: string): Script<readonly Reservation[]> {
  const rows = yield sql`SELECT ${ROW}, ${now} AS at_ms FROM ${RESERVATION}
    WHERE item = ${item} ORDER BY holder`;
  return rows.flatMap((row) => {
    const [one, atMs] = [rowOf(row), numberOf(row["at_ms"])];
    return hasExpired(one, atMs) ? [] : [reservationOf(one, atMs)];
  });
}

/** Places of an item. */
export function* available(name: string): Script<Places | null> {
  const [row] = yield sql`SELECT capacity, taken, (SELECT SUM(quantity) FROM ${RESERVATION}
    WHERE item = ${name} AND held_until <= ${nowOnce}) AS expired_sum
    FROM ${ITEM} WHERE name = ${name}`;
  if (row === undefined) return null;
  const capacity = numberOf(row["capacity"]);
  const counted = numberOf(row["taken"]) - (orNull(row["expired_sum"], numberOf) ?? 0);
  return { capacity, available: capacity - counted };
}

/** Items that have expired reservations. */
export function* itemsToSweep(): Script<readonly string[]> {
  const rows = yield sql`SELECT DISTINCT item FROM ${RESERVATION} WHERE held_until <= ${nowOnce}
    LIMIT ${raw(String(SWEPT_AT_ONCE))}`;
  return rows.map((row) => textOf(row["item"]));
}

/** Removes what has expired of one item; answers how many. */
export function* sweepItem(name: string): Script<number> {
  const item = yield* lockItem(name);
  if (item === null) return 0;
  return (yield* free(item, yield* time())).count;
}

function refused(
  { item, holder }: Which,
  state: ReservationState,
  why: string,
  backend: string,
): ReservationStateError {
  const whose = `the reservation of ${JSON.stringify(item)} for ${JSON.stringify(holder)}`;
  const is =
    state === "absent" ? "does not exist" : state === "expired" ? "has expired" : `is ${state}`;
  return new ReservationStateError(`${whose} ${is}: ${why}`, { backend, item, holder, state });
}
