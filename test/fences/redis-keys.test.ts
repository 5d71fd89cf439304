import { describe, expect, it } from "vitest";
import { slotOf } from "../../src/backends/redis/keys.js";
import { dataKey, DEFAULT_PREFIX, lowKey, markKey } from "../../src/fences/redis/keys.js";

/** What keys are made of, and what looks like it. */
const PIECES = [
  "{x}", "{", "}", ":", ":low", "low", ":v", ":v:", "v:x", ":t:", ":u:", ":e", "x", "%", "%3A", "%7D",
];

function* names(pieces: number): Generator<string> {
  if (pieces === 0) yield "";
  else for (const name of names(pieces - 1)) for (const piece of PIECES) yield name + piece;
}

const NAMES = new Set([...names(1), ...names(2), ...names(3), ...names(4)]);
/** Ends with the beginning of all data keys of a name: they may go on with anything. */
const DATA = dataKey("", "");

/** Keys that one name uses and that are, or may be, another's, too. */
function shared(all: Iterable<string>, keyOf: (name: string) => string): string[] {
  const owners = new Map<string, string>();
  const areas = new Map<string, string>();
  const found: string[] = [];
  for (const name of all) {
    const mark = keyOf(name);
    const area = dataKey(mark, "");
    for (const key of [mark, lowKey(mark), area]) {
      const owner = owners.get(key);
      if (owner !== undefined) found.push(`${key} of ${owner} and of ${name}`);
      owners.set(key, name);
    }
    areas.set(area, name);
  }
  for (const [key, name] of owners) {
    for (let at = key.indexOf(DATA); at >= 0; at = key.indexOf(DATA, at + 1)) {
      const owner = areas.get(key.slice(0, at + DATA.length));
      if (owner === undefined || owner === name) continue;
      found.push(`${key} of ${name} is data of ${owner}`);
    }
  }
  return found;
}

describe("keys of a redis fence", () => {
  it("of one name are never those of another, whatever the names are", () => {
    expect(NAMES.size).toBeGreaterThan(40_000);
    expect(shared(NAMES, (name) => markKey(DEFAULT_PREFIX, name))).toEqual([]);
    // The check sees it where a name is only appended.
    const naive = shared(NAMES, (name) => `${DEFAULT_PREFIX}{x}:t:${name}`);
    expect(naive).toContain("tenure:fence:{x}:t:x:low of x and of x:low");
    expect(naive).toContain("tenure:fence:{x}:t:x:v:x of x:v:x is data of x");
  });

  it("of one name are in one slot, that of a key named so where a tag can say it", () => {
    for (const name of NAMES) {
      const mark = markKey(DEFAULT_PREFIX, name);
      const slots = [mark, lowKey(mark), dataKey(mark, "}{y}")].map(slotOf);
      if (/^[^{}]*$|^[^{}]*\{[^{}]+\}/.test(name)) slots.push(slotOf(name));
      expect(new Set(slots).size, name).toBe(1);
    }
  });

  it.each([
    ["cart:7", "p:{cart:7}"],
    ["cart:7:low", "p:{cart:7:low}"],
    ["a%:v:é", "p:{a%:v:é}"],
    ["{user:7}:cart", "p:{user:7}:t:{user:7}:cart"],
    ["50%{user:low}:v", "p:{user:low}:u:50%25{user%3Alow}%3Av"],
    ["{user:7}:cart:low", "p:{user:7}:u:{user%3A7}%3Acart%3Alow"],
    ["{user:7}:v:cart", "p:{user:7}:u:{user%3A7}%3Av%3Acart"],
    ["a}b%", "p:{a%7Db%25}:e"],
  ])("are for %s what they have been, or escaped: %s", (name, key) => {
    expect(markKey("p:", name)).toBe(key);
  });
});
