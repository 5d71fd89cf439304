/**
 * The servers of the tests, started for a benchmark: on free loopback ports, with data folders of
 * their own, and with or without a flush per commit.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

const sources = fileURLToPath(new URL("../../test/servers/", import.meta.url));

const loaded = new Map();

/** A module of `test/servers`. */
export function load(name) {
  if (!loaded.has(name)) loaded.set(name, bundled(name));
  return loaded.get(name);
}

/** The servers are TypeScript, which the oldest Node that is supported does not run. */
async function bundled(name) {
  // Beside the installed packages, so that the bundle finds them.
  const root = fileURLToPath(new URL("../../node_modules/", import.meta.url));
  const folder = mkdtempSync(join(root, ".tenure-bench-"));
  const outfile = join(folder, `${name}.mjs`);
  const entryPoints = [join(sources, `${name}.ts`)];
  const external = ["pg", "mysql2"];
  try {
    await build({ entryPoints, outfile, bundle: true, platform: "node", format: "esm", external });
    return await import(pathToFileURL(outfile));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const kinds = {
  async postgres(isFlushed, slowerUs) {
    const { startPostgres } = await load("postgres");
    const settings = { shared_buffers: "128MB", max_connections: 100 };
    // A sleep before each flush, also of a commit that is alone.
    const delay = slowerUs === 0 ? {} : { commit_delay: slowerUs, commit_siblings: 0 };
    return startPostgres({ ...settings, ...delay, fsync: isFlushed ? "on" : "off" });
  },
  async mysql(isFlushed, slowerUs) {
    const { startMariadb } = await load("mariadb");
    // A wait for a second commit, which never comes.
    const delay =
      slowerUs === 0
        ? {}
        : {
            ...{ "log-bin": "bench", "binlog-format": "ROW" },
            ...{ "binlog-commit-wait-count": 2, "binlog-commit-wait-usec": slowerUs },
          };
    return startMariadb({ ...delay, "innodb-flush-log-at-trx-commit": isFlushed ? 1 : 2 });
  },
};

/**
 * Runs `part` with the URL of a started server.
 *
 * @param slowerUs how much longer a commit waits than for this disk, microseconds
 */
export async function withServer(kind, isFlushed, part, slowerUs = 0) {
  const server = await kinds[kind](isFlushed, slowerUs);
  try {
    return await part(server.url, server);
  } finally {
    await server.dispose();
  }
}

/** Versions of both servers. */
export async function serverVersions() {
  const ask = (kind, text) =>
    withServer(kind, false, async (_, server) => Object.values((await server.query(text))[0])[0]);
  const [postgres, mysql] = await Promise.all([
    ask("postgres", "SHOW server_version"),
    ask("mysql", "SELECT VERSION()"),
  ]);
  return [`PostgreSQL ${postgres}`, `MySQL as ${mysql}`];
}
