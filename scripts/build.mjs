// Builds the package: the library file by file with tsc, the command as one bundle per process.
//   node scripts/build.mjs [--out DIR]     DIR defaults to dist
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { parseArgs } from "node:util";
import { build } from "esbuild";

const root = path.resolve(import.meta.dirname, "..");
const { values } = parseArgs({ options: { out: { type: "string", default: "dist" } } });
const target = path.resolve(root, values.out);

// Written beside it and swapped in at the end: a build that fails leaves the last one as it was.
const out = mkdtempSync(`${target}-`);
chmodSync(out, 0o755);
process.on("exit", () => rmSync(out, { recursive: true, force: true }));

const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");
const compiled = spawnSync(
  process.execPath,
  [tsc, "-p", "tsconfig.build.json", "--outDir", out],
  { cwd: root, stdio: "inherit" },
);
if (compiled.status !== 0) process.exit(compiled.status ?? 1);

const processes = { tenure: "src/cli/main.ts", guard: "src/cli/guard.ts" };
for (const [name, source] of Object.entries(processes)) {
  const entry = path.join(root, source);
  if (!existsSync(entry)) continue;
  const outdir = path.join(out, "bin");
  const outfile = path.join(outdir, `${name}.js`);
  const hasShebang = readFileSync(entry, "utf8").startsWith("#!");
  await build({
    entryPoints: { [name]: entry },
    outdir,
    bundle: true,
    // What a verb imports when it runs is read then: `tenure run` does not wait for the lab.
    splitting: true,
    platform: "node",
    format: "esm",
    target: "node20.19",
    // Client libraries belong to the user's project: they are found when the command runs.
    packages: "external",
    legalComments: "none",
    logLevel: "warning",
    banner: hasShebang ? {} : { js: "#!/usr/bin/env node" },
  });
  chmodSync(outfile, 0o755);
}

rmSync(target, { recursive: true, force: true });
renameSync(out, target);
