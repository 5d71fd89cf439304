import { accessSync, constants, existsSync, readdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { deadLinks } from "./links.js";
import { manifest, root, run, Stage } from "./stage.js";

// Case 47: the tarball, installed in the kinds of project that people have, compiles and runs.

const work = `
  const tenure = await connect("memory:");
  const lease = await tenure.tryAcquire("x");
  if (lease === null) throw new Error("the lease was free");
  const token: bigint = lease.token;
  await lease.release();
  await tenure.close();
  console.log("token", typeof token);
`;
const esm = `import { connect } from "tenure";\n${work}`;
const main = `async function main(): Promise<void> {${work}}\nmain();\n`;
const required = `import { connect } from "tenure";\n${main}`;
const importRequired = `import tenurePackage = require("tenure");
const { connect } = tenurePackage;
${main}`;

const worked = { code: 0, output: "token bigint\n" };
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
const { exports } = manifest();
const subpaths = Object.keys(exports).filter((subpath) => subpath !== "./package.json");
const specifiers = subpaths.map((subpath) => `tenure${subpath.slice(1)}`);

/** The files of a consumer: strict, and with the declarations of the package checked as well. */
function consumer(
  type: "module" | "commonjs",
  options: Readonly<Record<string, string>>,
  main: string,
): Record<string, string> {
  const compilerOptions = {
    target: "es2022",
    lib: ["es2022"],
    types: ["node"],
    strict: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: false,
    skipDefaultLibCheck: true,
    ...options,
  };
  return {
    "package.json": JSON.stringify({ name: "consumer", private: true, type }),
    "tsconfig.json": JSON.stringify({ compilerOptions, files: ["main.ts"] }),
    "main.ts": main,
  };
}

describe("the packed package", () => {
  let stage: Stage;
  beforeAll(() => {
    stage = new Stage();
  });
  afterAll(() => {
    stage[Symbol.dispose]();
  });

  it("holds a file for every export, and nothing but the build and its papers", () => {
    const contents = stage.contents();
    const targets = Object.values(exports)
      .flatMap((target) => (typeof target === "string" ? [target] : Object.values(target)))
      .map((target) => target.replace("./", ""));
    expect(targets.filter((target) => !contents.includes(target))).toEqual([]);
    const papers = ["package.json", "README.md", "LICENSE", "CHANGELOG.md", "bench/README.md"];
    const others = contents.filter((file) => !/^(dist|docs\/(adr|guide))\//.test(file));
    expect(others.sort()).toEqual(papers.sort());
    expect(contents.filter((file) => /\.test\.|dist\/cli\//.test(file))).toEqual([]);
  });

  it("holds the pages that its messages and its README name", () => {
    const contents = stage.contents();
    const files = readdirSync(path.join(root, "src"), { recursive: true, encoding: "utf8" });
    const sources = files.filter((file) => file.endsWith(".ts"));
    const texts = ["README.md", ...sources.map((file) => path.join("src", file))]
      .map((file) => readFileSync(path.join(root, file), "utf8"));
    const named = new Set(texts.flatMap((text) => text.match(/docs\/guide\/[\w-]+\.md/g) ?? []));
    expect(named.size).toBeGreaterThan(20);
    expect([...named].filter((page) => !contents.includes(page))).toEqual([]);
  });

  it("holds whatever its pages link to", () => {
    const contents = stage.contents();
    const pages = contents.filter((file) => file.endsWith(".md"));
    expect(pages).toContain("docs/guide/leases.md");
    expect(pages.flatMap((page) => deadLinks(page, contents))).toEqual([]);
  });

  const kinds: [string, "module" | "commonjs", Record<string, string>, string][] = [
    ["esm-nodenext", "module", { module: "nodenext" }, esm],
    ["esm-node20", "module", { module: "node20" }, esm],
    ["cjs-nodenext", "commonjs", { module: "nodenext" }, required],
    ["cjs-node20", "commonjs", { module: "node20" }, required],
    ["cjs-import-require", "commonjs", { module: "node20" }, importRequired],
  ];
  it.each(kinds)("compiles and runs in a project of kind %s", (name, type, options, source) => {
    const dir = stage.project(name, consumer(type, options, source));
    expect(run(process.execPath, [tsc, "-p", "."], dir)).toEqual({ code: 0, output: "" });
    expect(run(process.execPath, ["main.js"], dir)).toEqual(worked);
  });

  it("compiles under bundler resolution, and runs when bundled", async () => {
    const options = { module: "esnext", moduleResolution: "bundler" };
    const dir = stage.project("bundler", consumer("module", options, esm));
    expect(run(process.execPath, [tsc, "-p", ".", "--noEmit"], dir).output).toBe("");
    await build({
      absWorkingDir: dir,
      entryPoints: ["main.ts"],
      outfile: path.join(dir, "bundle.mjs"),
      bundle: true,
      platform: "node",
      format: "esm",
      target: "node20",
      logLevel: "silent",
    });
    expect(run(process.execPath, ["bundle.mjs"], dir)).toEqual(worked);
  });

  it("loads every entry by import and require, with no client library (case 47)", () => {
    const text = JSON.stringify(specifiers);
    const dir = stage.project("entries", {
      "package.json": JSON.stringify({ name: "consumer", private: true, type: "module" }),
      "import.mjs": `for (const s of ${text}) await import(s);\nconsole.log("loaded");\n`,
      "require.cjs": `for (const s of ${text}) require(s);\nconsole.log("loaded");\n`,
      "types.mts": specifiers.map((s, i) => `import * as e${i} from "${s}"; e${i};`).join("\n"),
    });
    expect(existsSync(path.join(dir, "node_modules/better-sqlite3"))).toBe(false);
    expect(run(process.execPath, ["import.mjs"], dir)).toEqual({ code: 0, output: "loaded\n" });
    expect(run(process.execPath, ["require.cjs"], dir)).toEqual({ code: 0, output: "loaded\n" });
    const strict = ["--strict", "--module", "nodenext", "--target", "es2022", "--types", "node"];
    expect(run(process.execPath, [tsc, ...strict, "--noEmit", "types.mts"], dir).output).toBe("");
  });

  it("installs the command, which starts without a client library", () => {
    const dir = stage.project("command", {
      "package.json": JSON.stringify({ name: "consumer", private: true }),
    });
    const bin = path.join(dir, "node_modules/.bin/tenure");
    accessSync(bin, constants.X_OK);
    expect(readFileSync(bin, "utf8").split("\n", 1)).toEqual(["#!/usr/bin/env node"]);
    expect(run(bin, ["--help"], dir)).toMatchObject({ code: 0 });
  });
});
