import { describe, expect, it } from "vitest";
import type { MarkRecord } from "../../../src/fences/decide.js";
import { pastFromJson, recordFromJson, recordToJson } from "../../../src/fences/record.js";
import { parseToken } from "../../../src/core/token.js";

const scope = { storeId: "store", name: "report" };
const mark: MarkRecord = {
  ...{ scope, token: parseToken("34"), holder: "h", arm: 1, n: 7 },
  past: [{ scope, token: parseToken("12"), holder: "g", arm: 2, reason: "moved" }],
};
const json = (): Record<string, unknown> =>
  JSON.parse(JSON.stringify(recordToJson(mark))) as Record<string, unknown>;

describe("a mark kept as JSON", () => {
  it("is read as it was written", () => {
    expect(recordFromJson(json())).toEqual(mark);
  });

  it.each<[string, unknown, string]>([
    ["token", "-1", "is decimal digits"],
    ["token", "34.0", "is decimal digits"],
    ["token", "", "is decimal digits"],
    ["token", 34, "token is not text"],
    ["holder", 5, "holder is not text"],
    ["arm", -1, "arm is not a whole number"],
    ["arm", 1.5, "arm is not a whole number"],
    ["arm", "1", "arm is not a whole number"],
    ["n", -1, "n is not a whole number"],
    ["n", 2 ** 53, "n is not a whole number"],
    ["n", undefined, "n is not a whole number"],
    ["past", {}, "past is not a list"],
    ["past", "[]", "past is not a list"],
    ["past", undefined, "past is not a list"],
    ["past", [null], "past mark is not an object"],
    ["scope", null, "scope is not an object"],
    ["scope", { name: "report" }, "storeId"],
  ])("is refused when damaged: %s %j", (field, value, what) => {
    expect(() => recordFromJson({ ...json(), [field]: value })).toThrow(what);
  });

  it("takes nothing for its past that only looks like a list", () => {
    expect(() => pastFromJson({ map: () => [] })).toThrow("past is not a list");
  });
});
