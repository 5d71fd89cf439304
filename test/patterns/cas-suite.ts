/** What compare-and-swap does on every store. */
import { expect, it } from "vitest";
import { ConflictError, type Cas } from "../../src/cas/open.js";
import { startChild } from "./children.js";
import { RACE_TIMEOUT_MS, tell, WRITES } from "./race-size.js";
import type { ChildTarget } from "./stores.js";

/** One place in a store, for one test. */
export interface CasSpot {
  open(options?: object): Promise<Cas>;
  readonly forChildren: ChildTarget;
}

const PROCESSES = 10;
const WRITERS = 5;

/** Defines the tests. */
export function casSuite(name: string, fresh: () => Promise<CasSpot>): void {
  it("writes only over the version that was read", async () => {
    const values = await (await fresh()).open();
    expect(await values.read("k")).toBeNull();
    const first = await values.write("k", { n: [1, null, "é😀"] }, { version: null });
    expect(await values.read("k")).toEqual({ value: { n: [1, null, "é😀"] }, version: first });
    const failure = await values.write("k", 2, { version: null }).catch((e: unknown) => e);
    expect(failure).toBeInstanceOf(ConflictError);
    expect(failure).toMatchObject({ key: "k", version: first, attempts: 1, family: "refused" });
    const second = await values.write("k", 2, { version: first });
    expect(second).toBeGreaterThan(first);
    for (const version of [first, second + 1n, null]) {
      await expect(values.write("k", 3, { version })).rejects.toMatchObject({ version: second });
    }
    await expect(values.write("other", 3, { version: second })).rejects.toMatchObject({
      version: null,
    });
    expect(await values.read("k")).toEqual({ value: 2, version: second });
    expect(await values.read("other")).toBeNull();
  });

  it("changes again what another has written meanwhile, and gives up with the version", async () => {
    const values = await (await fresh()).open();
    const seen: unknown[] = [];
    const updated = await values.update<number>("k", async (n) => {
      seen.push(n);
      if (n === undefined) await values.write("k", 10, { version: null });
      return (n ?? 0) + 1;
    });
    expect(seen).toEqual([undefined, 10]);
    expect(updated).toMatchObject({ value: 11, attempts: 2 });
    expect(await values.read("k")).toEqual({ value: 11, version: updated.version });
    let version = updated.version;
    const failure = await values
      .update<number>(
        "k",
        async (n) => {
          version = await values.write("k", n! + 1, { version });
          return 0;
        },
        { attempts: 3 },
      )
      .catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(ConflictError);
    expect(failure).toMatchObject({ version, attempts: 3, key: "k" });
    expect(await values.read("k")).toEqual({ value: 14, version });
  });

  it("ends with the caller's signal, or with what the change throws", async () => {
    const values = await (await fresh()).open();
    const boom = new Error("boom");
    const fails = values.update("k", () => Promise.reject(boom));
    await expect(fails).rejects.toBe(boom);
    await expect(values.update("k", () => 1, { signal: AbortSignal.abort(boom) })).rejects.toBe(
      boom,
    );
    const hanging = new AbortController();
    const hangs = values.update(
      "k",
      () => {
        queueMicrotask(() => hanging.abort(boom));
        return new Promise(() => undefined);
      },
      { signal: hanging.signal },
    );
    await expect(hangs).rejects.toBe(boom);
    const controller = new AbortController();
    const aborted = values.update(
      "k",
      () => {
        controller.abort(boom);
        return 1;
      },
      { signal: controller.signal },
    );
    await expect(aborted).rejects.toBe(boom);
    expect(await values.read("k")).toBeNull();
  });

  it("tells what is wrong, and writes nothing", async () => {
    const spot = await fresh();
    const values = await spot.open({ maxBytes: 20 });
    const wrong = async (option: string, call: () => Promise<unknown>): Promise<void> => {
      await expect((async () => await call())()).rejects.toThrow(new RegExp(`^${option} must be`));
    };
    await wrong("key", () => values.read(""));
    await wrong("key", () => values.update("\0", () => 1));
    await wrong("version", () => values.write("k", 1, {} as never));
    await wrong("version", () => values.write("k", 1, { version: 1 as never }));
    await wrong("value", () => values.write("k", 1n, { version: null }));
    await wrong("value", () => values.write("k", "x".repeat(20), { version: null }));
    await wrong("value", () => values.update("k", () => undefined));
    await wrong("value", () => values.update("k", () => new Date() as unknown));
    await wrong("change", () => values.update("k", 1 as never));
    for (const attempts of [0, -1, 1.5, NaN, "3"]) {
      await wrong("attempts", () => values.update("k", () => 1, { attempts: attempts as never }));
    }
    await wrong("signal", () => values.update("k", () => 1, { signal: 1 as never }));
    await wrong("tries", () => values.update("k", () => 1, { tries: 1 } as never));
    await wrong("maxBytes", () => spot.open({ maxBytes: -1 }));
    await wrong("ttl", () => spot.open({ ttl: 1 }));
    await wrong("runtimes", () => spot.open({ runtimes: 1 }));
    expect(await values.read("k")).toBeNull();
    await values.close();
    await expect(values.read("k")).rejects.toMatchObject({ family: "unavailable" });
  });

  it(
    "loses none of the writes of 50 writers, whose clocks are wrong",
    async () => {
      const spot = await fresh();
      const values = await spot.open();
      const children = await Promise.all(
        Array.from({ length: PROCESSES }, async () => {
          const child = startChild("cas");
          // On a busy machine a SQLite file, which serves nobody in turn, can be taken for long.
          const { url, options } = spot.forChildren;
          const target = { url, options: { ...options, timeout: "60s" } };
          await child.tell({ do: "open", target });
          return child;
        }),
      );
      const order = { do: "count", key: "n", writers: WRITERS, times: WRITES };
      const beganMs = performance.now();
      const counted = await Promise.all(children.map((child) => child.tell(order)));
      const tookMs = Math.round(performance.now() - beganMs);
      const all = PROCESSES * WRITERS * WRITES;
      expect((await values.read("n"))!.value).toBe(all);
      const attempts = counted.reduce((sum, { attempts: some }) => sum + some, 0);
      expect(attempts).toBeGreaterThanOrEqual(all);
      tell(`compare-and-swap on ${name}`, { all, attempts, tookMs });
    },
    RACE_TIMEOUT_MS,
  );
}
