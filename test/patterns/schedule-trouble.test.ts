/** What a schedule makes of whatever its work and its `onError` throw. */
import { expect, it } from "vitest";
import { schedule } from "../../src/schedule/open.js";
import { onStores } from "./stores.js";
import { until } from "./until.js";

onStores(
  "a schedule in trouble",
  (store) => {
    it("does not run work again that threw something without text", async () => {
      const spot = await store.fresh();
      const begun: number[] = [];
      const work = ({ fireMs }: { fireMs: number }): never => {
        begun.push(fireMs);
        throw Object.create(null);
      };
      const one = await spot.open((target, more) =>
        schedule(target, "job", "* * * * * *", work, { ...more, lease: "200ms" }),
      );
      await until(() => begun.length >= 2);
      const first = (await one.history()).at(-1);
      const reason = "failed with something that has no text";
      expect(first).toMatchObject({ fireMs: begun[0], state: "failed", tries: 1, reason });
      await one.close();
      expect(new Set(begun).size).toBe(begun.length);
    });

    it("ends with what `onError` throws, once the run is recorded", async () => {
      const spot = await store.fresh();
      const work = (): never => {
        throw new Error("no paper");
      };
      const onError = (): never => {
        throw new Error("enough");
      };
      const one = await spot.open((target, more) =>
        schedule(target, "job", "* * * * * *", work, { ...more, onError }),
      );
      await expect(one.ended).rejects.toThrow("enough");
      const failed = { state: "failed", tries: 1, reason: "Error: no paper" };
      expect(await one.history()).toMatchObject([failed]);
      await expect(one.history(5 as any)).rejects.toThrow(/^options must be an object/);
    });
  },
  ["sqlite", "pg"],
);
