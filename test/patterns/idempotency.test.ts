import { expect, it } from "vitest";
import { idempotency, tableSql, type Idempotency } from "../../src/idempotency/open.js";
import { InProgressError, KeyReusedError } from "../../src/idempotency/open.js";
import { race, startChild } from "./children.js";
import { RACE_MS, RACERS, tell } from "./race-size.js";
import { itRaces, onStores, type Spot, type Store } from "./stores.js";
import { until } from "./until.js";
import { withWallClockOff } from "./wrong-clock.js";

const open = (spot: Spot, options: object = {}): Promise<Idempotency<any>> =>
  spot.open(idempotency as never, options);

/** Opens, with a table of effects beside. */
async function openWithEffects(
  store: Store,
  options: object = {},
): Promise<{ spot: Spot; keys: Idempotency<any> }> {
  const spot = await store.fresh();
  await spot.query("CREATE TABLE effects (k VARCHAR(200), who VARCHAR(200))");
  return { spot, keys: await open(spot, options) };
}

const effectsOf = (spot: Spot, key: string): Promise<Record<string, any>[]> =>
  spot.query("SELECT who FROM effects WHERE k = ?", [key]);

/** Work with one effect, which answers `result`. */
function effect(store: Store, key: string, result: unknown): (tx: any) => any {
  const text = (a: string, b: string): string => `INSERT INTO effects (k, who) VALUES (${a}, ${b})`;
  if (store.dialect === "sqlite") {
    return (tx) => {
      tx.run(text("?", "?"), key, "test");
      return result;
    };
  }
  const marks = store.dialect === "postgres" ? text("$1", "$2") : text("?", "?");
  return async (tx) => {
    await tx.query(marks, [key, "test"]);
    return result;
  };
}

const never = (): never => {
  throw new Error("the work ran a second time");
};

onStores("idempotency keys", (store) => {
  it("run the work once, and give its result to all later callers", async () => {
    const { spot, keys } = await openWithEffects(store);
    const result = { id: 7, lines: ["a", null], note: undefined };
    const options = { input: { amount: 10, to: "x" } };
    const first = await keys.once("pay", options, effect(store, "pay", result));
    expect(first).toEqual({ result: { id: 7, lines: ["a", null] }, replayed: false });
    expect("note" in (first.result as object)).toBe(false);
    const same = { input: { to: "x", amount: 10 } };
    const later = await keys.once("pay", same, never);
    expect(later).toEqual({ ...first, replayed: true });
    expect(await effectsOf(spot, "pay")).toHaveLength(1);
    await keys.once("nothing", {}, effect(store, "nothing", undefined));
    expect(await keys.once("nothing", {}, never)).toEqual({ result: undefined, replayed: true });
  });

  it("refuse another input under the same key", async () => {
    const { spot, keys } = await openWithEffects(store);
    await keys.once("k", { input: 1 }, effect(store, "k", "done"));
    for (const options of [{ input: 2 }, { input: "1" }, { input: null }, {}]) {
      const failure = await keys.once("k", options, never).catch((error: unknown) => error);
      expect(failure).toBeInstanceOf(KeyReusedError);
      expect(failure).toMatchObject({ key: "k", code: "TENURE_KEY_REUSED", family: "refused" });
    }
    expect(await effectsOf(spot, "k")).toHaveLength(1);
  });

  it("keep nothing of work that throws, and let the next caller do it", async () => {
    const { spot, keys } = await openWithEffects(store);
    const boom = new Error("boom");
    const fails = (tx: any): any => {
      const after = (): never => {
        throw boom;
      };
      const done = effect(store, "k", 1)(tx);
      return done instanceof Promise ? done.then(after) : after();
    };
    await expect(keys.once("k", { input: 1 }, fails)).rejects.toBe(boom);
    expect(await effectsOf(spot, "k")).toHaveLength(0);
    // Nothing was done with the first input, so another one is as good.
    const next = await keys.once("k", { input: 2 }, effect(store, "k", 2));
    expect(next).toEqual({ result: 2, replayed: false });
    expect(await effectsOf(spot, "k")).toHaveLength(1);
  });

  it("keep nothing of work whose result is not JSON, or too large", async () => {
    const { spot, keys } = await openWithEffects(store, { maxBytes: 100 });
    for (const result of [1n, new Date(), { a: [() => 1] }, NaN]) {
      const attempt = keys.once("k", {}, effect(store, "k", result));
      await expect(attempt).rejects.toThrow(/^result.* must be JSON/);
    }
    const large = keys.once("k", {}, effect(store, "k", "x".repeat(99)));
    await expect(large).rejects.toThrow(RangeError);
    await expect(large).rejects.toThrow(/^result must be at most 100 bytes of JSON/);
    expect(await effectsOf(spot, "k")).toHaveLength(0);
    const fits = await keys.once("k", {}, effect(store, "k", "x".repeat(98)));
    expect(fits.replayed).toBe(false);
  });

  it("tell what is wrong before anything is sent", async () => {
    const spot = await store.fresh();
    const keys = await open(spot);
    await expect(keys.once("", {}, never)).rejects.toThrow(/^key must be 1 to 512 bytes/);
    await expect(keys.once("k", {}, 1 as never)).rejects.toThrow(/^work must be a function/);
    const swapped = keys.once("k", never as never, undefined as never);
    await expect(swapped).rejects.toThrow(/^options must be an object .* the work comes after it/);
    await expect(keys.once("k", { input: 1n }, never)).rejects.toThrow(/^input must be JSON/);
    for (const [option, value] of [
      ["ttl", 0],
      ["ttl", "1d"],
      ["wait", -1],
      ["lease", "1s"],
      ["waits", 1],
    ] as const) {
      const attempt = keys.once("k", { [option]: value }, never);
      await expect(attempt).rejects.toThrow(new RegExp(`^${option} must be`));
    }
    for (const options of [{ maxBytes: 0 }, { max: 1 }, { maxBytes: "1" }]) {
      await expect(open(spot, options)).rejects.toThrow(/^max(Bytes)? must be/);
    }
    if (store.dialect === "sqlite") {
      const late = keys.once("k", {}, (async () => 1) as never);
      await expect(late).rejects.toThrow(/must be synchronous/);
    }
  });

  it("take part in the caller's transaction: both or neither", async () => {
    const { spot, keys } = await openWithEffects(store);
    const text = "INSERT INTO effects (k, who) VALUES ('in', 'tx')";
    const work = (tx: any) => (): any =>
      store.dialect === "sqlite"
        ? (tx.exec(text), "done")
        : (tx.unsafe?.(text) ?? tx.query(text)).then(() => "done");
    const inTransaction = async (fails: boolean): Promise<unknown> =>
      await spot.begin((tx) => {
        const answer: any = keys.within(tx).once("in", { input: 1 }, work(tx));
        const after = (once: unknown): unknown => {
          if (fails) throw new Error("boom");
          return once;
        };
        return store.dialect === "sqlite" ? after(answer) : answer.then(after);
      });
    await expect(inTransaction(true)).rejects.toThrow("boom");
    expect(await effectsOf(spot, "in")).toHaveLength(0);
    expect(await inTransaction(false)).toEqual({ result: "done", replayed: false });
    expect(await inTransaction(false)).toEqual({ result: "done", replayed: true });
    expect(await effectsOf(spot, "in")).toHaveLength(1);
    expect(await keys.once("in", { input: 1 }, never)).toEqual({ result: "done", replayed: true });
    const reused = spot.begin((tx) => keys.within(tx).once("in", { input: 2 }, never));
    await expect(reused).rejects.toThrow(KeyReusedError);
  });

  it("forget results by the store's clock, and remove them", async () => {
    const { spot, keys } = await openWithEffects(store);
    const ahead = await open(spot, { runtime: withWallClockOff(3_600_000) });
    await keys.once("long", { ttl: "10m" }, effect(store, "long", 1));
    await keys.once("short", { ttl: 50 }, effect(store, "short", 1));
    await until(async () => {
      const { replayed } = await ahead.once("short", { ttl: "10m" }, effect(store, "short", 2));
      return !replayed;
    });
    expect(await effectsOf(spot, "short")).toHaveLength(2);
    expect(await ahead.once("long", {}, never)).toEqual({ result: 1, replayed: true });
    for (let i = 0; i < 5; i++) await keys.once(`s${i}`, { ttl: 1 }, effect(store, "s", i));
    await until(async () => {
      await keys.sweep();
      return (await count(spot)) === 2;
    });
    // Each new key takes two old ones away.
    for (let i = 0; i < 10; i++) await keys.once(`t${i}`, { ttl: 1 }, effect(store, "t", i));
    await until(async () => {
      const last = await keys.once("t9", { ttl: "10m" }, effect(store, "t", 10));
      return !last.replayed;
    });
    for (let i = 0; i < 4; i++) await keys.once(`u${i}`, { ttl: "10m" }, effect(store, "u", i));
    expect(await count(spot)).toBe(2 + 1 + 4);
  });

  itRaces(store, "bring 50 processes that race, and die, to one effect and one result", async () => {
    const { spot, keys } = await openWithEffects(store);
    const raced = await race<Answer>({
      program: "idempotency",
      processes: RACERS,
      opening: { do: "open", target: spot.forChildren },
      round: (i) => ({
        do: "once",
        key: `round ${i}`,
        options: { input: { i }, wait: "30s" },
        work: { pauseMs: i % 3 },
      }),
      forMs: RACE_MS,
      dying: 2,
      judge: async (i, answers) => {
        const { result } = await keys.once(`round ${i}`, { input: { i } }, never);
        for (const answer of answers) expect(answer).toMatchObject({ result });
        expect(answers.filter(({ replayed }) => !replayed).length).toBeLessThanOrEqual(1);
        const effects = await effectsOf(spot, `round ${i}`);
        expect(effects).toEqual([result]);
      },
    });
    tell(`idempotency keys on ${store.name}`, raced);
  });

  it("are taken over from a process that is killed at work", async () => {
    const { spot, keys } = await openWithEffects(store);
    const child = startChild("idempotency");
    await child.tell({ do: "open", target: spot.forChildren });
    const lost = child.tell({ do: "once", key: "k", work: { hangs: true } });
    lost.catch(() => undefined);
    await until(() => isAtWork(store, spot, keys));
    await child.kill();
    await expect(lost).rejects.toThrow("ended");
    const next = await keys.once("k", { wait: "5s" }, effect(store, "k", "second"));
    expect(next).toEqual({ result: "second", replayed: false });
    expect(await effectsOf(spot, "k")).toEqual([{ who: "test" }]);
  });

  if (store.dialect === "sqlite") return;

  it("wait for a call that is at work, or tell of it", async () => {
    const { spot, keys } = await openWithEffects(store);
    let finish: (result: string) => void = () => undefined;
    const slow = new Promise<string>((resolve) => (finish = resolve));
    const first = keys.once("k", {}, async (tx) => {
      await effect(store, "k", 1)(tx);
      return await slow;
    });
    await until(() => isAtWork(store, spot, keys));
    const failure = await keys.once("k", { wait: 0 }, never).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(InProgressError);
    expect(failure).toMatchObject({ key: "k", code: "TENURE_IN_PROGRESS", family: "refused" });
    await expect(keys.once("k", { wait: 60 }, never)).rejects.toThrow(InProgressError);
    const waiting = keys.once("k", { wait: "10s" }, never);
    finish("slow");
    expect(await first).toEqual({ result: "slow", replayed: false });
    expect(await waiting).toEqual({ result: "slow", replayed: true });
  });

  it("are taken over from a frozen process, whose effect comes to nothing", async () => {
    const { spot, keys } = await openWithEffects(store);
    const child = startChild("idempotency");
    const { url, options } = spot.forChildren;
    const target = { url, options: { ...options, timeout: "1s" } };
    await child.tell({ do: "open", target });
    const late = child.tell({ do: "once", key: "k", work: { pauseMs: 900 } });
    await until(() => isAtWork(store, spot, keys));
    child.freeze();
    const next = await keys.once("k", { wait: "10s" }, effect(store, "k", "second"));
    expect(next).toEqual({ result: "second", replayed: false });
    child.thaw();
    expect(await late).toMatchObject({ failed: expect.stringMatching(/Unavailable|Unknown/) });
    expect(await effectsOf(spot, "k")).toEqual([{ who: "test" }]);
  });
});

interface Answer {
  readonly result: unknown;
  readonly replayed: boolean;
}

async function count(spot: Spot): Promise<number> {
  const table = spot.dialect === "postgres" ? "idempotency" : "tenure_idempotency";
  const [row] = await spot.query(`SELECT count(*) AS n FROM ${table}`);
  return Number(row!["n"]);
}

/** Whether somebody is at work under the key `k`. */
async function isAtWork(store: Store, spot: Spot, keys: Idempotency<any>): Promise<boolean> {
  if (store.dialect === "sqlite") {
    try {
      const transaction = await spot.openTransaction();
      await transaction.rollback();
      return false;
    } catch (error) {
      return /locked/.test((error as Error).message);
    }
  }
  const table = store.dialect === "postgres" ? "idempotency" : "tenure_idempotency";
  const rows = await spot.query(`SELECT name FROM ${table} WHERE name = 'k'`);
  if (rows.length === 0) return false;
  const failure = await keys.once("k", { wait: 0 }, () => Promise.reject(FREE)).catch((e) => e);
  return failure instanceof InProgressError;
}

const FREE = new Error("nobody is at work");

it("prints the SQL of its table", () => {
  expect(tableSql("postgres", { schema: "x" })).toContain('CREATE TABLE IF NOT EXISTS "x"."idem');
  expect(tableSql("sqlite")).toContain("tenure_idempotency");
  expect(tableSql("mysql")).toContain("ENGINE=InnoDB");
});
