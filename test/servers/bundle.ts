/** Programs of tests, which run as processes of their own. */
import { mkdtempSync, rmSync } from "node:fs";
import path from "node:path";
import { buildSync } from "esbuild";

const MODULES = path.join(import.meta.dirname, "../../node_modules");
const bundles = new Map<string, string>();

/**
 * `child.ts` of a folder as one file that Node runs, built once for each file of tests. It lies
 * beside the installed packages, so that it finds the libraries that it leaves outside.
 */
export function bundledChild(folder: string): string {
  let outfile = bundles.get(folder);
  if (outfile !== undefined) return outfile;
  const own = mkdtempSync(path.join(MODULES, ".tenure-child-"));
  process.on("exit", () => rmSync(own, { recursive: true, force: true }));
  outfile = path.join(own, "child.mjs");
  buildSync({
    entryPoints: [path.join(folder, "child.ts")],
    outfile,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    packages: "external",
    logLevel: "silent",
  });
  bundles.set(folder, outfile);
  return outfile;
}
