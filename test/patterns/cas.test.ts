import { expect, it } from "vitest";
import { cas, ConflictError, tableSql, type SqlCas } from "../../src/cas/open.js";
import { casSuite } from "./cas-suite.js";
import { onStores, type Spot } from "./stores.js";

const open = (spot: Spot, options: object = {}): Promise<SqlCas<any>> =>
  spot.open(cas as never, options);

onStores("compare-and-swap", (store) => {
  casSuite(store.name, async () => {
    const spot = await store.fresh();
    return { open: (options) => open(spot, options), forChildren: spot.forChildren };
  });

  it("takes part in the caller's transaction", async () => {
    const spot = await store.fresh();
    const values = await open(spot);
    const write = (fails: boolean) => (tx: any) => {
      const inside: any = values.within(tx);
      const done = inside.write("k", "inside", { version: null });
      const look = (): any => inside.read("k");
      const check = (seen: unknown): void => {
        expect(seen).toMatchObject({ value: "inside" });
        if (fails) throw new Error("boom");
      };
      return store.dialect === "sqlite" ? check(look()) : done.then(look).then(check);
    };
    await expect(spot.begin(write(true))).rejects.toThrow("boom");
    expect(await values.read("k")).toBeNull();
    await spot.begin(write(false));
    expect(await values.read("k")).toMatchObject({ value: "inside" });
    const late = spot.begin((tx) => values.within(tx).write("k", 1, { version: null }));
    await expect(late).rejects.toBeInstanceOf(ConflictError);
  });

  it("changes rows of the caller's own table", async () => {
    const spot = await store.fresh();
    const values = await open(spot);
    const table = `"odd; table"`;
    const quoted = store.dialect === "mysql" ? "`odd; table`" : table;
    await spot.query(
      `CREATE TABLE ${quoted} (id VARCHAR(20) PRIMARY KEY, n BIGINT, note TEXT, v BIGINT NOT NULL)`,
    );
    await spot.query(`INSERT INTO ${quoted} VALUES ('a', 1, NULL, 7), ('b', 1, NULL, 7)`);
    const rows = values.row({ table: "odd; table", key: "id", version: "v" });
    const seen = await rows.read("a");
    expect(seen!.version).toBe(7n);
    expect(Number(seen!.value["n"])).toBe(1);
    expect(await rows.read("none")).toBeNull();
    expect(await rows.update("none", () => ({ n: 2 }))).toBeNull();
    let tries = 0;
    const updated = await rows.update<{ n: number; note: string }>("a", async (row) => {
      if (++tries === 1) await rows.update("a", () => ({ n: 40 }));
      return { n: Number(row.n) + 2, note: "it's" };
    });
    expect(updated).toEqual({ value: { n: 42, note: "it's" }, version: 9n, attempts: 2 });
    expect((await rows.read("a"))!.value).toMatchObject({ note: "it's" });
    expect((await rows.read("b"))!.version).toBe(7n);
    const always = rows.update(
      "a",
      async () => {
        await rows.update("a", () => ({ n: 0 }));
        return { n: 1 };
      },
      { attempts: 2 },
    );
    await expect(always).rejects.toMatchObject({ version: 11n, attempts: 2 });
    for (const wrong of [{}, null, [], { v: 1 }, { id: "c" }, { n: undefined }]) {
      await expect(rows.update("a", () => wrong as never)).rejects.toThrow(/^change/);
    }
    await expect(rows.read(undefined)).rejects.toThrow(/^id must be/);
    const misnamed = { table: "odd; table", key: "id", version: 1 as never };
    expect(() => values.row(misnamed)).toThrow(/^version must be/);
    expect(() => values.row({ ...misnamed, version: "v", tabel: "x" } as never)).toThrow(/^tabel/);
  });
});

it("prints the SQL of its table", () => {
  expect(tableSql("postgres", { schema: "x" })).toContain('"x"."cas"');
  expect(tableSql("sqlite")).toContain("tenure_cas");
  expect(tableSql("mysql")).toContain("ENGINE=InnoDB");
});
