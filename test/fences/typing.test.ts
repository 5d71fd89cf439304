import { describe, expect, expectTypeOf, it } from "vitest";
import type { FencingToken } from "../../src/core/token.js";
import type { Applied, OnStale } from "../../src/fences/contract.js";
import { armAll, memoryFence, type ArmedHandle, type Cell, type ReadCell } from "../../src/fences/memory/open.js";
import { bearer } from "./bearers.js";

describe("types of a fence", () => {
  it("take no lease without a token", async () => {
    const { name, holder, storeId } = bearer(1);
    const tokenless = { name, holder, storeId, token: undefined as FencingToken | undefined };
    // @ts-expect-error -- a lease of a store without tokens
    await expect(memoryFence().arm(tokenless, "r")).rejects.toThrow(TypeError);
    // @ts-expect-error -- a lease that nobody awaited
    const early = memoryFence().arm(Promise.resolve(bearer(1)), "r");
    await expect(early).rejects.toThrow(/bearer must be a lease.*is an await missing/);
    // @ts-expect-error -- a token as it is kept in a file
    const text = memoryFence().arm({ ...bearer(1), token: "1" }, "r");
    await expect(text).rejects.toThrow(/token must be a bigint \(parseToken/);
    // @ts-expect-error -- a bigint that no store handed out
    await memoryFence().arm({ ...bearer(1), token: 1n }, "r");
  });

  it("say what a write resolves to in each mode", async () => {
    const rejecting = await memoryFence<number>().arm(bearer(1), "r");
    expectTypeOf(await rejecting.write((cell) => (cell.set(1), "x"))).toEqualTypeOf<string>();
    expectTypeOf(await rejecting.read((cell) => cell.get())).toEqualTypeOf<number | undefined>();

    const ignoring = await memoryFence<number, "ignore">({ onStale: "ignore" }).arm(bearer(1), "r");
    const outcome = await ignoring.write(() => 7);
    expectTypeOf(outcome).toEqualTypeOf<Applied<number>>();
    if (outcome.applied) expectTypeOf(outcome.result).toEqualTypeOf<number>();

    const onStale = "log" as OnStale;
    const either = await memoryFence({ onStale }).arm(bearer(1), "r");
    expectTypeOf(await either.write(() => 7)).toEqualTypeOf<number | Applied<number>>();
  });

  it("keep the kind of each handle through armAll", async () => {
    const [numbers, texts] = [memoryFence<number>(), memoryFence<string>()];
    const handles = await armAll(bearer(1), [numbers.resource("n"), texts.resource("t")]);
    expectTypeOf(handles[0]).toEqualTypeOf<ArmedHandle<Cell<number>, ReadCell<number>, "reject">>();
    expectTypeOf(handles[1]).toEqualTypeOf<ArmedHandle<Cell<string>, ReadCell<string>, "reject">>();
    expect(handles.map(({ resource }) => resource)).toEqual(["n", "t"]);
  });

  it("refuse an unknown mode", () => {
    // @ts-expect-error -- none of the three
    expect(() => memoryFence({ onStale: "warn" })).toThrow(TypeError);
  });
});
