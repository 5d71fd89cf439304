import { describe, expect, it } from "vitest";
import {
  ArgumentTypeError,
  LeaseLostError,
  NotArmedError,
  StaleTokenError,
} from "../../src/core/errors.js";
import type { FencingToken } from "../../src/core/token.js";
import { armAll } from "../../src/fences/arm-all.js";
import type { Fence } from "../../src/fences/contract.js";
import { benches, type Account, type Subject } from "./benches.js";
import { bearer } from "./bearers.js";
import { ruleSuite } from "./suite-rules.js";

export type { Subject } from "./benches.js";

/** What every fence must do, whatever its store. */
export function fenceSuite<Tx, Read>(subject: Subject<Tx, Read>): void {
  const bench = benches(subject);
  ruleSuite(bench);

  describe("a stale write", () => {
    it("throws, or says that it was not applied; no mode applies it", async () => {
      for (const mode of ["ignore", "log"] as const) {
        const { arm, value, events } = await bench(mode);
        const a = await arm(33n);
        expect(await a.add(5)).toEqual({ applied: true, result: 5 });
        await arm(34n);
        expect(await a.put(6)).toMatchObject({ applied: false, stale: { token: 33n } });
        await expect(a.get()).rejects.toThrow(StaleTokenError);
        expect(await value()).toBe(5);
        const types = events.map(({ type }) => type);
        const reads = ["stale-write"];
        expect(types).toEqual(
          mode === "log" ? ["stale-write", "warning", ...reads] : ["stale-write", ...reads],
        );
      }
    });
  });

  describe("tokens and names", () => {
    it("token-encoding: compares tokens as numbers, exactly", async () => {
      const edges = [9n, 10n, 2n ** 31n - 1n, 2n ** 31n, 2n ** 53n, 2n ** 53n + 1n, 2n ** 63n - 1n];
      const { arm, fence } = await bench();
      let older: Account<Tx, Read, "reject"> | undefined;
      for (const token of edges) {
        const account = await arm(token);
        await account.put(1);
        expect((await fence.mark("r"))?.token).toBe(token);
        if (older !== undefined) await expect(older.put(2)).rejects.toThrow(StaleTokenError);
        older = account;
      }
    });

    it.each([undefined, null, 34, "34", 0n, -1n, 2n ** 63n])("takes no token %o", async (token) => {
      const { fence } = await bench();
      const lease = { ...bearer(1n), token: token as FencingToken };
      const error = await fence.arm(lease, "r").catch((thrown: unknown) => thrown);
      const kind = typeof token === "bigint" ? RangeError : TypeError;
      expect(error).toBeInstanceOf(kind);
      expect(error).toMatchObject({ option: "token" });
      expect(await fence.mark("r")).toBeNull();
    });

    it("keeps odd names apart, and refuses those out of bounds", async () => {
      const names = ["a", "ab", "a/b", "A", " ", "é", "e\u0301", "..", "'", '"', "x".repeat(512)];
      const { arm, fence } = await bench();
      for (const [index, name] of names.entries()) {
        await (await arm(BigInt(index + 1), `h${index}`, name)).put(index);
      }
      for (const [index, name] of names.entries()) {
        expect((await fence.mark(name))?.token).toBe(BigInt(index + 1));
      }
      for (const name of ["", "a\0b", "x".repeat(513), 7 as unknown as string]) {
        await expect(fence.arm(bearer(1n), name)).rejects.toMatchObject({ option: "resource" });
      }
    });

    it("borrowed-token: keeps the token it was armed with", async () => {
      const { fence } = await bench();
      const lease = { ...bearer(33n) };
      const handle = await fence.arm(lease, "r");
      await fence.arm(bearer(34n), "r");
      lease.token = bearer(99n).token;
      expect(handle.token).toBe(33n);
      await expect(handle.write(() => 1)).rejects.toThrow(StaleTokenError);
    });
  });

  describe("an ended lease", () => {
    it("begins nothing once the signal is aborted, and throws the signal's reason", async () => {
      const { fence, wire: cable } = await bench();
      const abort = new AbortController();
      const lease = bearer(34n, { signal: abort.signal });
      const handle = await fence.arm(lease, "r");
      const first = handle.write(() => 1);
      const second = handle.write(() => 2);
      const reason = new LeaseLostError("over", { reason: "deadline" });
      await first;
      abort.abort(reason);
      const sent = cable.sent.length;
      await Promise.allSettled([second]);
      await expect(handle.write(() => 3)).rejects.toBe(reason);
      await expect(handle.read(() => 3)).rejects.toBe(reason);
      await expect(fence.arm(lease, "other")).rejects.toBe(reason);
      expect(cable.sent.slice(sent).filter(({ op }) => op !== "write")).toEqual([]);
      expect(await fence.mark("other")).toBeNull();
    });
  });

  describe("several resources", () => {
    it("two-resources: armed together, neither takes the stale write", async () => {
      const { fence, arm } = await bench();
      const old = await Promise.all([arm(33n, "a", "one"), arm(33n, "a", "two")]);
      const handles = await fence.armAll(bearer(34n), ["one", "two"]);
      expect(handles.map(({ resource }) => resource)).toEqual(["one", "two"]);
      for (const account of old) await expect(account.put(1)).rejects.toThrow(StaleTokenError);
    });

    it("hands out none when one refuses, and arms no further", async () => {
      const { fence, arm } = await bench();
      await arm(40n, "a", "two");
      const armed = fence.armAll(bearer(34n), ["one", "two", "three"]);
      await expect(armed).rejects.toThrow(StaleTokenError);
      expect(await fence.mark("one")).toMatchObject({ token: 34n });
      expect(await fence.mark("three")).toBeNull();
    });

    it("spans two stores", async () => {
      const one = await bench();
      const two = await bench();
      const lease = bearer(34n);
      const targets = [one.fence.resource("r"), two.fence.resource("r")] as const;
      const [a, b] = await armAll(lease, targets);
      await a.write(() => 1);
      await b.write(() => 2);
      expect(await two.fence.mark("r")).toMatchObject({ token: 34n, n: 1 });
    });

    it("refuses to arm one resource twice, before arming any", async () => {
      const { fence } = await bench();
      await expect(fence.armAll(bearer(1n), ["x", "x"])).rejects.toThrow(TypeError);
      expect(await fence.mark("x")).toBeNull();
    });
  });

  describe("the work", () => {
    it("leaves nothing behind when it throws, and the mark as it was", async () => {
      const { arm, value, fence, subject: { put } } = await bench();
      const a = await arm(34n);
      await a.put(1);
      const before = await fence.mark("r");
      const work = (tx: Tx): never => {
        put(tx, "r", 2);
        throw new RangeError("no");
      };
      await expect(a.handle.write(work)).rejects.toThrow(RangeError);
      expect(await value()).toBe(1);
      expect(await fence.mark("r")).toEqual(before);
    });

    it("cannot use its transaction once it has ended", async () => {
      const { arm, value, subject: { put } } = await bench();
      const a = await arm(34n);
      let kept: Tx | undefined;
      await a.handle.write((tx) => {
        put(tx, "r", 1);
        kept = tx;
      });
      expect(() => put(kept as Tx, "r", 2)).toThrow(/ended/);
      expect(await value()).toBe(1);
    });

    it.runIf(subject.work === "sync")("must be synchronous: nothing awaits it", async () => {
      const { arm, value, subject: { store, put } } = await bench();
      expect(store.work).toBe("sync");
      const a = await arm(34n);
      const error = await a.handle
        .write(async (tx) => {
          put(tx, "r", 5);
          await Promise.resolve();
          put(tx, "r", 6);
        })
        .catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(ArgumentTypeError);
      expect(await value()).toBeUndefined();
      await a.put(7);
      expect(a.handle.arm).toBe(1);
    });

    it("must be a function", async () => {
      const { arm } = await bench();
      const a = await arm(34n);
      expect(() => a.handle.write(5 as never)).toThrow(TypeError);
    });
  });

  it.each<[option: string, call: (fence: Fence<Tx, Read>) => Promise<unknown>]>([
    ["resources", (fence) => fence.armAll(bearer(1n), undefined as never)],
    ["resources", (fence) => fence.armAll(bearer(1n), "ab" as never)],
    ["options", (fence) => fence.rebase("r", undefined as never)],
    ["reason", (fence) => fence.rebase("r", {} as never)],
    ["to", (fence) => fence.rebase("r", { to: "x" as never, reason: "moved" })],
    ["storeId", (fence) => fence.rebase("r", { to: {} as never, reason: "moved" })],
  ])("names the argument that is wrong: %s (%#)", async (option, call) => {
    const { fence } = await bench();
    await expect(call(fence)).rejects.toMatchObject({ family: "caller", option });
    expect(await fence.mark("r")).toBeNull();
  });

  it("mark-lost: refuses what the mark does not know, and takes no write unarmed", async () => {
    const { arm, events, subject: opened } = await bench();
    const a = await arm(33n);
    await opened.loseMark("r");
    await expect(a.put(1)).rejects.toThrow(NotArmedError);
    expect(events).toMatchObject([{ type: "warning", name: "r" }]);
  });
}
