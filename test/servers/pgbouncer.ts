import { chmod, chown, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import type { Program } from "./find.js";
import { ask, type PostgresServer } from "./postgres.js";
import { ServerProcess } from "./server.js";

/** What tests on a pooler need. */
export const pgbouncerProgram: Program = {
  name: "PgBouncer",
  binary: "pgbouncer",
  package: "pgbouncer",
};

/** The pooler refuses to run as root, and Debian's package runs it as this user. */
const USER = "postgres";

/** A PgBouncer in front of a PostgreSQL server: each transaction may get another session. */
export class PgBouncer extends ServerProcess {
  /** `pool_mode` may be `transaction` (default) or `session`. */
  constructor(server: PostgresServer, settings: Readonly<Record<string, string | number>> = {}) {
    const lines = Object.entries({
      listen_addr: "127.0.0.1",
      unix_socket_dir: "",
      auth_type: "any",
      pool_mode: "transaction",
      default_pool_size: 4,
      max_client_conn: 100,
      ignore_startup_parameters: "extra_float_digits",
      ...settings,
    });
    super({
      ...pgbouncerProgram,
      args: (_port, folder) => [path.join(folder, "pgbouncer.ini")],
      url: (port) => `postgres://postgres@127.0.0.1:${port}/postgres`,
      // The port is known to the configuration file only.
      configure: async (port, folder) => {
        const text = [
          "[databases]",
          `* = host=127.0.0.1 port=${server.port} user=postgres`,
          "[pgbouncer]",
          `listen_port = ${port}`,
          ...lines.map(([name, value]) => `${name} = ${value}`),
        ].join("\n");
        const file = path.join(folder, "pgbouncer.ini");
        await writeFile(file, `${text}\n`);
        if (process.getuid?.() !== 0) return;
        const { uid, gid } = await stat("/var/lib/postgresql");
        for (const entry of [folder, file]) await chown(entry, uid, gid);
        await chmod(folder, 0o700);
      },
      isReady: async (port) => (await ask(port, "SELECT 1 AS one")).length === 1,
      user: USER,
      stopSignal: "SIGINT",
    });
  }
}

/** A started pooler. */
export async function startPgBouncer(
  server: PostgresServer,
  settings: Readonly<Record<string, string | number>> = {},
): Promise<PgBouncer> {
  const bouncer = new PgBouncer(server, settings);
  try {
    await bouncer.start();
    return bouncer;
  } catch (error) {
    await bouncer.dispose();
    throw error;
  }
}
