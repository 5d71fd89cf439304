import { expect, it } from "vitest";
import { ArgumentTypeError, UnavailableError } from "../../src/core/errors.js";
import { openSqlStore } from "../../src/sql/open.js";
import { bigintOf, textOf } from "../../src/sql/reading.js";
import { insertNew, type Script } from "../../src/sql/script.js";
import { forUpdate, now, own, sql } from "../../src/sql/statement.js";
import type { SqlStore } from "../../src/sql/store.js";
import { column, tablesSql, type TablePlan } from "../../src/sql/tables.js";
import { onStores, type Spot } from "./stores.js";

const PLAN: TablePlan = {
  pattern: "example",
  version: 1,
  tables: {
    example: {
      columns: sql`name ${column.key} NOT NULL PRIMARY KEY, amount ${column.integer} NOT NULL,
        note ${column.text}`,
      indexes: { example_amount: "amount" },
    },
  },
};

const open = (spot: Spot, options: object = {}): Promise<SqlStore<any>> =>
  spot.open((target, more) => openSqlStore(target, PLAN, more), options);

function* put(name: string, amount: bigint, note = ""): Script<boolean> {
  return yield* insertNew(sql`INSERT INTO ${own("example")} (name, amount, note)
    VALUES (${name}, ${amount}, ${note})`);
}

function* look(name: string): Script<{ amount: bigint; note: string } | null> {
  const [row] = yield sql`SELECT amount, note FROM ${own("example")} WHERE name = ${name}
    ${forUpdate}`;
  if (row === undefined) return null;
  return { amount: bigintOf(row["amount"]), note: textOf(row["note"]) };
}

onStores("a store of the patterns", (store) => {
  it("keeps texts and 64-bit integers exactly", async () => {
    const s = await open(await store.fresh());
    const names = ["a", "A", "a ", "é", "e\u0301", "'; DROP TABLE x; --", "😀", "\\", "%_?$1"];
    const amount = 2n ** 63n - 1n;
    for (const name of names) {
      expect(await s.run("put", () => put(name, amount, `note ${name}`))).toBe(true);
      expect(await s.run("put", () => put(name, 1n, "other"))).toBe(false);
    }
    for (const name of names) {
      expect(await s.run("look", () => look(name))).toEqual({ amount, note: `note ${name}` });
    }
  });

  it("tells the time of the store", async () => {
    const s = await open(await store.fresh());
    const before = Date.now();
    const time = await s.run("look", function* () {
      const [row] = yield sql`SELECT ${now} AS t`;
      return Number(bigintOf(row!["t"]));
    });
    expect(time).toBeGreaterThan(before - 100);
    expect(time).toBeLessThan(Date.now() + 100);
  });

  it("runs in the caller's transaction, and is undone with it", async () => {
    const spot = await store.fresh();
    const s = await open(spot);
    const fails = spot.begin((tx) => {
      const done = s.within(tx)("put", () => put("a", 1n, ""));
      const boom = (): never => {
        throw new Error("boom");
      };
      if (store.dialect !== "sqlite") return (done as unknown as Promise<boolean>).then(boom);
      expect(done).toBe(true);
      return boom();
    });
    await expect(fails).rejects.toThrow("boom");
    expect(await s.run("look", () => look("a"))).toBeNull();
    await spot.begin((tx) => s.within(tx)("put", () => put("a", 2n, "")));
    expect(await s.run("look", () => look("a"))).toEqual({ amount: 2n, note: "" });
  });

  it("commits the caller's work and its own together, or neither", async () => {
    const spot = await store.fresh();
    const s = await open(spot);
    await spot.query("CREATE TABLE effects (id INTEGER PRIMARY KEY)");
    const work = (fail: boolean, id: number) => (tx: any) => {
      const text = `INSERT INTO effects (id) VALUES (${id})`;
      const boom = (): void => {
        if (fail) throw new Error("boom");
      };
      if (store.dialect === "sqlite") {
        tx.run(text);
        void s.within(tx)("put", () => put(`k${id}`, 1n, ""));
        return boom();
      }
      return tx
        .query(text)
        .then(() => s.within(tx)("put", () => put(`k${id}`, 1n, "")))
        .then(boom);
    };
    await s.transaction("work", work(false, 1));
    await expect(s.transaction("work", work(true, 2))).rejects.toThrow(/^boom$/);
    expect(await spot.query("SELECT id FROM effects")).toEqual([{ id: 1 }]);
    expect(await s.run("look", () => look("k1"))).not.toBeNull();
    expect(await s.run("look", () => look("k2"))).toBeNull();
  });

  it("refuses what is no transaction, before anything is written", async () => {
    const spot = await store.fresh();
    const s = await open(spot);
    const attempt = async (tx: unknown): Promise<unknown> =>
      s.within(tx as never)("put", () => put("a", 1n, ""));
    for (const wrong of [undefined, null, 1, "tx", {}]) {
      await expect(attempt(wrong)).rejects.toThrow(TypeError);
    }
    const { tx, rollback } = await spot.openTransaction();
    await rollback();
    await expect(attempt(tx)).rejects.toThrow(/transaction/);
    expect(await s.run("look", () => look("a"))).toBeNull();
  });

  it("is of no use after its transaction", async () => {
    const s = await open(await store.fresh());
    let kept: any;
    await s.transaction("work", (tx: any) => void (kept = tx));
    expect(() => (kept.query ?? kept.run).call(kept, "SELECT 1")).toThrow("has ended");
    const late = async (): Promise<unknown> => s.within(kept)("put", () => put("a", 1n, ""));
    await expect(late()).rejects.toThrow("has ended");
  });

  it("makes its tables once, however many start at once", async () => {
    const spot = await store.fresh();
    const stores = await Promise.all(Array.from({ length: 20 }, () => open(spot)));
    expect(new Set(stores.map(({ storeId }) => storeId)).size).toBe(1);
    const won = await Promise.all(stores.map((s) => s.run("put", () => put("x", 1n, ""))));
    expect(won.filter(Boolean)).toHaveLength(1);
  });

  it("does not make tables that it may not make, and says which are missing", async () => {
    const spot = await store.fresh();
    await expect(open(spot, { migrate: false })).rejects.toThrow(
      /tables of example are missing.*--pattern example/,
    );
    await open(spot);
    await open(spot, { migrate: false });
    const newer = { ...PLAN, version: 2 };
    await spot.open((target, more) => openSqlStore(target, newer, more));
    await expect(open(spot)).rejects.toThrow(/version 2/);
  });

  it("is content with tables that were made by hand", async () => {
    const spot = await store.fresh();
    const script = tablesSql(PLAN, spot.dialect, spot.options).replaceAll(/^--.*$/gm, "");
    for (let again = 0; again < 2; again++) {
      for (const text of script.split(/;\n/)) {
        const isTransaction = /^(BEGIN|COMMIT)$/.test(text.trim());
        if (text.trim() !== "" && !isTransaction) await spot.query(text);
      }
    }
    const s = await open(spot, { migrate: false });
    expect(await s.run("put", () => put("a", 1n))).toBe(true);
    expect((await open(spot)).storeId).toBe(s.storeId);
  });

  it("tells wrong options before any input or output", async () => {
    const spot = await store.fresh();
    for (const [option, value] of [
      ["timeout", 0],
      ["timeout", "5"],
      ["migrate", "yes"],
      ["schema", "a b"],
    ] as const) {
      const opening = openSqlStore(spot.target, PLAN, { [option]: value });
      await expect(opening).rejects.toThrow(new RegExp(`^${option} must be`));
    }
    await expect(openSqlStore("oracle://x:secret@h" as never, PLAN)).rejects.toThrow(
      /^target must be .*"oracle:…"$/,
    );
  });

  it("gives up on a lock that is never free, and nothing is done", async () => {
    const spot = await store.fresh();
    const s = await open(spot, { timeout: "1s" });
    await s.run("put", () => put("a", 1n, ""));
    const busy = await spot.openTransaction();
    const within = s.within(busy.tx)("look", () => look("a"));
    await within;
    const before = performance.now();
    const change = s.run("change it", function* (): Script<void> {
      yield* look("a");
      yield sql`UPDATE ${own("example")} SET amount = ${2} WHERE name = ${"a"}`;
    });
    await expect(change).rejects.toThrow(UnavailableError);
    expect(performance.now() - before).toBeLessThan(4_000);
    await busy.rollback();
    expect(await s.run("look", () => look("a"))).toMatchObject({ amount: 1n });
  });

  it("commits nothing over what failed unseen, and everything after a duplicate or a refusal", async () => {
    const spot = await store.fresh();
    const s = await open(spot);
    await s.run("put", () => put("there", 1n));
    const refuse = (): Script<void> => {
      throw new ArgumentTypeError("x", 1, "something else");
    };
    if (store.dialect === "sqlite") {
      await s.transaction("work", (tx: any) => {
        expect(s.within(tx)("put", () => put("there", 2n))).toBe(false);
        expect(() => s.within(tx)("refuse", refuse)).toThrow(TypeError);
        void s.within(tx)("put", () => put("new", 2n));
      });
    } else {
      await s.transaction("work", async (tx: any) => {
        expect(await s.within(tx)("put", () => put("there", 2n))).toBe(false);
        await expect(s.within(tx)("refuse", refuse)).rejects.toThrow(TypeError);
        await s.within(tx)("put", () => put("new", 2n));
      });
      const unseen = s.transaction("work", async (tx: any) => {
        await s.within(tx)("put", () => put("never", 2n));
        tx.query("SELECT nothing FROM nowhere").catch(() => undefined);
      });
      await expect(unseen).rejects.toThrow(/a statement failed, so nothing was committed/);
      const first = s.transaction("work", async (tx: any) => {
        tx.query("SELECT nothing FROM nowhere").catch(() => undefined);
        await s.within(tx)("put", () => put("never", 2n));
      });
      await expect(first).rejects.toThrow(/so nothing was committed: .*nowhere/);
      let own: unknown;
      const theirs = s.transaction("work", async (tx: any) => {
        await tx.query("SELECT nothing FROM nowhere").catch(() => undefined);
        const cause: unknown = await tx.query("SELECT 1").catch((error: unknown) => error);
        throw (own = new Error("no booking", { cause }));
      });
      expect(await theirs.catch((error: unknown) => error)).toBe(own);
      expect(await s.run("look", () => look("never"))).toBeNull();
    }
    expect(await s.run("look", () => look("new"))).toEqual({ amount: 2n, note: "" });
  });
});
