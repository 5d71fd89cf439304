import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { SCENARIOS } from "../../src/lab/scenarios/play.js";

const root = join(import.meta.dirname, "../..");
const page = readFileSync(join(root, "docs/guide/lab-scenarios.md"), "utf8");
const rows = page.split("\n").filter((line) => /^\| (\d+ \| )?`/.test(line));

/** Words in backquotes of a row. */
function quoted(row: string): readonly string[] {
  return [...row.matchAll(/`([^`]+)`/g)].map(([, text]) => text!);
}

test("there is one scenario for each number from 1 to 42, and no name comes twice", () => {
  const ids = SCENARIOS.map(({ id }) => id).filter((id) => id !== 0);
  expect(ids).toEqual(Array.from({ length: 42 }, (_, i) => i + 1));
  expect(new Set(SCENARIOS.map(({ name }) => name)).size).toBe(SCENARIOS.length);
});

test("the guide lists them all, by number and name, and no other", () => {
  const listed = rows.map((row) => {
    const id = Number(/^\| (\d+) \|/.exec(row)?.[1] ?? 0);
    return `${id} ${quoted(row)[0]}`;
  });
  const there = SCENARIOS.map(({ id, name }) => `${id} ${name}`);
  expect([...listed].sort()).toEqual([...there].sort());
});

test("the guide says where each is played, and names tests that there are", () => {
  for (const row of rows) {
    const [name, ...others] = quoted(row);
    const file = others.find((text) => /^[a-z-]+\.ts$/.test(text));
    expect(file, row).toBeDefined();
    const source = readFileSync(join(root, "src/lab/scenarios", file!), "utf8");
    expect(source, `${file} has ${name}`).toContain(`name: "${name}"`);
    for (const text of others.filter((other) => other.includes("/"))) {
      if (text.startsWith("src/lab/")) continue;
      const isThere = [text, `test/${text}`, `test/${text}.test.ts`].some((path) => {
        return existsSync(join(root, path));
      });
      expect(isThere, `${text}, named for ${name}`).toBe(true);
    }
  }
});

test("each of the 42 is shown on real processes or servers, too", () => {
  const numbered = rows.filter((row) => /^\| \d+ /.test(row));
  expect(numbered).toHaveLength(42);
  for (const row of numbered) {
    const onReal = row.split("|").at(-2)!;
    const named = quoted(onReal).filter((text) => text.includes("/"));
    expect(named.length, row).toBeGreaterThan(0);
    expect(onReal, row).not.toMatch(/\bnot\b/);
  }
});
