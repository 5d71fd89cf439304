import path from "node:path";
import { describe, expect, it } from "vitest";
import { read, sourceFiles } from "./files.js";

// Style that no linter knows. Each rule lists its offenders and names what to do instead.

const files = sourceFiles();
const code = files.filter((file) => /^(src|test|bench|scripts|examples)\/.*\.(ts|mjs)$/.test(file));
const ours = files.filter((file) => file !== "package-lock.json");

/** Written in pieces, so that this file does not find itself. */
const unfinished = new RegExp(["TO" + "DO", "FIX" + "ME", "X" + "XX"].join("|"));
const machineRoots = ["wo" + "rk", "ro" + "ot", "ho" + "me"].join("|");
const machinePath = new RegExp(`(^|[\\s"'\`(=])/(${machineRoots})/\\w`, "m");
const registryHost = new RegExp(["registry\\.", "npm" + "js\\."].join("|"));

function offenders(among: readonly string[], breaks: (file: string) => boolean): string[] {
  return among.filter(breaks);
}

describe("the house", () => {
  it("has no code file over 400 lines: split it at the seam its reader looks for", () => {
    expect(offenders(code, (file) => read(file).split("\n").length > 401)).toEqual([]);
  });

  it("names files for what is inside, not utils, helpers, common or types", () => {
    const vague = /^(utils?|helpers?|common|types)$/;
    const parts = (file: string): string[] => file.split("/").map((part) => part.replace(/\..*/, ""));
    const named = code.filter((file) => !file.startsWith("test/types/"));
    expect(offenders(named, (file) => parts(file).some((part) => vague.test(part)))).toEqual([]);
  });

  it("names code files in kebab-case", () => {
    const kebab = /^[a-z0-9]+(-[a-z0-9]+)*(\.(test|test-d|bench|config))?\.(ts|mjs)$/;
    expect(offenders(code, (file) => !kebab.test(path.basename(file)))).toEqual([]);
  });

  it("has no barrels inside: import the file that has the name", () => {
    const entry = /^src\/(index|(lab|testing)\/index|.+\/open)\.ts$/;
    const inside = code.filter((file) => file.startsWith("src/") && !entry.test(file));
    const reExports = /^export (type )?(\*|\{[^}]*\})( as \w+)? from "/m;
    expect(offenders(inside, (file) => reExports.test(read(file)))).toEqual([]);
  });

  it("keeps src/index.ts under 60 lines of re-exports", () => {
    const index = code.filter((file) => file === "src/index.ts");
    expect(offenders(index, (file) => read(file).split("\n").length > 60)).toEqual([]);
  });

  it("waits in no test without giving way: its time limit could not end it, and the run would hang", () => {
    const tests = code.filter((file) => file.startsWith("test/"));
    const spins = /while \([^\n]*(\w*(spawn|exec(File)?)Sync\(|\.shell\()/;
    expect(offenders(tests, (file) => spins.test(read(file)))).toEqual([]);
  });

  it("leaves nothing marked as unfinished: file an issue, or do it", () => {
    expect(offenders(ours, (file) => unfinished.test(read(file)))).toEqual([]);
  });

  it("names no path of one machine: use a temporary folder, or a path from the file's own", () => {
    expect(offenders(ours, (file) => machinePath.test(read(file)))).toEqual([]);
  });

  it("names no registry: each user's client knows its own", () => {
    expect(offenders(files, (file) => registryHost.test(read(file)))).toEqual([]);
    expect(read("package-lock.json")).not.toContain('"resolved": "http');
  });

  it("has a changelog with a section for what is not released", () => {
    expect(read("CHANGELOG.md")).toMatch(/^## \[Unreleased\]$/m);
  });

  it("lists every decision record in docs/adr/README.md", () => {
    const records = files.filter((file) => /^docs\/adr\/\d{4}-.*\.md$/.test(file));
    const list = read("docs/adr/README.md");
    expect(offenders(records, (file) => !list.includes(`(${path.basename(file)})`))).toEqual([]);
  });

  it("opens each backend with the five lines: atomicity, token, clock, waking, failover", () => {
    const backends = code.filter((file) => /^src\/backends\/[^/]+\/index\.ts$/.test(file));
    const head = (file: string): string => read(file).split(/^import /m)[0] ?? "";
    const topics = [/atomic/i, /token/i, /clock|expir/i, /wake|wait/i, /failover|lose|lost/i];
    const silent = (file: string): boolean => !topics.every((topic) => topic.test(head(file)));
    expect(offenders(backends, silent)).toEqual([]);
  });
});
