import { describe, expect, test } from "vitest";
import { ALL_RULES, explore, type Rules, type Task } from "../../src/lab/explore/explore.js";

const [a, b]: readonly [Task, Task] = [
  { token: 33n, holder: "a1" },
  { token: 34n, holder: "b1" },
];
const [aAgain, bAgain]: readonly [Task, Task] = [
  { token: 35n, holder: "a2" },
  { token: 36n, holder: "b2" },
];
/** The same token once more, from a store that handed it out twice. */
const twin: Task = { token: 33n, holder: "b1" };

const ONE_COPY = { duplicates: 1, timeouts: 0 };
const ONE_OF_EACH = { duplicates: 1, timeouts: 1 };

/** Each task writes twice. */
const WORLDS = {
  "two clients, two grants each": { tasks: [a, b, aAgain, bAgain], limits: ONE_COPY },
  "three grants, and a lost answer": { tasks: [a, b, aAgain], limits: ONE_OF_EACH },
  "two tasks of one holder, then the next": { tasks: [a, a, b], limits: ONE_OF_EACH },
  "one token twice, then the next": { tasks: [a, twin, b], limits: ONE_OF_EACH },
} as const;
type World = keyof typeof WORLDS;

function look(world: World, rules: Rules): ReturnType<typeof explore> {
  const { tasks, limits } = WORLDS[world];
  return explore(tasks, rules, limits);
}

describe("every order of events at one fenced value", () => {
  test("loses no update while all rules hold, and never refuses who armed last", () => {
    let states = 0;
    for (const world of Object.keys(WORLDS) as World[]) {
      const seen = look(world, ALL_RULES);
      expect(seen.lost, world).toBeNull();
      expect(seen.refused, world).toBeNull();
      expect(seen.states, world).toBeGreaterThan(10_000);
      process.stdout.write(`${world}: ${seen.states} states, no lost update\n`);
      states += seen.states;
    }
    expect(states).toBeGreaterThan(200_000);
  });

  test.each<[without: readonly (keyof Rules)[], world: World]>([
    [["armFirst"], "two clients, two grants each"],
    [["numberedArmings"], "two tasks of one holder, then the next"],
    [["numberedWrites"], "three grants, and a lost answer"],
    [["rearm"], "three grants, and a lost answer"],
    [["rearmBehindOwn"], "two tasks of one holder, then the next"],
    // The numbers of armings would keep two holders of one token apart, silently.
    [["sameHolder", "numberedArmings"], "one token twice, then the next"],
  ])("loses one without %j: %s", (without, world) => {
    const rules = { ...ALL_RULES, ...Object.fromEntries(without.map((rule) => [rule, false])) };
    const { lost, states } = look(world, rules);
    expect(lost?.at(-1)).toMatch(/^write .* accepted/);
    process.stdout.write(`without ${without.join()}: ${lost!.length} steps, ${states} states\n`);
  });
});
