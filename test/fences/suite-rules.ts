import { describe, expect, it } from "vitest";
import {
  OutcomeUnknownError,
  StaleTokenError,
  SupersededError,
  TokenConflictError,
  TokenScopeError,
  UnavailableError,
} from "../../src/core/errors.js";
import type { OpenBench } from "./benches.js";
import { bearer } from "./bearers.js";

/** The six rules, each with the failure that it closes. */
export function ruleSuite<Tx, Read>(bench: OpenBench<Tx, Read>): void {
  describe("rule 1, arm first", () => {
    it("first-write-hole: arming alone refuses the older holder's write", async () => {
      const { arm, value } = await bench();
      const a = await arm(33n);
      await a.put(5);
      const b = await arm(34n);
      expect(await b.get()).toBe(5);
      await expect(a.put(6)).rejects.toThrow(StaleTokenError);
      await b.put(7);
      expect(await value()).toBe(7);
    });

    it("late-packet: a write that was under way when the newer holder armed", async () => {
      const { arm, wire: cable, value } = await bench();
      const a = await arm(33n);
      await a.put(5);
      cable.fault("write", "late");
      await expect(a.put(6)).rejects.toThrow(OutcomeUnknownError);
      const b = await arm(34n);
      await cable.deliver();
      expect(await b.get()).toBe(5);
      await b.put(7);
      await cable.deliver();
      expect(await value()).toBe(7);
    });

    it("refuses stale reads and armings, and tells token, mark and resource", async () => {
      const { arm, fence, events } = await bench();
      const a = await arm(33n, "a");
      await arm(34n, "b");
      const error = await a.get().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(StaleTokenError);
      expect(error).toMatchObject({
        token: 33n,
        mark: { token: 34n, holder: "b" },
        resource: "r",
        lock: "acct:7",
        family: "refused",
      });
      await expect(fence.arm(bearer(33n), "r")).rejects.toThrow(/33 is older than 34/);
      expect(events).toMatchObject([
        { type: "stale-write", operation: "read", token: 33n, mark: 34n, name: "r" },
        { type: "stale-write", operation: "arm", token: 33n, mark: 34n },
      ]);
    });

    it("keeps resources apart", async () => {
      const { arm, value } = await bench();
      const a = await arm(33n, "a", "one");
      await arm(34n, "b", "two");
      await a.put(1);
      expect(await value("one")).toBe(1);
      expect(await value("two")).toBeUndefined();
    });
  });

  describe("rule 2, one holder per token", () => {
    it("token-reissued: the second holder is refused in every mode, loudly", async () => {
      for (const mode of ["reject", "ignore", "log"] as const) {
        const { arm, fence, events } = await bench(mode);
        const a = await arm(34n, "a");
        await expect(fence.arm(bearer(34n, { holder: "b" }), "r")).rejects.toThrow(
          TokenConflictError,
        );
        expect(events).toMatchObject([{ type: "conflict", holder: "b", markHolder: "a" }]);
        await a.put(1);
      }
    });
  });

  describe("rule 3, numbered armings", () => {
    it("ends the older handle of two tasks of one holder", async () => {
      const { arm, value, fence } = await bench();
      const first = await arm(34n, "a");
      await first.put(1);
      const second = await arm(34n, "a");
      expect(await second.get()).toBe(1);
      await expect(first.put(2)).rejects.toThrow(SupersededError);
      await expect(first.get()).rejects.toThrow(SupersededError);
      await second.put(3);
      expect(await value()).toBe(3);
      expect(await fence.mark("r")).toMatchObject({ token: 34n, holder: "a", arm: 2, n: 1 });
    });

    it("lets exactly one of many armings at once stay armed", async () => {
      const { arm } = await bench();
      const all = await Promise.all(Array.from({ length: 8 }, () => arm(34n, "a")));
      const results = await Promise.allSettled(all.map((one) => one.put(1)));
      expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
      const numbers = all.map(({ handle }) => handle.arm).sort();
      expect(numbers).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    });

    it("gives a delayed arming no power over a newer one", async () => {
      const { arm, wire: cable, fence } = await bench();
      cable.fault("arm", "late");
      await expect(fence.arm(bearer(34n, { holder: "a" }), "r")).rejects.toThrow(
        OutcomeUnknownError,
      );
      const a = await arm(34n, "a");
      await cable.deliver();
      await a.put(1);
      const b = await arm(35n, "b");
      await cable.deliver();
      await b.put(2);
    });
  });

  describe("rule 4, numbered writes", () => {
    it("many-writes: accepts all of one holder, also eight at once, in order", async () => {
      const { arm, value, fence } = await bench();
      const a = await arm(34n);
      const sums = await Promise.all([1, 1, 1, 1, 1, 1, 1, 1].map((one) => a.add(one)));
      expect(sums).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
      expect(await value()).toBe(8);
      expect(await fence.mark("r")).toMatchObject({ arm: 1, n: 8 });
    });

    it("does nothing at a duplicated write, nor at one that lands after the next", async () => {
      const { arm, value, wire: cable, subject: { store, put } } = await bench();
      const a = await arm(34n);
      await a.put(1);
      await a.put(2);
      const [, first, second] = cable.sent;
      for (const request of [first!, second!]) {
        const call = { signal: undefined, remainingMs: () => Infinity };
        const ran = await store.write(request, (tx) => put(tx, "r", 99), call);
        expect(ran).toMatchObject({ accepted: false, why: "repeated" });
      }
      expect(await value()).toBe(2);
    });

    it("tells of a write that was sent twice that it was applied, not that it was refused", async () => {
      const { arm, value, wire: cable } = await bench();
      const a = await arm(34n);
      cable.fault("write", "twice");
      await expect(a.put(2)).rejects.toThrow(OutcomeUnknownError);
      expect(await value()).toBe(2);
      expect(await a.add(1)).toBe(3);
    });

    it("does not let a failed write hold up the next", async () => {
      const { arm, value } = await bench();
      const a = await arm(34n);
      const boom = new Error("boom");
      const failed = a.handle.write(() => {
        throw boom;
      });
      const next = a.put(2);
      await expect(failed).rejects.toBe(boom);
      await next;
      expect(await value()).toBe(2);
    });
  });

  describe("rule 5, arming again after an unknown outcome", () => {
    it("own-late-write: the write that timed out cannot land any more", async () => {
      const { arm, value, wire: cable } = await bench();
      const a = await arm(34n);
      await a.put(1);
      cable.fault("write", "late");
      await expect(a.put(2)).rejects.toThrow(OutcomeUnknownError);
      expect(await a.get()).toBe(1);
      await cable.deliver();
      await a.put(3);
      await cable.deliver();
      expect(await value()).toBe(3);
      expect(a.handle.arm).toBe(2);
    });

    it("sees the write whose reply alone was lost", async () => {
      const { arm, wire: cable } = await bench();
      const a = await arm(34n);
      cable.fault("write", "reply");
      await expect(a.put(2)).rejects.toThrow(OutcomeUnknownError);
      expect(await a.get()).toBe(2);
      await a.put(3);
    });

    it("does not end a newer task of the same holder, whose reads would be undone", async () => {
      const { arm, value, wire: cable } = await bench();
      const first = await arm(34n, "a");
      await first.put(5);
      cable.fault("write", "lose");
      await expect(first.put(6)).rejects.toThrow(OutcomeUnknownError);
      const second = await arm(34n, "a");
      expect(await second.get()).toBe(5);
      await second.put(7);
      await expect(first.put(6)).rejects.toThrow(SupersededError);
      await expect(first.get()).rejects.toThrow(SupersededError);
      await second.put(8);
      expect(await value()).toBe(8);
    });

    it.each(["lose", "reply", "late", "unavailable"] as const)(
      "arms again and again until it is answered (%s)",
      async (fault) => {
        const { arm, value, wire: cable } = await bench();
        const a = await arm(34n);
        await a.put(1);
        cable.fault("write", "lose");
        await expect(a.put(2)).rejects.toThrow(OutcomeUnknownError);
        cable.fault("arm", fault);
        cable.fault("arm", fault);
        const error = await a.put(3).catch((thrown: unknown) => thrown);
        // The write was not begun: that is certain, whatever became of the arming.
        expect(error).toBeInstanceOf(UnavailableError);
        if (fault !== "reply") await expect(a.put(3)).rejects.toThrow(UnavailableError);
        expect(await a.get()).toBe(1);
        await cable.deliver();
        await a.put(4);
        expect(await value()).toBe(4);
      },
    );

    it("takes a re-arming that was sent twice for its own", async () => {
      const { arm, value, wire: cable } = await bench();
      const a = await arm(34n);
      cable.fault("write", "reply");
      await expect(a.put(1)).rejects.toThrow(OutcomeUnknownError);
      cable.fault("arm", "twice");
      expect(await a.add(1)).toBe(2);
      expect(a.handle.arm).toBe(2);
      expect(await a.add(1)).toBe(3);
      expect(await value()).toBe(3);
    });

    it("takes a re-arming that lands late, before its repeat, for its own", async () => {
      const { arm, value, wire: cable } = await bench();
      const a = await arm(34n);
      cable.fault("write", "reply");
      await expect(a.put(1)).rejects.toThrow(OutcomeUnknownError);
      cable.fault("arm", "late");
      await expect(a.add(1)).rejects.toThrow(UnavailableError);
      cable.fault("arm", "behind");
      expect(await a.add(1)).toBe(2);
      await cable.deliver();
      expect(await a.add(1)).toBe(3);
      expect(await value()).toBe(3);
    });

    it("takes no other task's arming of the same number for its own", async () => {
      const { arm, fence, wire: cable } = await bench();
      const first = await arm(34n, "a");
      cable.fault("arm", "late");
      const second = fence.arm(bearer(34n, { holder: "a" }), "r");
      await expect(second).rejects.toThrow(OutcomeUnknownError);
      cable.fault("write", "lose");
      await expect(first.put(1)).rejects.toThrow(OutcomeUnknownError);
      // The other task's arming lands just before, and each has number 2.
      cable.fault("arm", "behind");
      await expect(first.put(1)).rejects.toThrow(SupersededError);
      await expect(first.get()).rejects.toThrow(SupersededError);
      expect(await fence.mark("r")).toMatchObject({ arm: 2, n: 0 });
    });

    it("does not mistake a newer task's arming for its own lost one", async () => {
      const { arm, wire: cable } = await bench();
      const first = await arm(34n, "a");
      await first.put(1);
      cable.fault("write", "lose");
      await expect(first.put(2)).rejects.toThrow(OutcomeUnknownError);
      cable.fault("arm", "lose");
      await expect(first.put(2)).rejects.toThrow(UnavailableError);
      const second = await arm(34n, "a");
      expect(second.handle.arm).toBe(2);
      await expect(first.put(2)).rejects.toThrow(SupersededError);
      await second.put(9);
    });

    it("takes a failed read for what it is: nothing happened", async () => {
      const { arm, wire: cable } = await bench();
      const a = await arm(34n);
      cable.fault("read", "lose");
      await expect(a.get()).rejects.toThrow(UnavailableError);
      await a.put(1);
      expect(a.handle.arm).toBe(1);
    });
  });

  describe("rule 6, one scope", () => {
    it.each([
      { storeId: "store-2" },
      { name: "acct:8" },
    ])("refuses a token of another scope %o, and tells how to move", async (more) => {
      const { arm, fence } = await bench();
      const a = await arm(34n);
      const foreign = bearer(99n, more);
      const error = await fence.arm(foreign, "r").catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(TokenScopeError);
      const to = `{ storeId: "${foreign.storeId}", name: "${foreign.name}" }`;
      expect((error as Error).message).toContain(`fence.rebase("r", { to: ${to}, reason:`);
      await a.put(1);
    });

    it("moves by rebase, and never lowers a mark", async () => {
      const { arm, fence, events, value } = await bench();
      const a = await arm(34n, "a");
      await a.put(1);
      const moved = bearer(5n, { storeId: "store-2" });
      const mark = await fence.rebase("r", { to: moved, reason: "new store" });
      expect(mark).toMatchObject({ scope: { storeId: "store-2", name: "acct:7" }, token: 5n });
      await expect(a.put(2)).rejects.toThrow(TokenScopeError);
      const b = await fence.arm(moved, "r");
      expect(await b.read((tx) => [tx].length)).toBe(1);
      await fence.rebase("r", { to: { storeId: "store-1", name: "acct:7" }, reason: "back" });
      await expect(a.put(3)).rejects.toThrow(SupersededError);
      await expect(arm(33n)).rejects.toThrow(StaleTokenError);
      await (await arm(35n)).put(4);
      expect(await value()).toBe(4);
      const rebased = events.filter(({ type }) => type === "rebased");
      expect(rebased).toMatchObject([{ reason: "new store" }, { reason: "back" }]);
    });

    it("says nothing and changes nothing when it is there already", async () => {
      const { arm, fence, events } = await bench();
      await (await arm(34n, "a")).put(1);
      const before = await fence.mark("r");
      const again = await fence.rebase("r", {
        to: { storeId: "store-1", name: "acct:7" },
        reason: "twice",
      });
      expect(again).toEqual(before);
      expect(events).toEqual([]);
    });
  });
}
