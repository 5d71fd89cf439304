import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { buildSync } from "esbuild";
import ts from "typescript";
import { type Block, root } from "./blocks.js";

/** Where the source of each public entry is, by the name that an example imports. */
function entries(): Record<string, string> {
  const text = readFileSync(path.join(root, "package.json"), "utf8");
  const { exports } = JSON.parse(text) as { exports: Record<string, string | { default: string }> };
  return Object.fromEntries(
    Object.entries(exports).flatMap(([subpath, target]) =>
      typeof target === "string"
        ? []
        : [[
            `tenure${subpath.slice(1)}`,
            path.join(root, target.default.replace("./dist/", "src/").replace(/\.js$/, ".ts")),
          ]],
    ),
  );
}

/** Compiles all examples in one program against the source; answers what is wrong with each. */
export function compile(blocks: readonly Block[]): ReadonlyMap<Block, string> {
  const config = ts.getParsedCommandLineOfConfigFile(
    path.join(root, "tsconfig.json"),
    {
      allowJs: true,
      checkJs: true,
      declaration: false,
      declarationMap: false,
      isolatedDeclarations: false,
      noEmit: true,
      paths: Object.fromEntries(Object.entries(entries()).map(([name, file]) => [name, [file]])),
    },
    { ...ts.sys, onUnRecoverableConfigFileDiagnostic: () => undefined },
  );
  if (config === undefined) throw new Error("tsconfig.json cannot be read");

  const files = new Map(
    blocks.map((block, i) => [path.join(root, `example-${i}.${block.language}`), block]),
  );
  const host = ts.createCompilerHost(config.options);
  const { fileExists, readFile, getSourceFile } = host;
  host.fileExists = (file) => files.has(file) || fileExists(file);
  host.readFile = (file) => files.get(file)?.code ?? readFile(file);
  host.getSourceFile = (file, ...rest) => {
    const block = files.get(file);
    if (block === undefined) return getSourceFile(file, ...rest);
    return ts.createSourceFile(file, `${block.code}\nexport {};\n`, rest[0]);
  };
  const program = ts.createProgram([...files.keys()], config.options, host);
  return new Map(
    [...files].map(([file, block]) => {
      const source = program.getSourceFile(file);
      const problems = [
        ...program.getSyntacticDiagnostics(source),
        ...program.getSemanticDiagnostics(source),
      ];
      return [block, problems.map(format).join("\n")];
    }),
  );
}

function format({ file, start, messageText }: ts.Diagnostic): string {
  const line = file && start !== undefined ? ts.getLineAndCharacterOfPosition(file, start).line : 0;
  return `line ${line + 1}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`;
}

/** Runs an example against the source, in an empty folder of its own; answers what it printed. */
export function runExample(block: Block): string {
  // Below node_modules, so that the example finds the client libraries that are installed here.
  const cache = path.join(root, "node_modules/.cache/tenure-docs");
  mkdirSync(cache, { recursive: true });
  const built = mkdtempSync(path.join(cache, "example-"));
  const cwd = mkdtempSync(path.join(tmpdir(), "tenure-docs-"));
  try {
    const outfile = path.join(built, "example.mjs");
    // esbuild tries the longest alias first, so that tenure does not shadow tenure/testing.
    buildSync({
      stdin: { contents: block.code, loader: block.language, resolveDir: root },
      outfile,
      bundle: true,
      platform: "node",
      format: "esm",
      target: "node20",
      alias: entries(),
      external: ["better-sqlite3"],
      logLevel: "silent",
    });
    return execFileSync(process.execPath, [outfile], {
      cwd,
      encoding: "utf8",
      stdio: "pipe",
      timeout: 60_000,
    });
  } finally {
    rmSync(built, { recursive: true, force: true });
    rmSync(cwd, { recursive: true, force: true });
  }
}
