import { existsSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { Sandbox } from "./cli-process.js";

/** A device whose disk is always full, which Linux has. */
const hasFull = existsSync("/dev/full");
/** Descriptor 4 is a pipe whose reader has left. */
const PIPE = "mkfifo pipe && exec 3<>pipe 4>pipe 3>&- || exit 90;";

describe("acquire, renew, check and release", () => {
  it("go together in a shell script", async () => {
    await using box = new Sandbox();
    const line = `
      lease=$($tenure acquire "it's" --ttl 20s -n) || exit 90
      eval "$lease"
      mine="--holder $TENURE_HOLDER --token $TENURE_TOKEN"
      $tenure acquire "it's" -n 2>/dev/null; echo busy $?
      $tenure check "$TENURE_NAME" --token "$TENURE_TOKEN"; echo check $?
      $tenure check "$TENURE_NAME" --token "$TENURE_TOKEN" --holder "$TENURE_HOLDER"; echo both $?
      $tenure check "$TENURE_NAME" --token "$TENURE_TOKEN" --holder x 2>/dev/null; echo other $?
      $tenure renew "$TENURE_NAME" $mine; echo renew $?
      $tenure renew "$TENURE_NAME" $mine --ttl 50s --json
      $tenure release "$TENURE_NAME" $mine; echo release $?
      $tenure release "$TENURE_NAME" $mine 2>/dev/null; echo again $?
      $tenure renew "$TENURE_NAME" $mine 2>/dev/null; echo lost $?
      $tenure check "$TENURE_NAME" --token "$TENURE_TOKEN" 2>/dev/null; echo gone $?`;
    const ended = box.shell(line);
    expect(ended.stderr).toBe("");
    const lines = ended.stdout.trim().split("\n");
    const renewed = lines.splice(5, 1)[0]!;
    expect(lines).toEqual([
      "busy 75", "check 0", "both 0", "other 79", "renew 0",
      "release 0", "again 79", "lost 79", "gone 79",
    ]);
    expect(JSON.parse(renewed)).toMatchObject({ name: "it's", ttlMs: 50_000 });
  });

  it("leave the lease when the process has ended, until its TTL has passed", async () => {
    await using box = new Sandbox();
    const first = JSON.parse((await box.tenure(["acquire", "a", "--ttl", "4s", "--json"])).stdout);
    expect(await box.show("a")).toMatchObject({ held: true, token: first.token });
    const second = JSON.parse((await box.tenure(["acquire", "a", "--json"])).stdout);
    expect(BigInt(second.token) > BigInt(first.token)).toBe(true);
    const mine = ["--holder", first.holder, "--token", first.token];
    expect((await box.tenure(["release", "a", ...mine])).code).toBe(79);
    expect(await box.show("a")).toMatchObject({ held: true, token: second.token });
  });

  it("tell a program who holds what was refused", async () => {
    await using box = new Sandbox();
    const { token } = JSON.parse((await box.tenure(["acquire", "a", "--json"])).stdout);
    const refused = await box.tenure(["acquire", "a", "-n", "--json"]);
    expect(refused).toMatchObject({ code: 75, stdout: "" });
    expect(JSON.parse(refused.stderr)).toMatchObject({ exitCode: 75, held: { token } });
  });

  it.runIf(hasFull).each([
    ["a full disk", "> /dev/full"],
    ["a full disk, as JSON", "--json > /dev/full"],
    ["a pipe without a reader", ">&4"],
  ])("leave no lease of which nobody has learned: %s", async (_, output) => {
    await using box = new Sandbox();
    const ended = box.shell(`${PIPE} $tenure acquire a ${output}`);
    expect(ended).toMatchObject({ code: 74, stdout: "" });
    expect(ended.stderr).toMatch(/not be written to stdout, and was given back.*E(NOSPC|PIPE)/);
    expect(ended.stderr.startsWith("{")).toBe(output.includes("--json"));
    expect(await box.show("a")).toMatchObject({ held: false });
  });

  it("take no lease when stdout is closed; the null device is not", async () => {
    await using box = new Sandbox();
    expect(box.shell("$tenure acquire a >&-")).toMatchObject({
      code: 74,
      stderr: expect.stringContaining("stdout is closed"),
    });
    expect(await box.show("a")).toMatchObject({ held: false });
    expect(box.shell("$tenure acquire a > /dev/null")).toMatchObject({ code: 0, stderr: "" });
    expect(await box.show("a")).toMatchObject({ held: true });
  });

  it("set the time left and never add to it", async () => {
    await using box = new Sandbox();
    const { holder, token } = JSON.parse(
      (await box.tenure(["acquire", "a", "--ttl", "1h", "--json"])).stdout,
    );
    for (let i = 0; i < 3; i++) {
      await box.tenure(["renew", "a", "--holder", holder, "--token", token, "--ttl", "10s"]);
    }
    expect((await box.show("a"))["expiresInMs"]).toBeLessThanOrEqual(10_000);
  });
});

describe("ls, show and break", () => {
  it("tell who holds what", async () => {
    await using box = new Sandbox();
    expect(await box.tenure(["ls"])).toMatchObject({ code: 0, stdout: "" });
    await box.tenure(["acquire", "job:b", "--ttl", "1m"]);
    await box.tenure(["acquire", "job:a\u0007", "--ttl", "1m"]);
    await box.tenure(["acquire", "other", "--ttl", "1m"]);
    const list = (await box.tenure(["ls", "job:"])).stdout.trim().split("\n");
    expect(list[0]).toMatch(/^NAME +TOKEN +LEFT +HOLDER$/);
    const names = list.slice(1).map((line) => line.split(" ")[0]);
    expect(names).toEqual(['"job:a\\u{7}"', "job:b"]);
    const json = (await box.tenure(["ls", "--json"])).stdout.trim().split("\n");
    expect(json.map((line) => JSON.parse(line).name)).toEqual(["job:a\u0007", "job:b", "other"]);
    expect(JSON.parse(json[0]!)).toMatchObject({ token: expect.stringMatching(/^\d+$/) });
    const shown = await box.tenure(["show", "job:b"]);
    expect(shown.code).toBe(0);
    expect(shown.stdout).toMatch(/^token +\d+$/m);
    const free = await box.tenure(["show", "nobody"]);
    expect(free).toMatchObject({ code: 1, stdout: "nobody is free\n" });
    const odd = await box.tenure(["show", 'a "b"']);
    expect(odd).toMatchObject({ code: 1, stdout: '"a \\"b\\"" is free\n' });
  });

  it("break ends the lease of exactly that token; the next token is higher", async () => {
    await using box = new Sandbox();
    const { token } = JSON.parse((await box.tenure(["acquire", "a", "--json"])).stdout);
    const breaking = (of: string): string[] => ["break", "a", "--token", of, "--reason", "test"];
    expect((await box.tenure(breaking("1"))).code).toBe(79);
    expect(await box.show("a")).toMatchObject({ held: true });
    expect((await box.tenure(breaking(token))).code).toBe(0);
    expect(await box.show("a")).toMatchObject({ held: false });
    const next = JSON.parse((await box.tenure(["acquire", "a", "--json"])).stdout);
    expect(BigInt(next.token) > BigInt(token)).toBe(true);
  });

  it("end quietly when their reader has seen enough", async () => {
    await using box = new Sandbox();
    await box.tenure(["acquire", "a", "--ttl", "1m"]);
    expect(box.shell("$tenure ls | true").stderr).toBe("");
    const gone = box.shell(`${PIPE} for verb in ls "show a" --version; do $tenure $verb >&4; done`);
    expect(gone).toMatchObject({ code: 0, stderr: "" });
  });

  it("say so when only the beginning of it could be", async () => {
    await using box = new Sandbox();
    const ended = box.shell("ulimit -f 1; $tenure --help > part");
    expect(ended).toMatchObject({ code: 74, stderr: expect.stringContaining("EFBIG") });
    expect(box.lines("part")[0]).toContain("one process at a time");
  });

  it.runIf(hasFull)("say that their result could not be written", async () => {
    await using box = new Sandbox();
    await box.tenure(["acquire", "a", "--ttl", "1m"]);
    for (const verb of [
      ...["ls", "ls --json", "show a", "show nobody", "check a --token 1 --json", "lab list"],
      ...["break a --token 1 --reason x --json", "--version", "--help", "acquire --help"],
      ...["elect a --observe", "migrate --print --backend postgres", "partitions a"],
    ]) {
      const ended = box.shell(`$tenure ${verb} > /dev/full`);
      expect(ended, verb).toMatchObject({ code: 74, stdout: "" });
      expect(ended.stderr, verb).toMatch(/result could not be written to stdout.*ENOSPC/);
      expect(ended.stderr.startsWith("{"), verb).toBe(verb.includes("--json"));
    }
  });
});
