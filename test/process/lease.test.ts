import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { connect } from "../../src/connect.js";

let folder: string;
beforeEach(() => void (folder = mkdtempSync(path.join(tmpdir(), "tenure-lease-"))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function child(script: string, ...args: string[]) {
  const file = path.join(import.meta.dirname, "children", script);
  return spawn(process.execPath, [file, ...args], { stdio: ["ignore", "pipe", "inherit"] });
}

describe("a real process", () => {
  it.each(["silent", "sqlite"])(
    "ends within 200 ms of close, with a renewal in flight and a waiter: %s (case 8)",
    async (store) => {
      const running = child("close-in-flight.mjs", store, `sqlite:${path.join(folder, "l.db")}`);
      let closedNs = 0n;
      createInterface({ input: running.stdout }).on("line", (line) => (closedNs = BigInt(line)));
      const [code] = (await once(running, "exit")) as [number];
      const endedNs = process.hrtime.bigint();
      expect(code).toBe(0);
      expect(closedNs).toBeGreaterThan(0n);
      expect(Number(endedNs - closedNs) / 1e6).toBeLessThan(200);
    },
  );

  it("with a blocked event loop knows by its first statement that it lost (cases 2, blocked-loop)", async () => {
    const url = `sqlite:${path.join(folder, "l.db")}`;
    const blocked = child("block.mjs", url);
    const exited = once(blocked, "exit");
    const lines = createInterface({ input: blocked.stdout })[Symbol.asyncIterator]();
    const tokenA = BigInt(((await lines.next()) as { value: string }).value);
    const tenure = await connect(url);
    const lease = await tenure.acquire("x", { ttl: "1m" });
    expect(lease.token).toBeGreaterThan(tokenA);
    const seen = JSON.parse(((await lines.next()) as { value: string }).value);
    expect(seen).toEqual({ state: "lost", aborted: true, remaining: 0 });
    const [code] = (await exited) as [number];
    expect(code).toBe(0);
    expect(await tenure.inspect("x")).toMatchObject({ token: lease.token });
    await tenure.close();
  });
});
