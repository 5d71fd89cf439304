import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { manifest, root } from "./stage.js";

/** The source of each public file, by the subpath under which it is exported. */
function publicFiles(): Map<string, string> {
  const files = new Map([
    [".", "src/index.ts"],
    ["./testing", "src/testing/index.ts"],
    ["./lab", "src/lab/index.ts"],
    // A way to have partitions, with a client library of its own.
    ["./partitions/kafka", "src/partitions/kafka/open.ts"],
  ]);
  for (const pattern of readdirSync(path.join(root, "src"))) {
    const file = `src/${pattern}/open.ts`;
    // src/sql is what the patterns over rows share.
    if (pattern !== "sql" && existsSync(path.join(root, file))) files.set(`./${pattern}`, file);
  }
  for (const kind of ["backends", "fences"]) {
    for (const store of readdirSync(path.join(root, "src", kind))) {
      const file = `src/${kind}/${store}/open.ts`;
      if (existsSync(path.join(root, file))) files.set(`./${kind}/${store}`, file);
    }
  }
  return files;
}

describe("package.json", () => {
  const { exports, dependencies, bin } = manifest();
  const entries = Object.entries(exports).filter(([subpath]) => subpath !== "./package.json");

  it.each(entries)("has a source file for the export %s", (_subpath, target) => {
    if (typeof target === "string") throw new Error("an entry needs types and default");
    const source = target.default.replace("./dist/", "src/").replace(/\.js$/, ".ts");
    expect(target.types).toBe(target.default.replace(/\.js$/, ".d.ts"));
    expect(existsSync(path.join(root, source)), source).toBe(true);
  });

  it("exports every public file, by name and under its own folder", () => {
    const exported = entries.map(([subpath, target]) => [
      subpath,
      (typeof target === "string" ? target : target.default)
        .replace("./dist/", "src/")
        .replace(/\.js$/, ".ts"),
    ]);
    expect(new Map(exported as [string, string][])).toEqual(publicFiles());
  });

  it("has no wildcard: a moved file must not move somebody's import", () => {
    expect(Object.keys(exports).filter((subpath) => subpath.includes("*"))).toEqual([]);
  });

  it("lists types before default, since the first matching condition wins", () => {
    for (const [, target] of entries) expect(Object.keys(target)).toEqual(["types", "default"]);
  });

  it("depends on nothing: client libraries are optional peers", () => {
    expect(dependencies).toBeUndefined();
    const text = readFileSync(path.join(root, "package.json"), "utf8");
    const { peerDependencies = {}, peerDependenciesMeta = {} } = JSON.parse(text) as {
      peerDependencies?: Record<string, string>;
      peerDependenciesMeta?: Record<string, { optional?: boolean }>;
    };
    for (const peer of Object.keys(peerDependencies)) {
      expect(peerDependenciesMeta[peer]?.optional, peer).toBe(true);
    }
  });

  it("offers the command", () => {
    expect(bin).toEqual({ tenure: "dist/bin/tenure.js" });
  });
});
