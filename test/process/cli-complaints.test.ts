/** What the command says when it cannot do what was asked, in words of the command line. */
import { mkdirSync, writeFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { describe, expect, it } from "vitest";
import { Sandbox } from "./cli-process.js";

const ECHO = ["--", "echo", "ran"];

it("asks whether another verb or flag was meant", async () => {
  await using box = new Sandbox();
  const asked: readonly (readonly [readonly string[], string])[] = [
    [["rnu", "a"], "did you mean run?"],
    [["realese", "a"], "did you mean release?"],
    [["run", "a", "--tll", "3s", ...ECHO], "did you mean --ttl?"],
    [["elect", "a", "--ready-prot", "1", ...ECHO], "did you mean --ready-port?"],
    [["ls", "--jsn"], "did you mean --json?"],
  ];
  for (const [args, question] of asked) {
    const ended = await box.tenure(args);
    expect(ended, args.join(" ")).toMatchObject({ code: 64, stdout: "" });
    expect(ended.stderr).toContain(question);
  }
  for (const args of [["zzzzzz"], ["x"], ["ls", "--qqqqqq"]]) {
    const ended = await box.tenure(args);
    expect(ended, args.join(" ")).toMatchObject({ code: 64, stdout: "" });
    expect(ended.stderr).not.toContain("did you mean");
  }
  const flagFirst = await box.tenure(["--store", "sqlite:./x.db", "ls"]);
  expect(flagFirst.stderr).toContain("the verb comes first");
});

it("says where the command's own flags stand, and which value is missing", async () => {
  await using box = new Sandbox();
  const said = async (...args: string[]): Promise<string> => {
    const ended = await box.tenure(args);
    expect(ended, args.join(" ")).toMatchObject({ code: 64, stdout: "" });
    return ended.stderr;
  };
  expect(await said("run", "a", "ls", "-l")).toMatch(/with its own flags, must follow after --/);
  expect(await said("cron", "a", "* * * * *", "ls", "-l")).toMatch(/must follow after --/);
  expect(await said("run", "a", "-l", ...ECHO)).not.toMatch(/must follow after --/);
  expect(await said("run", "a", "sh", "-c", "exit 1")).toContain("tenure run a -- sh -c 'exit 1'\n");
  expect(await said("run", "-c", "a", "sh", "x")).toContain("tenure run a -c -- sh x\n");
  const negative = await said("run", "a", "--ttl", "-5s", ...ECHO);
  expect(negative).toContain("--ttl needs a value, and what follows begins with -");
});

it("speaks of flags, not of options, where a store has no tokens", async () => {
  await using box = new Sandbox();
  const servers = [1, 2, 3].map((port) => `redis://127.0.0.1:${port}`).join(",");
  const store = ["--store", `redlock:${servers}`];
  const verbs = [["run", "a", ...store, ...ECHO], ["elect", "a", ...store, ...ECHO]];
  for (const args of [...verbs, ["acquire", "a", ...store], ["run", "a", "--json", ...store, ...ECHO]]) {
    const ended = await box.tenure(args);
    expect(ended, args.join(" ")).toMatchObject({ code: 64, stdout: "" });
    expect(ended.stderr).toContain("--on-unavailable proceed");
    expect(ended.stderr).not.toContain("purpose");
  }
  // To look takes no tokens: it fails only because nobody is there.
  expect((await box.tenure(["ls", ...store])).code).toBe(69);
});

describe("without a client library", () => {
  const urls: readonly (readonly [string, string])[] = [
    ["redis://127.0.0.1:1", "npm install redis"],
    ["postgres://u:secret@127.0.0.1:1/d", "npm install pg"],
    ["mysql://u:secret@127.0.0.1:1/d", "npm install mysql2"],
    ["dynamodb://locks?region=eu-west-1", "npm install @aws-sdk/client-dynamodb"],
    ...(isBuiltin("node:sqlite")
      ? []
      : [["sqlite:./locks.db", "npm install better-sqlite3@12"] as const]),
  ];

  it.each(urls)("for %s says what installs it, no path, and runs nothing", async (url, line) => {
    await using box = new Sandbox();
    const command = box.commandAlone();
    const store = ["--store", url];
    for (const args of [
      ["ls", ...store],
      ["run", "a", ...store, "--on-unavailable", "proceed", ...ECHO],
      ["acquire", "a", "--json", ...store],
    ]) {
      box.write("locks.db", "");
      const ended = await box.tenure(args, { command });
      expect(ended, args.join(" ")).toMatchObject({ code: 64, stdout: "" });
      expect(ended.stderr).toMatch(new RegExp(`: ${line}("|\n)`));
      expect(ended.stderr).not.toContain(box.dir);
      expect(ended.stderr).not.toContain("secret");
    }
  });

  it.runIf(!isBuiltin("node:sqlite"))("that was built for this Node, as well", async () => {
    await using box = new Sandbox();
    const command = box.commandAlone();
    const library = box.file("alone/node_modules/better-sqlite3");
    mkdirSync(library, { recursive: true });
    const text = "Could not locate the bindings file. Tried:\\n → /somewhere/better_sqlite3.node";
    const code = `module.exports = class { constructor() { throw new Error("${text}"); } };`;
    writeFileSync(`${library}/index.js`, code);
    const ended = await box.tenure(["run", "a", ...ECHO], { command });
    expect(ended).toMatchObject({ code: 64, stdout: "" });
    expect(ended.stderr).toContain(": npm rebuild better-sqlite3\n");
    expect(ended.stderr).not.toContain("somewhere");
  });

  it("that reads cron expressions, as well", async () => {
    await using box = new Sandbox();
    const ended = await box.tenure(["cron", "job", "* * * * *", ...ECHO], {
      command: box.commandAlone(),
    });
    expect(ended).toMatchObject({ code: 64, stdout: "" });
    expect(ended.stderr).toContain(": npm install croner\n");
    expect(ended.stderr).not.toContain(box.dir);
  });
});
