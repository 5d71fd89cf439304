import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import { until } from "../patterns/until.js";
import { describeOn } from "../servers/find.js";
import { postgresProgram, startPostgres, type PostgresServer } from "../servers/postgres.js";
import { isRunning, Sandbox } from "./cli-process.js";

const EACH_SECOND = "* * * * * *";

/** A command that notes for which fire it runs, and with which token. */
const noting = (box: Sandbox, more = ""): string[] =>
  box.script(
    "note.cjs",
    `const { appendFileSync } = require("node:fs");
     const { TENURE_FIRE, TENURE_TOKEN, TENURE_NAME } = process.env;
     const line = [TENURE_FIRE, TENURE_TOKEN, TENURE_NAME, process.pid].join(" ");
     appendFileSync("notes", line + "\\n");
     ${more}`,
  );

const notes = (box: Sandbox): { fire: string; token: bigint; pid: number }[] => {
  let text = "";
  try {
    text = readFileSync(box.file("notes"), "utf8");
  } catch {
    // Nothing has run yet.
  }
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const [fire, token, , pid] = line.split(" ");
      return { fire: fire!, token: BigInt(token!), pid: Number(pid) };
    });
};

it("runs a command once per fire on several processes, beside leases in the same file", async () => {
  await using box = new Sandbox();
  const command = noting(box);
  const held = box.start(["run", "job", "--json", "--", "sleep", "30"]);
  await held.event("started");
  const args = ["cron", "job", EACH_SECOND, "--json", "--", ...command];
  const started = Array.from({ length: 4 }, () => box.start(args));
  await Promise.all(started.map((one) => one.event("scheduled")));
  await until(() => notes(box).length >= 4, 30_000);
  for (const one of started) one.kill("SIGTERM");
  const ended = await Promise.all(started.map((one) => one.ended));
  expect(ended.map(({ code }) => code)).toEqual([143, 143, 143, 143]);
  const seen = notes(box);
  const times = seen.map(({ fire }) => Date.parse(fire));
  // One that comes while the command still runs is skipped.
  expect(times).toEqual([...new Set(times)].sort());
  for (const [i, { token }] of seen.entries()) {
    if (i > 0) expect(token).toBeGreaterThan(seen[i - 1]!.token);
  }
});

it("goes on after a command that fails, and says so", async () => {
  await using box = new Sandbox();
  const one = box.start([
    "cron",
    "job",
    EACH_SECOND,
    "--json",
    "--",
    ...noting(box, "process.exit(3)"),
  ]);
  const failed = await one.event("fire-failed");
  expect(failed).toMatchObject({ name: "job", why: "the command ended with exit code 3" });
  expect(failed["fire"]).toMatch(/^\d{4}-\d\d-\d\dT.*Z$/);
  await until(() => notes(box).length >= 2, 30_000);
  one.kill("SIGINT");
  expect((await one.ended).code).toBe(130);
});

it("passes an ending signal to the command, and waits for it", async () => {
  await using box = new Sandbox();
  const slow = `process.on("SIGTERM", () => setTimeout(() => {
    appendFileSync("notes", "end 1 x 1\\n"); process.exit(0); }, 300));
    setInterval(() => {}, 1000); console.log("up");`;
  const one = box.start(["cron", "job", EACH_SECOND, "--json", "--", ...noting(box, slow)]);
  await one.until(/up/);
  one.kill("SIGTERM");
  expect((await one.ended).code).toBe(143);
  expect(
    notes(box)
      .map(({ fire }) => fire)
      .at(-1),
  ).toBe("end");
  expect(notes(box)).toHaveLength(2);
});

it("runs a fire again whose process was killed, and kills what that left running", async () => {
  await using box = new Sandbox();
  const hangs = `if (!require("node:fs").existsSync("again")) setInterval(() => {}, 1000);`;
  const args = [
    "cron",
    "job",
    "*/5 * * * * *",
    "--ttl",
    "1s",
    "--json",
    "--",
    ...noting(box, hangs),
  ];
  const first = box.start(args);
  await first.event("started");
  await until(() => notes(box).length === 1);
  box.write("again", "");
  const second = box.start(args);
  await second.event("scheduled");
  first.kill("SIGKILL");
  await until(() => notes(box).length >= 2, 15_000);
  const [before, after] = notes(box);
  expect(after!.fire).toBe(before!.fire);
  expect(after!.token).toBeGreaterThan(before!.token);
  expect(isRunning(before!.pid)).toBe(false);
  second.kill("SIGTERM");
  await second.ended;
});

it("tells what is wrong with the command line", async () => {
  await using box = new Sandbox();
  const wrong = (args: readonly string[], env = {}) => box.tenure(["cron", ...args], { env });
  const command = ["--", "true"];
  const all = await Promise.all([
    wrong(["job", "61 * * * *", ...command]),
    wrong(["job", ...command]),
    wrong(["job", "*", "*", "*", "*", "*", ...command]),
    wrong(["job", "* * * * *", "--missed", "some", ...command]),
    wrong(["job", "* * * * *", "--tz", "Mars/Base", ...command]),
    wrong(["job", "* * * * *", "--store", "redis://127.0.0.1", ...command]),
    wrong(["job", "* * * * *"]),
    wrong(["job", EACH_SECOND, "--", "no-such-command"]),
    wrong(["job", "* * * * *", "--store", "postgres://u:secret@127.0.0.1:1/d", ...command]),
  ]);
  const first = all.map(({ code, stderr }) => [code, stderr.split("\n")[0]]);
  expect(first).toEqual([
    [64, expect.stringMatching(/EXPRESSION must be a cron expression .*61/)],
    [64, expect.stringMatching(/EXPRESSION is missing/)],
    [64, expect.stringMatching(/unexpected argument "\*"/)],
    [64, expect.stringMatching(/--missed is skip or last or all, got "some"/)],
    [64, expect.stringMatching(/--tz must be a time zone/)],
    [64, expect.stringMatching(/SQLite or Postgres, not in "redis:"/)],
    [64, expect.stringMatching(/must follow after --/)],
    [127, expect.stringMatching(/no-such-command: no such command/)],
    [69, expect.not.stringContaining("secret")],
  ]);
});

describeOn(postgresProgram, "tenure cron on PostgreSQL", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  }, 60_000);
  afterAll(async () => {
    await server?.dispose();
  });

  it("runs each fire once, and makes up for the last one that was missed", async () => {
    await using box = new Sandbox();
    const command = noting(box);
    const args = (expression: string) => [
      ...["cron", "job", expression, "--missed", "last", "--store", server.url],
      ...["--json", "--", ...command],
    ];
    const started = [1, 2, 3].map(() => box.start(args(EACH_SECOND)));
    await until(() => notes(box).length >= 3, 30_000);
    for (const one of started) one.kill("SIGTERM");
    await Promise.all(started.map((one) => one.ended));
    const fires = notes(box).map(({ fire }) => fire);
    expect(fires).toEqual([...new Set(fires)].sort());
    await server.query("UPDATE tenure.schedule_name SET upto_ms = upto_ms - 7200000");
    const again = box.start(args("0 0 * * * *"));
    await until(() => notes(box).length > fires.length, 30_000);
    again.kill("SIGTERM");
    await again.ended;
    expect(notes(box).at(-1)!.fire).toMatch(/:00:00.000Z$/);
  });
});
