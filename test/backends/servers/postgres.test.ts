import { existsSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { afterEach, expect, it } from "vitest";
import { describeOn } from "../../servers/find.js";
import { pgbouncerProgram, startPgBouncer } from "../../servers/pgbouncer.js";
import { ask, postgresProgram, startPostgres, startStandby } from "../../servers/postgres.js";
import type { ServerProcess } from "../../servers/server.js";

const servers: ServerProcess[] = [];
const own = <S extends ServerProcess>(server: S): S => {
  servers.push(server);
  return server;
};

afterEach(async () => {
  const pids = servers.map((server) => server.pid);
  for (const server of servers.splice(0).reverse()) await server.dispose();
  for (const pid of pids) expect(existsSync(`/proc/${pid}`), `process ${pid}`).toBe(false);
  const folders = readdirSync(tmpdir()).filter((entry) =>
    entry.startsWith(`tenure-server-${process.pid}-`),
  );
  expect(folders).toEqual([]);
});

describeOn(postgresProgram, "the bench's PostgreSQL", () => {
  it("keeps what was committed over SIGKILL, on the same port", async () => {
    const server = own(await startPostgres({ fsync: "on" }));
    await server.query("CREATE TABLE t AS SELECT 42 AS n");
    const { port, pid } = server;
    await server.kill();
    await expect(server.query("SELECT 1")).rejects.toThrow(/ECONNREFUSED/);
    await server.start();
    expect(server.port).toBe(port);
    expect(server.pid).not.toBe(pid);
    expect(await server.query("SELECT n FROM t")).toEqual([{ n: 42 }]);
  });

  it("falls silent while frozen, also on connections it has, and answers when thawed", async () => {
    const server = own(await startPostgres());
    await server.freeze();
    let answered = false;
    const asked = ask(server.port, "SELECT 1 AS n").then((rows) => {
      answered = true;
      return rows;
    });
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(answered).toBe(false);
    await server.thaw();
    expect(await asked).toEqual([{ n: 1 }]);
    await server.restart();
    expect(await server.query("SELECT 1 AS n")).toEqual([{ n: 1 }]);
  });

  it("has a standby that refuses writes, follows, and can be promoted", async () => {
    const primary = own(await startPostgres());
    await primary.query("CREATE TABLE t AS SELECT 1 AS n");
    const standby = own(await startStandby(primary.port));
    await primary.query("INSERT INTO t VALUES (2)");
    await standby.inStepWith(primary);
    expect(await standby.query("SELECT n FROM t ORDER BY n")).toEqual([{ n: 1 }, { n: 2 }]);
    await expect(standby.query("INSERT INTO t VALUES (3)")).rejects.toThrow(/read-only/);
    await primary.kill();
    await standby.promote();
    await standby.query("INSERT INTO t VALUES (3)");
    expect(await standby.query("SELECT count(*)::int AS n FROM t")).toEqual([{ n: 3 }]);
  });
});

describeOn(pgbouncerProgram, "the bench's PgBouncer", () => {
  it("gives two clients one session in turn", async () => {
    const server = own(await startPostgres());
    const bouncer = own(await startPgBouncer(server));
    const pid = (): Promise<{ pid: number }[]> =>
      ask(bouncer.port, "SELECT pg_backend_pid() AS pid");
    expect(await pid()).toEqual(await pid());
  });
});
