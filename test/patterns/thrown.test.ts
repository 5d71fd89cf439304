/** That work may throw whatever it likes. */
import { expect, it } from "vitest";
import { claims } from "../../src/claims/open.js";
import { onStores } from "./stores.js";

onStores("work in a transaction", (store) => {
  it.each([undefined, null, "text", 0])("has %s, that it throws, told as it is", async (thrown: unknown) => {
    const spot = await store.fresh();
    const c: any = await spot.open((target, more) => claims(target, more));
    const fail = (tx: any): unknown => {
      const claimed: unknown = c.within(tx).claim("job", "me");
      if (store.dialect !== "sqlite") {
        return (claimed as Promise<unknown>).then(() => Promise.reject(thrown));
      }
      throw thrown;
    };
    const told = await c.transaction(fail).then(
      () => "nothing",
      (error: unknown) => ({ error }),
    );
    expect(told).toEqual({ error: thrown });
    expect(await c.inspect("job")).toBeNull();
  });
});
