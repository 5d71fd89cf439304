import { describe, expect, it } from "vitest";
import { machineMs, Sandbox } from "./cli-process.js";

describe("tenure run: exit codes", () => {
  it("ends as the command ended (case 46)", async () => {
    await using box = new Sandbox();
    const script = "echo out; echo err >&2; exit 7";
    const ended = await box.tenure(["run", "a", "--", "sh", "-c", script]);
    expect(ended).toEqual({ code: 7, signal: null, stdout: "out\n", stderr: "err\n" });
    expect((await box.show("a"))["held"]).toBe(false);
  });

  it("ends with 128 + signal when a signal ended the command (case 46)", async () => {
    await using box = new Sandbox();
    expect((await box.tenure(["run", "a", "--", "sh", "-c", "kill -9 $$"])).code).toBe(137);
    expect((await box.tenure(["run", "a", "--", "sh", "-c", "kill -HUP $$"])).code).toBe(129);
  });

  it("ends with 127 for no such command, 126 for one that cannot be run, and lets go", async () => {
    await using box = new Sandbox();
    const plain = box.write("plain", "text", 0o644);
    const missing = await box.tenure(["run", "a", "--", "no-such-command-here"]);
    expect(missing.code).toBe(127);
    expect(missing.stderr).toContain("no-such-command-here: no such command");
    const word = await box.tenure(["run", "a", "--", "exit", "3"]);
    expect(word).toMatchObject({ code: 127, stderr: expect.stringContaining("-c -- 'exit 3'") });
    expect((await box.tenure(["run", "a", "--", plain])).code).toBe(126);
    expect((await box.tenure(["run", "a", "--", box.dir])).code).toBe(126);
    expect((await box.show("a"))["held"]).toBe(false);
  });

  it("with -n ends with 75, or the code of -E, when the name is held, and says by whom", async () => {
    await using box = new Sandbox();
    const holder = box.start(["run", "a", "--", "sh", "-c", "echo up; cat"]);
    await holder.until(/up/);
    const busy = await box.tenure(["run", "a", "-n", "--", "echo", "never"]);
    expect(busy.code).toBe(75);
    expect(busy.stdout).toBe("");
    expect(busy.stderr).toContain(String(holder.pid));
    const json = await box.tenure(["run", "a", "-n", "--json", "--", "true"]);
    expect(JSON.parse(json.stderr)).toMatchObject({ event: "not-acquired", name: "a" });
    expect((await box.tenure(["run", "a", "-n", "-E", "3", "--", "true"])).code).toBe(3);
    expect((await box.tenure(["run", "a", "--wait", "100ms", "--", "true"])).code).toBe(75);
    expect((await box.show("a"))["waiters"] ?? 0).toBe(0);
    holder.write("");
    expect((await holder.ended).code).toBe(0);
    expect((await box.tenure(["run", "a", "-n", "--", "true"])).code).toBe(0);
  });

  it.each([
    [["run", "a", "--bad", "--", "true"], "--bad"],
    [["run", "a", "--ttl", "5", "--", "true"], '--ttl needs a number and a unit, got "5"'],
    [["run", "a", "--ttl", "0s", "--", "true"], "--ttl"],
    [["run", "a", "--ttl", "-1s", "--", "true"], "--ttl"],
    [["run", "a", "--wait", "1s", "-n", "--", "true"], "--wait"],
    [["run", "a", "--ttl", "3s", "--grace", "1s", "--", "true"], "--grace"],
    [["run", "a", "-E", "256", "--", "true"], '-E needs a number from 0 to 255, got "256"'],
    [["run", "a", "--on-unavailable", "maybe", "--", "true"], '"maybe"'],
    [["run", "a", "true"], "tenure run a -- true"],
    [["run", "a", "--"], "COMMAND"],
    [["run", "--", "true"], "NAME"],
    [["run", "", "--", "true"], "NAME"],
    [["run", "é".repeat(257), "--", "true"], "512 bytes"],
    [["run", "a", "b", "--", "true"], '"b"'],
    [["run", "a", "--store", "nosuch:x", "--", "true"], "nosuch:"],
    [["check", "a", "--token", "1e3"], '"1e3"'],
    [["check", "a"], "--token"],
    [["release", "a", "--token", "1"], "--holder"],
    [["break", "a", "--token", "1"], "--reason"],
    [["run", "a", "--ttl", "1ms", "--", "true"], "--ttl must be at least"],
    [["run", "a", "-c", "--ttl", "5s", "echo x"], "tenure run a -c --ttl 5s -- 'echo x'"],
    [["nosuch"], '"nosuch"'],
    [[], "--help"],
  ])("ends with 64 for %j", async (args, names) => {
    await using box = new Sandbox();
    const ended = await box.tenure(args);
    expect(ended).toMatchObject({ code: 64, stdout: "" });
    expect(ended.stderr).toContain(names);
  });
});

describe("tenure run: the command", () => {
  it("finds its lease in the environment, over what was inherited", async () => {
    await using box = new Sandbox();
    const tell = 'echo "$TENURE_NAME $TENURE_TOKEN $TENURE_TTL_MS"';
    box.write("inner.sh", `${tell}\n`);
    box.write("outer.sh", `${tell}\n$tenure run inner -- sh inner.sh\n${tell}\n`);
    const outer = box.shell("$tenure run outer --ttl 9s -- sh outer.sh");
    expect(outer.code).toBe(0);
    const [first, second, third] = outer.stdout.trim().split("\n").map((line) => line.split(" "));
    expect(first).toEqual(["outer", expect.stringMatching(/^\d+$/), "9000"]);
    expect(second).toEqual(["inner", expect.stringMatching(/^\d+$/), "30000"]);
    expect(second![1]).not.toBe(first![1]);
    expect(third).toEqual(first);
  });

  it("gets a store that means the same in another folder", async () => {
    await using box = new Sandbox();
    const ended = await box.tenure([
      "run", "a", "--store", "sqlite:./here.db", "-c", "--", "cd / && echo $TENURE_STORE",
    ]);
    expect(ended.stdout).toBe(`sqlite:${box.file("here.db")}\n`);
  });

  it("gets its words as they are, and a shell only with -c", async () => {
    await using box = new Sandbox();
    const plain = await box.tenure(["run", "a", "--", "echo", "$HOME", "*", "a  b", "--json"]);
    expect(plain.stdout).toBe("$HOME * a  b --json\n");
    const shell = await box.tenure(["run", "a", "-c", "--", "echo one | tr n N;", "echo", "two"]);
    expect(shell.stdout).toBe("oNe\ntwo\n");
  });

  it("reads the stdin of the wrapper", async () => {
    await using box = new Sandbox();
    const running = box.start(["run", "a", "--", "cat"]);
    running.write("through\n");
    expect(await running.ended).toMatchObject({ code: 0, stdout: "through\n" });
  });

  it("has the terminal on its standard streams", async () => {
    await using box = new Sandbox();
    box.write("tty.sh", "test -t 0 && test -t 1 && test -t 2 && echo is-a-tty\n");
    const seen = box.shell('script -qec "$tenure run a -- sh tty.sh" /dev/null');
    expect(seen.stdout).toContain("is-a-tty");
  });

  it("tells events as JSON on stderr and leaves stdout alone", async () => {
    await using box = new Sandbox();
    const ended = await box.tenure(["run", "a", "--json", "-c", "--", "echo $TENURE_TOKEN"]);
    const events = ended.stderr.trim().split("\n").map((line) => JSON.parse(line));
    expect(events.map(({ event }) => event as string)).toEqual([
      "granted", "started", "ended", "released",
    ]);
    expect(ended.stdout.trim()).toBe(events[0].token);
  });

  it("is told about with --help, as every verb is", async () => {
    await using box = new Sandbox();
    const help = await box.tenure(["--help"]);
    for (const verb of ["run", "acquire", "renew", "release", "check", "show", "ls", "break"]) {
      expect(help.stdout).toMatch(new RegExp(`^  ${verb} `, "m"));
      const ended = await box.tenure([verb, "--help"]);
      expect(ended).toMatchObject({ code: 0, stderr: "" });
      expect(ended.stdout).toContain(`usage: tenure ${verb} `);
      expect(ended.stdout).toMatch(new RegExp(`^  (lease=\\$\\()?tenure ${verb}`, "m"));
    }
    expect((await box.tenure(["--version"])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });
});

describe("tenure run --at-least", () => {
  const now = "console.log(Number(process.hrtime.bigint()) / 1e6)";

  it("keeps the lease that long from the grant, even if the command ends sooner", async () => {
    await using box = new Sandbox();
    const startedMs = machineMs();
    const first = box.start(["run", "a", "--at-least", "900ms", "--json", "--", "true"]);
    await first.event("keeping");
    const second = box.start(["run", "a", "--", ...box.script("now.cjs", now)]);
    expect((await first.ended).code).toBe(0);
    const { code, stdout } = await second.ended;
    expect(code).toBe(0);
    expect(Number(stdout) - startedMs).toBeGreaterThanOrEqual(900);
  });

  it("renews a TTL that is shorter", async () => {
    await using box = new Sandbox();
    const startedMs = machineMs();
    const args = ["--ttl", "400ms", "--at-least", "1200ms"];
    const first = box.start(["run", "a", ...args, "--json", "--", "true"]);
    await first.event("keeping");
    const second = box.start(["run", "a", "--", ...box.script("now.cjs", now)]);
    expect((await first.ended).stderr).toContain('"event":"released"');
    expect(Number((await second.ended).stdout) - startedMs).toBeGreaterThanOrEqual(1200);
  });

  it("ends at a signal with the command's code, and the lease runs out in time", async () => {
    await using box = new Sandbox();
    const startedMs = machineMs();
    const flags = ["--at-least", "3s", "--ttl", "1500ms", "--json"];
    const first = box.start(["run", "a", ...flags, "--", "sh", "-c", "exit 3"]);
    await first.event("keeping");
    const keptMs = machineMs();
    first.kill("SIGTERM");
    expect((await first.ended).code).toBe(3);
    expect(await box.show("a")).toMatchObject({ held: true });
    const second = await box.tenure(["run", "a", "--", ...box.script("now.cjs", now)]);
    expect(Number(second.stdout) - startedMs).toBeGreaterThanOrEqual(3000);
    expect(Number(second.stdout) - keptMs).toBeLessThan(3000 + 1000);
  });
});
