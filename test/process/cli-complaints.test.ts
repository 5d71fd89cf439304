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
    [["run", "a", "-ttl", "3s", ...ECHO], "did you mean --ttl?"],
    [["elect", "a", "--ready-prot", "1", ...ECHO], "did you mean --ready-port?"],
    [["ls", "--jsn"], "did you mean --json?"],
    [["lab", "chekc"], "did you mean check?"],
    [["lab", "run", "paused-hodler"], "did you mean paused-holder"],
  ];
  for (const [args, question] of asked) {
    const ended = await box.tenure(args);
    expect(ended, args.join(" ")).toMatchObject({ code: 64, stdout: "" });
    expect(ended.stderr).toContain(question);
  }
  const unlike = [["zzzzzz"], ["x"], ["frob"], ["lock"], ["list"], ["ls", "--qqqqqq"]];
  const inLab = [["lab", "frob"], ["lab", "run", "frob"], ["lab", "shrink", "1", "--variant", "zz"]];
  for (const args of [...unlike, ...inLab]) {
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
  expect(await said("elect", "a", "ls", "-l")).toMatch(/must follow after --/);
  expect(await said("elect", "a", "--observe", "-l")).not.toMatch(/must follow after --/);
  expect(await said("partitions", "a", "--count", "8", "ls", "-l")).toMatch(/must follow after --/);
  expect(await said("run", "a", "-l", ...ECHO)).not.toMatch(/must follow after --/);
  expect(await said("run", "a", "sh", "-c", "exit 1")).toContain("tenure run a -- sh -c 'exit 1'\n");
  expect(await said("run", "-c", "a", "sh", "x")).toContain("tenure run a -c -- sh x\n");
  const negative = await said("run", "a", "--ttl", "-5s", ...ECHO);
  expect(negative).toContain("--ttl needs a value, and what follows begins with -");
  expect(await said("run", "a", "--wait", ...ECHO)).toMatch(/^tenure: --wait needs a value\n/);
  expect(await said("cron", "a", "* * *", ...ECHO)).toMatch(/^tenure: EXPRESSION must be a cron/);
  const zone = ["--tz", "Berlin"];
  expect(await said("cron", "a", "* * * * *", ...zone, ...ECHO)).toMatch(/^tenure: --tz must be/);
});

it("names the first thing that is missing, and how the whole is written", async () => {
  await using box = new Sandbox();
  for (const verb of ["run", "elect", "cron", "partitions", "acquire", "release", "show"]) {
    const ended = await box.tenure([verb]);
    expect(ended, verb).toMatchObject({ code: 64, stdout: "" });
    expect(ended.stderr, verb).toMatch(/^tenure: NAME is missing\n/);
  }
  const count = ["--count", "8"];
  for (const [args, line] of [
    [["run", "a"], "tenure run a -- COMMAND"],
    [["elect", "a"], "tenure elect a -- COMMAND"],
    [["partitions", "a", ...count], "tenure partitions a --count 8 -- COMMAND"],
    [["partitions", "a", ...count, "work"], "tenure partitions a --count 8 -- work"],
  ] as const) {
    const ended = await box.tenure(args);
    expect(ended, args.join(" ")).toMatchObject({ code: 64, stdout: "" });
    const complaint = "tenure: the command to run must follow after --";
    expect(ended.stderr).toBe(`${complaint}\ntenure:   ${line}\n`);
  }
  expect((await box.tenure(["partitions", "a", "work"])).stderr).toContain("--count N");
});

it("lists as --store what the command takes", async () => {
  await using box = new Sandbox();
  for (const store of ["x", "mem:", "/tmp/locks.db"]) {
    const ended = await box.tenure(["run", "a", "--store", store, ...ECHO]);
    expect(ended, store).toMatchObject({ code: 64, stdout: "" });
    expect(ended.stderr).toMatch(/--store must be a store URL \(sqlite: .*zookeeper:\)/);
  }
  // Letters of either case, as elsewhere.
  expect((await box.tenure(["ls", "--store", "MEMORY:"])).stderr).toContain("keeps nobody out");
  await box.tenure(["run", "a", "--store", "SQLite:./x.db", ...ECHO]);
  expect((await box.tenure(["show", "a", "--store", "sqlite:./x.db"])).stdout).toBe("a is free\n");
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
