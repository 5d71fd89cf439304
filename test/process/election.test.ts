import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { expect, it } from "vitest";
import { connect } from "../../src/connect.js";
import { election } from "../../src/election/election.js";
import { sqliteFence } from "../../src/fences/sqlite/open.js";

const TTL_MS = 800;

it("a leader that was frozen has lost when it wakes, and its late write is refused (scenario 39)", async () => {
  const folder = mkdtempSync(path.join(tmpdir(), "tenure-election-"));
  const [locks, data] = [`sqlite:${path.join(folder, "l.db")}`, path.join(folder, "data.db")];
  const script = path.join(import.meta.dirname, "children", "leader.mjs");
  const leader = spawn(process.execPath, [script, locks, data], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    const exited = once(leader, "exit");
    const lines = createInterface({ input: leader.stdout })[Symbol.asyncIterator]();
    const firstTerm = BigInt(((await lines.next()) as { value: string }).value);
    const tenure = await connect(locks);
    const fence = sqliteFence(data);
    leader.kill("SIGSTOP");
    const frozenMs = performance.now();
    const term = await election(tenure, "job", { ttl: TTL_MS }).campaign();
    expect(performance.now() - frozenMs).toBeLessThan(TTL_MS + 2_000);
    expect(term.term > firstTerm).toBe(true);
    const handle = await fence.arm(term, "report");
    await handle.write((tx) => tx.run("INSERT INTO report VALUES ('second')"));
    leader.kill("SIGCONT");
    const seen = JSON.parse(((await lines.next()) as { value: string }).value);
    expect(seen).toMatchObject({ assertion: "NotLeaderError", late: "StaleTokenError" });
    await exited;
    const rows = await handle.read((tx) => tx.all("SELECT DISTINCT term FROM report"));
    expect(rows).toEqual([{ term: String(firstTerm) }, { term: "second" }]);
    term.assertLeading();
    await fence.close();
    await tenure.close();
  } finally {
    leader.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  }
});
