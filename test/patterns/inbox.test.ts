import { expect, it } from "vitest";
import { UnavailableError } from "../../src/core/errors.js";
import { inbox, type Inbox } from "../../src/inbox/open.js";
import { eventually, wrongBy } from "./claims-suite.js";
import { onStores, type Spot } from "./stores.js";

const open = (spot: Spot, options: object = {}): Promise<Inbox<any>> =>
  spot.open(inbox, options) as Promise<Inbox<any>>;

onStores("an inbox", (store) => {
  /** A place with a table of effects, and an effect that adds a row to it. */
  async function place(): Promise<{
    spot: Spot;
    effect: (id: number) => (tx: any) => any;
    effects: () => Promise<number[]>;
  }> {
    const spot = await store.fresh();
    await spot.query("CREATE TABLE effects (id INTEGER NOT NULL)");
    return {
      spot,
      effect: (id) => (tx) => {
        const text = `INSERT INTO effects (id) VALUES (${id})`;
        return store.dialect === "sqlite" ? void tx.run(text) : tx.query(text);
      },
      effects: async () =>
        (await spot.query("SELECT id FROM effects ORDER BY id")).map(({ id }) => Number(id)),
    };
  }

  it("has one effect for each event and consumer", async () => {
    const { spot, effect, effects } = await place();
    const [a, b] = await Promise.all([open(spot), open(spot)]);
    const ran = await Promise.all(
      Array.from({ length: 10 }, (_, i) => (i % 2 === 0 ? a : b).once("e1", "mailer", effect(1))),
    );
    expect(ran.filter(Boolean)).toHaveLength(1);
    expect(await a.once("e1", "auditor", effect(2))).toBe(true);
    expect(await a.once("E1", "mailer", effect(3))).toBe(true);
    expect(await b.once("e1", "auditor", effect(4))).toBe(false);
    expect(await effects()).toEqual([1, 2, 3]);
    expect(await a.has("e1", "mailer")).toBe(true);
    expect(await a.has("e2", "mailer")).toBe(false);
  });

  it("forgets an event whose effect failed, and gives out the effect's own error", async () => {
    const { spot, effect, effects } = await place();
    const i = await open(spot);
    const boom = new Error("boom");
    const failing = (tx: any): any => {
      const done = effect(1)(tx);
      const fail = (): never => {
        throw boom;
      };
      return store.dialect === "sqlite" ? fail() : done.then(fail);
    };
    await expect(i.once("e", "c", failing)).rejects.toBe(boom);
    expect(await i.has("e", "c")).toBe(false);
    expect(await effects()).toEqual([]);
    expect(await i.once("e", "c", effect(2))).toBe(true);
    expect(await effects()).toEqual([2]);
  });

  it("notes an event in the caller's transaction, and is undone with it", async () => {
    const { spot } = await place();
    const i = await open(spot);
    const record = (fails: boolean) => (tx: any) => {
      const end = (first: unknown): unknown => {
        if (fails) throw new Error("boom");
        return first;
      };
      const first = i.record(tx, "e", "c") as unknown;
      return store.dialect === "sqlite" ? end(first) : (first as Promise<unknown>).then(end);
    };
    await expect(spot.begin(record(true))).rejects.toThrow("boom");
    expect(await i.has("e", "c")).toBe(false);
    expect(await spot.begin(record(false))).toBe(true);
    expect(await spot.begin(record(false))).toBe(false);
    await i.once("e2", "c", (tx: any) => i.record(tx, "e3", "c") as never);
    expect(await i.has("e3", "c")).toBe(true);
  });

  it("waits for whoever is at an event, and takes over when that fails", async () => {
    const { spot, effect, effects } = await place();
    const i = await open(spot);
    const other = await spot.openTransaction();
    await i.record(other.tx, "e", "c");
    const mine = i.once("e", "c", effect(7));
    await other.rollback();
    expect(await mine).toBe(true);
    expect(await effects()).toEqual([7]);
  });

  it("gives up on an event that another keeps for too long, and nothing happened", async () => {
    const { spot, effect, effects } = await place();
    const i = await open(spot, { timeout: "1s" });
    const other = await spot.openTransaction();
    await i.record(other.tx, "e", "c");
    await expect(i.once("e", "c", effect(1))).rejects.toThrow(UnavailableError);
    await other.commit();
    expect(await i.once("e", "c", effect(2))).toBe(false);
    expect(await effects()).toEqual([]);
  });

  it("sweeps what is older than a time, by the store's clock", async () => {
    const { spot, effect } = await place();
    const i = await open(spot);
    const wrong = await open(spot, { runtime: wrongBy(3_600_000) });
    for (const event of ["a", "b"]) await i.once(event, "c", effect(1));
    expect(await wrong.sweep({ olderThan: "10m" })).toBe(0);
    await eventually("both to be old", async () =>
      (await i.sweep({ olderThan: 50 })) > 0 || !(await i.has("b", "c")) ? true : null,
    );
    await eventually("all to be swept", async () => {
      await i.sweep({ olderThan: 1 });
      return (await i.has("b", "c")) ? null : true;
    });
    expect(await i.has("a", "c")).toBe(false);
    expect(await i.once("a", "c", effect(2))).toBe(true);
  });

  it("tells wrong arguments before anything is sent", async () => {
    const { spot, effect } = await place();
    const i = await open(spot);
    await expect(i.once("", "c", effect(1))).rejects.toThrow(/^event must be/);
    await expect(i.once("e", 5 as never, effect(1))).rejects.toThrow(/^consumer must be/);
    await expect(i.once("e", "c", "x" as never)).rejects.toThrow(/^effect must be/);
    await expect(i.sweep({ olderThan: -1 })).rejects.toThrow(/^olderThan must be/);
    await expect(i.sweep({} as never)).rejects.toThrow(/^olderThan must be/);
    const attempt = async (): Promise<unknown> => i.record(undefined as never, "e", "c");
    await expect(attempt()).rejects.toThrow(TypeError);
  });

  if (store.dialect === "sqlite") {
    it("refuses an effect that returns a promise, and undoes it", async () => {
      const { spot, effects } = await place();
      const i = await open(spot);
      const late = async (tx: any): Promise<void> => tx.run("INSERT INTO effects VALUES (1)");
      await expect(i.once("e", "c", late as never)).rejects.toThrow(/must be synchronous/);
      expect(await i.has("e", "c")).toBe(false);
      expect(await effects()).toEqual([]);
    });
  }
});
