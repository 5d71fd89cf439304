import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { build } from "esbuild";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeOn } from "../servers/find.js";
import { postgresProgram, startPostgres, type PostgresServer } from "../servers/postgres.js";

const root = path.join(import.meta.dirname, "../..");

describeOn(postgresProgram, "the examples with query builders", () => {
  let server: PostgresServer;
  let folder: string;
  beforeAll(async () => {
    server = await startPostgres();
    folder = mkdtempSync(path.join(root, "node_modules/.tenure-example-"));
  });
  afterAll(async () => {
    rmSync(folder, { recursive: true });
    await server.dispose();
  });

  it.each([
    ["kysely", "{ id: 7, balance: 100 }"],
    ["drizzle", "{ id: 7, balance: 150 }"],
  ])("%s writes as the holder, and is refused otherwise", async (name, row) => {
    await server.query(`CREATE DATABASE ${name}`);
    const outfile = path.join(folder, `${name}.mjs`);
    await build({
      entryPoints: [path.join(root, `examples/${name}.ts`)],
      outfile,
      bundle: true,
      platform: "node",
      format: "esm",
      target: "node20",
      // The package itself, from its source.
      alias: {
        tenure: path.join(root, "src/index.ts"),
        "tenure/backends/postgres": path.join(root, "src/backends/postgres/open.ts"),
        "tenure/fences/postgres": path.join(root, "src/fences/postgres/open.ts"),
      },
      plugins: [
        {
          name: "installed packages stay outside",
          setup: ({ onResolve }) =>
            onResolve({ filter: /^[a-z@][^:]*$/ }, ({ path: asked }) =>
              asked.startsWith("tenure") ? undefined : { path: asked, external: true },
            ),
        },
      ],
      logLevel: "silent",
    });
    const url = server.url.replace(/\/postgres$/, `/${name}`);
    const { stdout } = await promisify(execFile)(process.execPath, [outfile, url]);
    expect(stdout).toContain("tenure: table public.account is fenced by column id");
    expect(stdout).toContain(row);
  });
});
