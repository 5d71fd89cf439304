import { readFileSync } from "node:fs";
import { describe, expect, onTestFinished, test } from "vitest";
import { Sandbox } from "./cli-process.js";

/** A folder of its own for one test. */
function sandbox(): Sandbox {
  const box = new Sandbox();
  onTestFinished(() => box[Symbol.asyncDispose]());
  return box;
}

describe("tenure lab soak", () => {
  test("shares its runs among processes, and adds up what they found", async () => {
    const args = ["lab", "soak", "--runs", "5", "--seed", "40", "--jobs", "2", "--no-score", "--json"];
    const { code, stdout } = await sandbox().tenure(args);
    expect(code).toBe(0);
    const result = JSON.parse(stdout) as Record<string, number>;
    expect(result).toMatchObject({ runs: 5, replays: 2, lostUpdates: 0, violations: [] });
    expect(result["simulatedMs"]).toBe(5 * 576_000);
    expect(result["grants"]).toBeGreaterThan(500);
    expect(result["faults"]).toBeGreaterThan(100);
  });

  test("ends when its time is over, and tells how many known-bad locks were caught", async () => {
    const { code, stdout } = await sandbox().tenure(["lab", "soak", "--minutes", "0.01"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^\d+ runs, [\d.]+ hours of simulated time/);
    expect(stdout).toMatch(/^(\d+) of \1 known-bad locks caught$/m);
    expect(stdout).toMatch(/^no invariant was broken$/m);
  });

  test.each([
    [["--minutes", "0"], "--minutes is a number"],
    [["--runs", "-3"], "--runs"],
    [["--store", "paper"], "--store is poll or"],
    [["now"], 'unexpected argument "now"'],
  ])("refuses %j", async (args, complaint) => {
    const { code, stderr } = await sandbox().tenure(["lab", "soak", ...args]);
    expect(code).toBe(64);
    expect(stderr).toContain(complaint);
  });
});

describe("tenure lab shrink", () => {
  test("tells the faults that a known-bad lock needs to fail, and writes the small run", async () => {
    const box = sandbox();
    const history = box.file("small.jsonl");
    const args = ["lab", "shrink", "9", "--variant", "monotonic-only", "--history", history];
    const { code, stdout } = await box.tenure([...args, "--json"]);
    expect(code).toBe(0);
    const small = JSON.parse(stdout) as Record<string, unknown>;
    expect(small).toMatchObject({ seed: 9, violation: { invariant: "I7" } });
    expect(small["events"]).toBeLessThanOrEqual(4);
    expect(String(small["faults"])).toContain("suspend");
    expect(readFileSync(history, "utf8").split("\n").length).toBeGreaterThan(10);
  });

  test("ends with 1 where nothing breaks, and with 64 for what it does not know", async () => {
    const box = sandbox();
    const sound = await box.tenure(["lab", "shrink", "1"]);
    expect([sound.code, sound.stdout.trim()]).toEqual([1, "seed 1 breaks no invariant"]);
    const unknown = await box.tenure(["lab", "shrink", "1", "--variant", "monotonic"]);
    expect([unknown.code, unknown.stderr]).toEqual([64, expect.stringContaining("did you mean")]);
    expect((await box.tenure(["lab", "shrink"])).code).toBe(64);
  });
});
