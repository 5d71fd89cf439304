import { describe, expect, it } from "vitest";
import { canonicalJson, jsonText } from "../../../src/core/json.js";

describe("values as JSON", () => {
  it("keeps what JSON keeps", () => {
    const kept = ["", "é😀\u0000", "\ud800", 0, -1.5, 1e300, true, null, [], {}, [[{ a: [null] }]]];
    for (const value of kept) expect(JSON.parse(jsonText(value, "v"))).toEqual(value);
    expect(jsonText({ a: undefined, b: 1 }, "v")).toBe('{"b":1}');
    expect(jsonText(Object.create(null), "v")).toBe("{}");
  });

  it("names the place of what it would change", () => {
    const cycle: { self?: unknown } = {};
    cycle.self = cycle;
    for (const [value, place] of [
      [undefined, "v"],
      [{ a: [1, () => 1] }, "v.a[1]"],
      [{ a: 1n }, "v.a"],
      [[NaN], "v[0]"],
      [[Infinity], "v[0]"],
      [[undefined], "v[0]"],
      // A hole would come back as null.
      [new Array(1), "v[0]"],
      [{ at: new Date(0) }, "v.at"],
      [new Map(), "v"],
      [Symbol("x"), "v"],
      [cycle, "v.self"],
      [{ toJSON: () => 1 }, "v.toJSON"],
    ] as const) {
      const attempt = (): unknown => jsonText(value, "v");
      expect(attempt).toThrow(TypeError);
      expect(attempt).toThrow(`${place} must be`);
      expect(() => canonicalJson(value, "v")).toThrow(`${place} must be`);
    }
  });

  it("bounds the bytes, and the depth", () => {
    expect(jsonText("é", "v", 4)).toBe('"é"');
    expect(() => jsonText("éé", "v", 4)).toThrow(/^v must be at most 4 bytes of JSON.*6 bytes/);
    expect(() => jsonText("éé", "v", 4)).toThrow(RangeError);
    let deep: unknown = 1;
    for (let i = 0; i < 100_000; i++) deep = [deep];
    expect(() => jsonText(deep, "v")).toThrow(/at most 200 levels/);
  });

  it("has one text for all equal values", () => {
    const a = { b: [1, { d: undefined, c: "x" }], a: null, 10: 1, 9: 2 };
    const b = { 9: 2, 10: 1, a: null, b: [1.0, { c: "x" }] };
    expect(canonicalJson(a, "v")).toBe(canonicalJson(b, "v"));
    expect(canonicalJson(a, "v")).toBe('{"10":1,"9":2,"a":null,"b":[1,{"c":"x"}]}');
    expect(canonicalJson([1, 2], "v")).not.toBe(canonicalJson([2, 1], "v"));
    expect(canonicalJson("1", "v")).not.toBe(canonicalJson(1, "v"));
  });
});
