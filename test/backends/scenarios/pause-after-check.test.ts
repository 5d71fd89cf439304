/** Scenario 5 with a real process: it stops itself between its check and its write. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { sqliteFence } from "../../../src/fences/sqlite/open.js";
import { describeOn } from "../../servers/find.js";
import { redisProgram, startRedis } from "../../servers/redis.js";
import { bench } from "../redis/bench.js";
import { startChild } from "./children.js";

const TTL_MS = 1_500;

describeOn(redisProgram, "pause-after-check", () => {
  const { server, tenure } = bench();

  it("a holder that stops between its check and its write: the file takes it, the table does not", async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "tenure-scenario-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const [table, file] = [path.join(folder, "report.db"), path.join(folder, "report.txt")];
    writeFileSync(file, "");
    const store = await server(startRedis());
    const locks = await tenure(store.port);
    const fence = sqliteFence(table);
    onTestFinished(() => fence.close());
    const first = await locks.acquire("job", { ttl: TTL_MS });
    const armed = await fence.arm(first, "report");
    await armed.write((tx) => tx.exec("CREATE TABLE report (line TEXT)"));
    await first.release();

    const a = startChild("write", store.url, String(TTL_MS), table, file);
    // It is stopped, or about to be: it does nothing between this line and its stop.
    const checked = await a.says();
    expect(checked).toMatchObject({ base: 0 });
    const second = await locks.acquire("job", { ttl: 60_000, wait: 30_000 });
    expect(second.token > BigInt(String(checked["token"]))).toBe(true);
    const next = await fence.arm(second, "report");
    await next.write((tx) => tx.run("INSERT INTO report VALUES ('B')"));
    writeFileSync(file, "B\n");
    expect(await next.read((tx) => tx.all("SELECT line FROM report"))).toEqual([{ line: "B" }]);

    a.process.kill("SIGCONT");
    expect(await a.says()).toEqual({ state: "lost", refusal: "StaleTokenError" });
    expect(await next.read((tx) => tx.all("SELECT line FROM report"))).toEqual([{ line: "B" }]);
    // What stands beside the fence has both.
    expect(readFileSync(file, "utf8")).toBe("B\nA\n");
    await second.release();
  });
});
