import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { build } from "esbuild";
import { afterAll, beforeAll, expect, test } from "vitest";
import { root } from "./blocks.js";

let folder: string;
beforeAll(() => void (folder = mkdtempSync(path.join(root, "node_modules/.tenure-example-"))));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The package's own sources, by the names under which an example imports them. */
function sources(): Record<string, string> {
  const { exports } = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8")) as {
    exports: Record<string, string | { readonly default: string }>;
  };
  const entries = Object.entries(exports).flatMap(([subpath, target]) => {
    if (typeof target === "string") return [];
    const source = target.default.replace("./dist/", "src/").replace(/\.js$/, ".ts");
    return [[`tenure${subpath.slice(1)}`, path.join(root, source)] as const];
  });
  // The longest first: esbuild takes the first alias that fits.
  return Object.fromEntries(entries.sort(([a], [b]) => b.length - a.length));
}

async function run(name: string, argument: string): Promise<string> {
  const outfile = path.join(folder, `${name}.mjs`);
  await build({
    entryPoints: [path.join(root, `examples/${name}.ts`)],
    outfile,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    alias: sources(),
    packages: "external",
    logLevel: "error",
  });
  const { stdout } = await promisify(execFile)(process.execPath, [outfile, argument]);
  return stdout.trim();
}

test.each([
  ["daily-report", "reports.db", "each fire ran on one of 20"],
  ["seats", "seats.db", "5 of 50 have a seat\n{ capacity: 5, available: 1 }"],
  [
    "agent-runs",
    "runs.db",
    "[ 'run-1 plan', 'run-1 search', 'run-1 write' ]\n[ 'run-2 plan', 'run-2 search', 'run-2 write' ]",
  ],
  ["slow-model", "notes.db", "5 updates, none lost; the model was asked again"],
  [
    "stale-holder",
    ".",
    "the successor: shipped\nthe frozen one: StaleTokenError\n1 mail, 1 charge",
  ],
])("examples/%s.ts shows what it says", async (name, argument, printed) => {
  expect(await run(name, path.join(folder, argument))).toBe(printed);
});
