import { readFileSync } from "node:fs";
import { describe, expect, onTestFinished, test } from "vitest";
import { Sandbox } from "./cli-process.js";

/** A folder of its own for one test. */
function sandbox(): Sandbox {
  const box = new Sandbox();
  onTestFinished(() => box[Symbol.asyncDispose]());
  return box;
}

describe("tenure lab run", () => {
  test.each([
    ["none", 1, 0],
    ["naive", 1, 0],
    ["armed", 0, 1],
  ])("plays one seed with --fence %s", async (fence, lostUpdates, staleRefused) => {
    const args = ["lab", "run", "first-write-hole", "--fence", fence, "--seed", "7", "--json"];
    const { code, stdout } = await sandbox().tenure(args);
    expect(code).toBe(0);
    const outcome = JSON.parse(stdout) as Record<string, unknown>;
    expect(outcome).toMatchObject({
      ...{ scenario: "first-write-hole", seed: 7, fence, grants: 2, lostUpdates, staleRefused },
      asExpected: true,
    });
    expect(outcome["faults"]).toBeGreaterThan(0);
    expect(outcome["traceHash"]).toMatch(/^[0-9a-f]{16}$/);
    expect(outcome["violations"]).toHaveLength(lostUpdates);
  });

  test("draws a timeline, a Mermaid diagram and a page of three panels", async () => {
    const box = sandbox();
    const page = box.file("page.html");
    const drawn = await box.tenure(["lab", "run", "paused-holder", "--html", page]);
    expect(drawn.stdout).toMatch(/^store .*\[=+A t=33=+\[B t=34\]/m);
    expect(drawn.stdout).toMatch(/^checks {4}pass .* I7 I9 I10 I11 I12 I13 \| unknown I8$/m);
    expect(drawn.stdout).toMatch(/^unknown {3}I8: nobody stood for election$/m);
    const written = readFileSync(page, "utf8");
    expect(written.match(/<section /g)).toHaveLength(3);
    // Each is there as it was, and without its only fault.
    expect(written.match(/type="range"/g)).toHaveLength(3);
    expect(written).toContain("A is paused for 20 s (1.528 s): ✓ no update lost: it takes this fault");
    const { stdout } = await box.tenure(["lab", "run", "paused-holder", "--mermaid"]);
    expect(stdout).toMatch(/^sequenceDiagram\n/);
  });

  test("draws a curve of TTLs", async () => {
    const box = sandbox();
    const page = box.file("curve.html");
    const flags = ["--ttl", "10s", "--ttl", "1s", "--turns", "20", "--html", page];
    const { code, stdout } = await box.tenure(["lab", "curve", ...flags]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^ +1 s renewed .*\n +not renewed .*\n +10 s renewed/m);
    expect(readFileSync(page, "utf8")).toContain("<svg");
    const { stdout: json } = await box.tenure(["lab", "curve", ...flags, "--json"]);
    const points = json
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { ttlMs: number });
    expect(points.map(({ ttlMs }) => ttlMs)).toEqual([1_000, 1_000, 10_000, 10_000]);
    expect((await box.tenure(["lab", "curve", "--ttl", "1ms"])).code).toBe(64);
  });

  test("is the same run for the same seed, and says so in its hash", async () => {
    const box = sandbox();
    const hash = async (seed: string): Promise<unknown> => {
      const args = ["lab", "run", "paused-holder", "--seed", seed, "--json"];
      const { stdout } = await box.tenure(args);
      return (JSON.parse(stdout) as Record<string, unknown>)["traceHash"];
    };
    const [one, again, other] = [await hash("5"), await hash("5"), await hash("6")];
    expect(one).toBe(again);
    expect(one).not.toBe(other);
  });

  test.each([
    [["lab", "run", "paused-holdr"], /no scenario "paused-holdr".*\n.*paused-holder/],
    [["lab", "run", "paused-holder", "--seed", "1.5"], /got "1\.5"\n.*1 or 2/],
    [["lab", "run", "paused-holder", "--seed", "4294967296"], /4294967295 or 4294967294/],
    [["lab", "run", "paused-holder", "--fence", "full"], /--fence is none or naive or armed/],
    [["lab", "run"], /SCENARIO is missing/],
    [["lab", "chekc"], /no verb "chekc".*\n.*check/],
    [["lab"], /a verb is missing/],
  ])("%j is wrong usage, and the error helps", async (args, complaint) => {
    const { code, stderr } = await sandbox().tenure(args);
    expect(code).toBe(64);
    expect(stderr).toMatch(complaint);
  });

  test("lists what it can play, and each verb has its own help", async () => {
    const box = sandbox();
    const { stdout } = await box.tenure(["lab", "list"]);
    expect(stdout).toMatch(/^1 +paused-holder +The holder is paused/m);
    const lines = (await box.tenure(["lab", "list", "--json"])).stdout.trim().split("\n");
    expect(lines).toHaveLength(stdout.trim().split("\n").length - 1);
    for (const verb of ["list", "run", "check", "attack", "curve", "soak", "shrink"]) {
      const { code, stdout: help } = await box.tenure(["lab", verb, "--help"]);
      expect(help).toContain(`usage: tenure lab ${verb}`);
      expect(code).toBe(0);
    }
  });
});

describe("tenure lab check", () => {
  const fact = (fields: object): string => `${JSON.stringify(fields)}\n`;
  const grant = (atMs: number, token: string, holder: string): string =>
    fact({ atMs, kind: "grant", key: "job", token, holder, client: holder, ttlMs: 10_000 });
  const end = (atMs: number, token: string, holder: string): string =>
    fact({ atMs, kind: "end", key: "job", token, holder, why: "released" });

  test("finds in a recorded run what the run found", async () => {
    const box = sandbox();
    const file = box.file("run.jsonl");
    const args = ["lab", "run", "late-packet", "--history", file, "--json", "--fence"];
    for (const [fence, exit] of [
      ["none", 1],
      ["armed", 0],
    ] as const) {
      const played = JSON.parse((await box.tenure([...args, fence])).stdout) as {
        violations: unknown[];
      };
      const { code, stdout } = await box.tenure(["lab", "check", file, "--json"]);
      expect(JSON.parse(stdout)).toMatchObject({
        ...{ ok: exit === 0, violations: played.violations },
      });
      expect(code).toBe(exit);
    }
  });

  test("names the breach in a history that somebody wrote", async () => {
    const box = sandbox();
    const file = box.write("two.jsonl", grant(0, "1", "A") + grant(5, "2", "B"));
    const { code, stdout } = await box.tenure(["lab", "check", file]);
    expect(code).toBe(1);
    expect(stdout).toMatch(/fail I1\b/);
    expect(stdout).toContain("B was granted job while A had it");
  });

  test("finds nothing wrong with one that is right, and says what it cannot tell", async () => {
    const box = sandbox();
    const text = grant(0, "9", "A") + end(5, "9", "A") + grant(6, "10", "B");
    const { code, stdout } = await box.tenure(["lab", "check", box.write("good.jsonl", text)]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^ +I9 I11: a history does not say how long a waiter may take$/m);
    const page = box.file("good.html");
    const args = ["lab", "check", box.file("good.jsonl"), "--html", page];
    expect((await box.tenure(args)).stderr).toContain(`wrote ${page}`);
    expect(readFileSync(page, "utf8")).toContain("<svg");
  });

  test.each([
    ["no JSON", "nope\n", "it is no JSON"],
    ["an unknown kind", fact({ atMs: 1, kind: "grunt" }), "kind is one of grant"],
    ["a missing field", fact({ atMs: 1, kind: "wait", key: "k" }), "wait: client is a text"],
    [
      "a token as a number",
      fact({ ...{ atMs: 1, kind: "grant", key: "k", client: "A" }, holder: "h", token: 33 }),
      "grant: token is a token, decimal digits in quotes, got 33",
    ],
    ["a time that goes back", end(5, "1", "A"), "facts stand in their order"],
  ])("tells the line of %s", async (_, line, why) => {
    const box = sandbox();
    const file = box.write("bad.jsonl", `${grant(7, "1", "A")}\n${line}`);
    const { code, stderr } = await box.tenure(["lab", "check", file]);
    expect(code).toBe(2);
    expect(stderr).toContain(`line 3: ${why.includes("order") ? "atMs 5 is before" : why}`);
    expect(stderr).toContain(why);
  });

  test("takes neither an empty history nor a missing file for a good one", async () => {
    const box = sandbox();
    expect((await box.tenure(["lab", "check", box.write("empty.jsonl", "\n")])).code).toBe(2);
    expect((await box.tenure(["lab", "check", box.file("none.jsonl")])).code).toBe(64);
  });
});
