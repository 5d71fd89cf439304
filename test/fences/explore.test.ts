import { describe, expect, it } from "vitest";
import { ALL_RULES, explore, type Rules, type Task } from "../../src/lab/explore/explore.js";

const old: Task = { token: 33n, holder: "a" };
const newer: Task = { token: 34n, holder: "b" };
const twin: Task = { token: 33n, holder: "b" };

const worlds = {
  "one task": [old],
  "two holders, one after the other": [old, newer],
  "two tasks of one holder": [old, old],
  "one token given to two holders": [old, twin],
} as const satisfies Readonly<Record<string, readonly Task[]>>;
type World = keyof typeof worlds;

function without(...rules: readonly (keyof Rules)[]): Rules {
  return { ...ALL_RULES, ...Object.fromEntries(rules.map((rule) => [rule, false])) };
}

describe("the fence protocol, in every order of events", () => {
  it.each(Object.entries(worlds))("loses no update, and never refuses who armed last: %s", (_, tasks) => {
    const { lost, refused, states } = explore(tasks, ALL_RULES, { duplicates: 1, timeouts: 2 });
    expect(refused).toBeNull();
    expect(lost).toBeNull();
    expect(states).toBeGreaterThan(400);
  });

  it("refuses who armed last without knowing its own copy, by its own mark", () => {
    const rules = without("knowOwnCopy");
    const { lost, refused } = explore([old], rules, { duplicates: 1, timeouts: 1 });
    expect(lost).toBeNull();
    expect(refused?.slice(-2)).toEqual([
      "arm 2/10 of 0 arrives: accepted, no answer",
      "arm 2/10 of 0 arrives: refused",
    ]);
  });

  it("first-write-hole: without arming, a write lands between a read and the first write", () => {
    const tasks = worlds["two holders, one after the other"];
    const { lost } = explore(tasks, without("armFirst"), { duplicates: 0, timeouts: 0 });
    expect(lost?.at(-1)).toBe("write 0/1 of 1 arrives: accepted, no answer");
    expect(lost?.at(-2)).toBe("write 0/1 of 0 arrives: accepted, no answer");
    expect(lost).toContain("read 0/0 of 1 arrives: accepted");
    const armed = explore(tasks, ALL_RULES, { duplicates: 0, timeouts: 0 });
    expect(armed.lost).toBeNull();
  });

  it.each<[World, readonly (keyof Rules)[]]>([
    ["two tasks of one holder", ["numberedArmings"]],
    ["one task", ["numberedWrites"]],
    ["one task", ["rearm"]],
    ["two tasks of one holder", ["rearmBehindOwn"]],
    // Numbered armings would keep two holders of one token apart, silently; this rule is loud.
    ["one token given to two holders", ["sameHolder", "numberedArmings"]],
  ])("loses one, %s, without %j", (world, rules) => {
    const { lost } = explore(worlds[world], without(...rules), { duplicates: 1, timeouts: 1 });
    expect(lost?.at(-1)).toMatch(/^write .* accepted/);
  });

  it("keeps two holders of one token apart by the holder alone", () => {
    const tasks = worlds["one token given to two holders"];
    const { lost } = explore(tasks, without("numberedArmings"), { duplicates: 1, timeouts: 0 });
    expect(lost).toBeNull();
  });
});
