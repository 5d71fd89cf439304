import { describe, expect, it } from "vitest";
import { UnavailableError } from "../../src/core/errors.js";
import { lockRow, rows, transition, type Rows } from "../../src/rows/open.js";
import { onStores, type Spot } from "./stores.js";

const open = (spot: Spot, options: object = {}): Promise<Rows<any>> => {
  return spot.open((target) => rows(target, options)) as Promise<Rows<any>>;
};

const STATES = { new: ["paid", "void"], paid: ["sent"], sent: [] } as const;

onStores("rows", (store) => {
  async function place(): Promise<Spot> {
    const spot = await store.fresh();
    await spot.query(
      "CREATE TABLE orders (id INTEGER PRIMARY KEY, state VARCHAR(20) NOT NULL, note VARCHAR(20))",
    );
    await spot.query("INSERT INTO orders (id, state) VALUES (1, 'new'), (2, 'new')");
    return spot;
  }
  const stateOf = async (spot: Spot, id: number): Promise<unknown> =>
    (await spot.query(`SELECT state, note FROM orders WHERE id = ${id}`))[0];
  // On SQLite a lock on one row is a lock on the file.
  const isSqlite = store.dialect === "sqlite";

  it("changes a state in a column of any kind of text, and tells of none", async () => {
    const spot = await store.fresh();
    const db = await open(spot);
    const kinds = ["CHAR(10)", "VARCHAR(10)", "TEXT"];
    if (store.dialect === "postgres") {
      await spot.query("CREATE TYPE phase AS ENUM ('new', 'paid')");
      kinds.push("phase");
    }
    for (const [n, kind] of kinds.entries()) {
      const table = `kind_${n}`;
      await spot.query(`CREATE TABLE ${table} (id INTEGER PRIMARY KEY, state ${kind})`);
      await spot.query(`INSERT INTO ${table} VALUES (1, 'new'), (2, NULL)`);
      const change = { table, from: "new", to: "paid" };
      const first = await db.transition({ ...change, id: 1 });
      expect(first).toEqual({ changed: true, state: "paid" });
      const second = await db.transition({ ...change, id: 1 });
      expect(second).toEqual({ changed: false, state: "paid" });
      const none = await db.transition({ ...change, id: 2 });
      expect(none).toEqual({ changed: false, state: null });
    }
  });

  it("locks a row that is there, and tells one that is not", async () => {
    const spot = await place();
    const { tx } = await spot.openTransaction();
    const locked = await lockRow(tx, "orders", { id: 1 });
    expect(locked.locked && Number(locked.row["id"])).toBe(1);
    expect(await lockRow(tx, "orders", { id: 9 })).toEqual({ locked: false, why: "missing" });
    for (const how of [{ nowait: true }, { skipLocked: true }]) {
      const missing = await lockRow(tx, "orders", { id: 9 }, how);
      expect(missing).toEqual({ locked: false, why: "missing" });
      expect(await lockRow(tx, "orders", { id: 1 }, how)).toMatchObject({ locked: true });
    }
  });

  it("answers that a row is busy, and the transaction goes on", async () => {
    const spot = await place();
    const first = await spot.openTransaction();
    expect(await lockRow(first.tx, "orders", { id: 1 })).toMatchObject({ locked: true });
    if (isSqlite) {
      const db = spot.connect!();
      db.exec("BEGIN");
      const before = performance.now();
      for (const how of [{ nowait: true }, { skipLocked: true }]) {
        expect(lockRow(db, "orders", { id: 1 }, how)).toEqual({ locked: false, why: "busy" });
        expect(lockRow(db, "orders", { id: 2 }, how)).toEqual({ locked: false, why: "busy" });
      }
      // It did not wait, and left the connection as patient as it was.
      expect(performance.now() - before).toBeLessThan(1_500);
      expect(db.prepare("PRAGMA busy_timeout").get()).toEqual({ timeout: 2_000 });
      db.exec("ROLLBACK");
    } else {
      const second = await spot.openTransaction();
      for (const how of [{ nowait: true }, { skipLocked: true }]) {
        const busy = await lockRow(second.tx, "orders", { id: 1 }, how);
        expect(busy).toEqual({ locked: false, why: "busy" });
      }
      const { tx } = second;
      expect(await lockRow(tx, "orders", { id: 2 }, { nowait: true })).toMatchObject({
        locked: true,
      });
      await second.rollback();
    }
    await first.commit();
    const third = await spot.openTransaction();
    const free = await lockRow(third.tx, "orders", { id: 1 }, { nowait: true });
    expect(free).toMatchObject({ locked: true });
  });

  it("changes a state only from the expected one, and tells the present one", async () => {
    const spot = await place();
    const r = await open(spot);
    const change = { table: "orders", id: 1, from: "new", to: "paid", set: { note: "visa" } };
    const [a, b] = await Promise.all([r.transition(change), transition(r, change)]);
    expect([a, b]).toContainEqual({ changed: true, state: "paid" });
    expect([a, b]).toContainEqual({ changed: false, state: "paid" });
    expect(await stateOf(spot, 1)).toEqual({ state: "paid", note: "visa" });
    expect(await r.transition({ ...change, id: { id: 9 } })).toEqual({
      changed: false,
      state: null,
    });
    expect(await stateOf(spot, 2)).toEqual({ state: "new", note: null });
  });

  it("changes a state together with the caller's work, or not at all", async () => {
    const spot = await place();
    const r = await open(spot);
    const change = { table: "orders", id: 1, from: "new", to: "paid" };
    const work = (fails: boolean) => (tx: any) => {
      const end = (answer: unknown): unknown => {
        if (fails) throw new Error("boom");
        return answer;
      };
      const answer = transition(tx, change) as unknown;
      return isSqlite ? end(answer) : (answer as Promise<unknown>).then(end);
    };
    for (const run of [spot.begin, r.transaction] as ((work: any) => Promise<unknown>)[]) {
      await expect(run(work(true))).rejects.toThrow("boom");
    }
    expect(await stateOf(spot, 1)).toMatchObject({ state: "new" });
    expect(await spot.begin(work(false))).toEqual({ changed: true, state: "paid" });
    expect(await r.transaction(work(false) as never)).toEqual({ changed: false, state: "paid" });
  });

  it("holds a lock until the transaction ends, so that counts are right", async () => {
    const spot = await place();
    await spot.query("UPDATE orders SET note = '0' WHERE id = 1");
    const r = await open(spot);
    const count = (): Promise<unknown> =>
      r.transaction((tx: any): any => {
        const add = (locked: any): any => {
          const note = String(Number(locked.row.note) + 1);
          const text = `UPDATE orders SET note = '${note}' WHERE id = 1`;
          return isSqlite ? void tx.run(text) : tx.query(text);
        };
        const locked = lockRow(tx, "orders", { id: 1 }) as any;
        return isSqlite ? add(locked) : locked.then(add);
      });
    await Promise.all(Array.from({ length: 20 }, count));
    expect(await stateOf(spot, 1)).toMatchObject({ note: "20" });
  });

  it("refuses a change that the machine of states does not allow, before anything is sent", async () => {
    const spot = await place();
    const r = await open(spot);
    const change = { table: "orders", id: 1, states: STATES };
    const refused: readonly (readonly [string, string, RegExp])[] = [
      ["new", "sent", /^to must be what may follow new \(paid or void\)/],
      ["sent", "new", /^to must be what may follow sent \(nothing: sent is final\)/],
      ["void", "new", /void is final/],
      ["lost", "new", /^from must be one of the states new, paid, sent, void/],
      ["new", "lost", /^to must be one of the states/],
    ];
    for (const [from, to, message] of refused) {
      await expect(r.transition({ ...change, from, to })).rejects.toThrow(message);
    }
    expect(await stateOf(spot, 1)).toMatchObject({ state: "new" });
    expect(await r.transition({ ...change, from: "new", to: "paid" })).toMatchObject({
      changed: true,
    });
  });

  it("tells a lock that was never free, and nothing is changed", async () => {
    const spot = await place();
    const r = await open(spot, { timeout: "1s" });
    const other = await spot.openTransaction();
    await lockRow(other.tx, "orders", { id: 1 });
    const change = r.transition({ table: "orders", id: 1, from: "new", to: "paid" });
    await expect(change).rejects.toThrow(UnavailableError);
    await other.rollback();
    expect(await stateOf(spot, 1)).toMatchObject({ state: "new" });
  });

  it("quotes names and binds values", async () => {
    const spot = await store.fresh();
    const quote = store.dialect === "mysql" ? "`" : '"';
    const [table, column] = [`t'; --`, `my "state`].map((n) =>
      store.dialect === "mysql" ? n : n.replaceAll('"', ""),
    );
    const named = `${quote}${table}${quote}`;
    await spot.query(`CREATE TABLE ${named} (id VARCHAR(40) PRIMARY KEY,
      ${quote}${column}${quote} VARCHAR(40))`);
    const evil = "x' OR '1'='1";
    await spot.query(`INSERT INTO ${named} VALUES (?, 'a'), ('other', 'a')`, [evil]);
    const r = await open(spot);
    const change = { table: table!, column: column!, id: evil };
    expect(await r.transition({ ...change, from: "a", to: evil })).toMatchObject({ changed: true });
    expect(await r.transition({ ...change, from: evil, to: "b" })).toMatchObject({ changed: true });
    const other = await r.transition({ ...change, id: "other", from: "a", to: "c" });
    expect(other).toMatchObject({ changed: true });
  });

  it("tells what is no transaction, and wrong arguments", async () => {
    const spot = await place();
    const lock = async (...args: unknown[]): Promise<unknown> =>
      (lockRow as (...args: unknown[]) => unknown)(...args);
    await expect(lock(undefined, "orders", { id: 1 })).rejects.toThrow(/^tx must be/);
    await expect(lock(() => [], "orders", { id: 1 })).rejects.toThrow(/^dialect must be/);
    const { tx, rollback } = await spot.openTransaction();
    for (const key of [undefined, 5, {}, { id: undefined }]) {
      await expect(lock(tx, "orders", key)).rejects.toThrow(/^key(\.id)? must be/);
    }
    await expect(lock(tx, "", { id: 1 })).rejects.toThrow(/^table must be/);
    await expect(lock(tx, "orders", { id: 1 }, { noWait: true })).rejects.toThrow(
      /^noWait must be/,
    );
    await rollback();
    await expect(lock(tx, "orders", { id: 1 })).rejects.toThrow(/transaction/);
    const missing = await open(spot);
    await expect(
      missing.transition({ table: "nowhere", id: 1, from: "a", to: "b" }),
    ).rejects.toMatchObject({ family: "unavailable", retryable: false });
  });
});

describe("a transaction of SQLite that has read what is not the newest any more", () => {
  onStores(
    "rows",
    (store) => {
      it("can never write, which is told as an error and not as busy", async () => {
        const spot = await store.fresh();
        await spot.query("CREATE TABLE t (id INTEGER PRIMARY KEY)");
        const db = spot.connect!();
        db.exec("PRAGMA journal_mode = WAL");
        db.exec("BEGIN");
        db.prepare("SELECT count(*) FROM t").get();
        await spot.query("INSERT INTO t VALUES (1)");
        expect(() => lockRow(db, "t", { id: 1 }, { nowait: true })).toThrow(UnavailableError);
        db.exec("ROLLBACK");
      });
    },
    ["sqlite"],
  );
});
