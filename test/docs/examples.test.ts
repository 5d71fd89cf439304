import { describe, expect, it } from "vitest";
import { type Block, blocks, blocksOf } from "./blocks.js";
import { compile, runExample } from "./compile.js";

const all = blocks();
const compiled = all.filter((block) => block.notCompiled === undefined);
const named = (list: readonly Block[]): [string, Block][] => list.map((b) => [b.where, b]);

describe("the examples of README and docs", () => {
  const problems = compile(compiled);

  it("has an example in the README", () => {
    expect(all.some((block) => block.where.startsWith("README.md:"))).toBe(true);
  });

  it.each(named(compiled))("%s compiles", (_where, block) => {
    expect(problems.get(block)).toBe("");
  });

  it.each(named(compiled.filter((block) => block.runs)))("%s runs", (_where, block) => {
    expect(() => runExample(block)).not.toThrow();
  });

  it("gives a reason for each example that is not compiled", () => {
    const silent = all.filter((block) => block.notCompiled === "");
    expect(silent.map((block) => block.where)).toEqual([]);
  });

  for (const block of all.filter(({ notCompiled }) => notCompiled !== undefined)) {
    it.skipIf(true)(`${block.where} is not compiled: ${block.notCompiled}`, () => undefined);
  }
});

describe("the check itself", () => {
  const page = (info: string, code: string): string => `text\n\n\`\`\`${info}\n${code}\n\`\`\`\n`;
  const only = (text: string): Block => {
    const [block] = blocksOf("page.md", text);
    if (block === undefined) throw new Error("no block found");
    return block;
  };

  it("finds an example that imports what does not exist", () => {
    const block = only(page("ts", 'import { nothing } from "tenure";\nnothing();'));
    expect(block.where).toBe("page.md:3");
    expect(compile([block]).get(block)).toMatch(/line 1: .*nothing/);
  });

  it("finds an example that fails when it runs", () => {
    const block = only(page("ts run", 'throw new Error("broken example");'));
    expect(() => runExample(block)).toThrow("broken example");
  });

  it("reads a continued example after the one that it continues", () => {
    const text = page("ts", "const a = 1;") + page("ts continued", "console.log(a);");
    const [, second] = blocksOf("page.md", text);
    expect(second?.code).toBe("const a = 1;\n\nconsole.log(a);\n");
  });
});
