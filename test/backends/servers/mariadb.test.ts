import { existsSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { afterEach, expect, it } from "vitest";
import { describeOn } from "../../servers/find.js";
import { mariadbProgram, startMariadb, type MariadbServer } from "../../servers/mariadb.js";

const servers: MariadbServer[] = [];
const own = (server: MariadbServer): MariadbServer => {
  servers.push(server);
  return server;
};

afterEach(async () => {
  const pids = servers.map((server) => server.pid);
  for (const server of servers.splice(0)) await server.dispose();
  for (const pid of pids) expect(existsSync(`/proc/${pid}`), `process ${pid}`).toBe(false);
  const folders = readdirSync(tmpdir()).filter((entry) =>
    entry.startsWith(`tenure-server-${process.pid}-`),
  );
  expect(folders).toEqual([]);
});

describeOn(mariadbProgram, "the bench's MariaDB", () => {
  it("keeps what was committed over SIGKILL, on the same port", async () => {
    const server = own(await startMariadb());
    await server.query("CREATE TABLE t AS SELECT 42 AS n");
    const { port, pid } = server;
    await server.kill();
    await expect(server.query("SELECT 1")).rejects.toThrow(/ECONNREFUSED/);
    await server.start();
    expect(server.port).toBe(port);
    expect(server.pid).not.toBe(pid);
    expect(await server.query("SELECT n FROM t")).toEqual([{ n: 42 }]);
  });

  it("falls silent while frozen, and answers when thawed; ends sessions; restarts", async () => {
    const server = own(await startMariadb());
    await server.freeze();
    let answered = false;
    const asked = server.query("SELECT 1 AS n").then((rows) => {
      answered = true;
      return rows;
    });
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(answered).toBe(false);
    await server.thaw();
    expect(await asked).toEqual([{ n: 1 }]);
    const slow = server.query("SELECT SLEEP(20)").catch((error: unknown) => error);
    const asleep = "info LIKE 'SELECT SLEEP%'";
    while ((await server.terminate(asleep)) === 0);
    expect(await slow).toBeInstanceOf(Error);
    await server.restart();
    expect(await server.query("SELECT 1 AS n")).toEqual([{ n: 1 }]);
  });
});
