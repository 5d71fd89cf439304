import { readFileSync } from "node:fs";
import path from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { command } from "../../src/cli/commands/lab.js";
import { root } from "./blocks.js";

/** A command of a page, and what the page says that it prints. */
interface Shown {
  readonly line: string;
  readonly prints: string | undefined;
}

function commandsOf(page: string): readonly Shown[] {
  const text = readFileSync(path.join(root, page), "utf8");
  const found = text.matchAll(/npx tenure (lab [^`#\n]*[^`#\s])(?: +# (.+))?/g);
  return [...found].map(([, line = "", prints]) => ({ line, prints }));
}

const shown = commandsOf("docs/guide/questions.md");

afterEach(() => void vi.restoreAllMocks());

test("each question has a command, and each command of a question says what it prints", () => {
  const text = readFileSync(path.join(root, "docs/guide/questions.md"), "utf8");
  const questions = text.split(/^## /m).slice(1);
  expect(questions.length).toBeGreaterThan(15);
  for (const question of questions) expect(question).toMatch(/npx tenure lab /);
  const inBlocks = text.match(/^npx tenure .*$/gm) ?? [];
  expect(inBlocks.filter((line) => !line.includes("# "))).toEqual([]);
});

test.each(shown.map(({ line, prints }) => [line, prints] as const))("%s", async (line, prints) => {
  let printed = "";
  vi.spyOn(process.stdout, "write").mockImplementation((chunk) => {
    printed += String(chunk);
    return true;
  });
  const [verb, ...args] = line.split(" ");
  expect(verb).toBe("lab");
  const code = await command.run(args);
  vi.restoreAllMocks();
  expect(code).toBe(0);
  if (prints !== undefined) expect(printed).toContain(prints);
});
