import { describe, expect, it } from "vitest";
import { beating, isRunning, machineMs, parentOf, Sandbox, waitersOf } from "./cli-process.js";
import type { Running } from "./cli-process.js";

const TTL_MS = 1_500;
/** From the last renewal that could have been sent: no deadline is later than a TTL from then. */
const LATEST_MS = TTL_MS + 100;

/** Code that prints the machine's time. */
const NOW = "console.log(Number(process.hrtime.bigint()) / 1e6)";

/** A run whose command notes the time every 5 ms; `pids` are the command's and the guard's. */
async function beats(
  box: Sandbox,
  name: string,
  more = "",
): Promise<{ run: Running; child: number; guard: number; last(): number }> {
  const file = `beats-${name}`;
  const script = box.script(`${file}.cjs`, beating(box.file(file), more));
  const run = box.start(["run", name, "--ttl", `${TTL_MS}ms`, "--json", "--", ...script]);
  const child = Number((await run.until(/up (\d+)/))[1]);
  const last = (): number => Number(box.lines(file).at(-1));
  return { run, child, guard: parentOf(child), last };
}

/** Waits for the end of a process that is not ours to reap. */
async function gone(pid: number): Promise<void> {
  while (isRunning(pid)) await pause(5);
}

async function pause(ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms));
}

/** Notes the moment of TERM in a file, and goes on. */
function termNoted(file: string): string {
  return `process.on("SIGTERM", () => require("node:fs").writeFileSync(
    ${JSON.stringify(file)}, String(Number(process.hrtime.bigint()) / 1e6)));`;
}

describe("the guard of tenure run", () => {
  it("ends the command of a killed wrapper before anybody else gets the lease (case 46)", async () => {
    await using box = new Sandbox();
    const slow = 'process.on("SIGTERM", () => setTimeout(process.exit, 900));';
    const first = await beats(box, "a", slow);
    const second = box.start(["run", "a", "--", ...box.script("next.cjs", NOW)]);
    await waitersOf(box, "a", 1);
    const killedMs = machineMs();
    first.run.kill("SIGKILL");
    await gone(first.child);
    expect(first.last() - killedMs).toBeLessThan(LATEST_MS);
    expect(Number((await second.ended).stdout)).toBeGreaterThan(first.last());
    await gone(first.guard);
  });

  it.each([
    ["longer than the TTL", ["--ttl", "5s", "--at-least", "8s"], 8_000],
    ["shorter than the TTL", ["--ttl", "40s", "--at-least", "3s"], 3_000],
  ])("keeps the lease of a killed wrapper for an --at-least %s", async (_, flags, atLeastMs) => {
    await using box = new Sandbox();
    const script = box.script("beats.cjs", beating(box.file("beats")));
    const startedMs = machineMs();
    const run = box.start(["run", "a", ...flags, "--", ...script]);
    const child = Number((await run.until(/up (\d+)/))[1]);
    run.kill("SIGKILL");
    await gone(child);
    expect(await box.show("a")).toMatchObject({ held: true });
    const next = await box.tenure(["run", "a", "--", ...box.script("next.cjs", NOW)]);
    expect(Number(next.stdout) - startedMs).toBeGreaterThanOrEqual(atLeastMs);
    expect(Number(next.stdout) - startedMs).toBeLessThan(30_000);
  });

  it("keeps the lease of a wrapper that is killed while it waits for --at-least", async () => {
    await using box = new Sandbox();
    const startedMs = machineMs();
    const flags = ["--ttl", "5s", "--at-least", "8s", "--json"];
    const run = box.start(["run", "a", ...flags, "--", "true"]);
    await run.event("keeping");
    run.kill("SIGKILL");
    const next = await box.tenure(["run", "a", "--", ...box.script("next.cjs", NOW)]);
    expect(Number(next.stdout) - startedMs).toBeGreaterThanOrEqual(8_000);
  });

  it("kills by the deadline a command that ignores TERM, of a killed wrapper", async () => {
    await using box = new Sandbox();
    const { run, child, last } = await beats(box, "a", 'process.on("SIGTERM", () => undefined);');
    const killedMs = machineMs();
    run.kill("SIGKILL");
    await gone(child);
    expect(last() - killedMs).toBeLessThan(LATEST_MS);
  });

  it("ends the command of a frozen wrapper by the deadline; the exit code is 79", async () => {
    await using box = new Sandbox();
    const { run, child, last } = await beats(box, "a", 'process.on("SIGTERM", () => undefined);');
    const frozenMs = machineMs();
    run.kill("SIGSTOP");
    await gone(child);
    expect(last() - frozenMs).toBeLessThan(LATEST_MS);
    run.kill("SIGCONT");
    expect((await run.ended).code).toBe(79);
  });

  it("sends TERM the grace before the deadline, and KILL at it", async () => {
    await using box = new Sandbox();
    const script = box.script("grace.cjs", beating(box.file("beats"), termNoted(box.file("term"))));
    const flags = ["--ttl", "1500ms", "--grace", "400ms"];
    const run = box.start(["run", "a", ...flags, "--", ...script]);
    const child = Number((await run.until(/up (\d+)/))[1]);
    run.kill("SIGSTOP");
    await gone(child);
    const graceMs = Number(box.lines("beats").at(-1)) - Number(box.lines("term")[0]);
    expect(graceMs).toBeGreaterThan(250);
    expect(graceMs).toBeLessThan(550);
  });

  it("kills at once after everything was frozen; somebody else has had the lease", async () => {
    await using box = new Sandbox();
    const { run, child, guard, last } = await beats(box, "a");
    const { token } = await box.show("a");
    for (const pid of [run.pid, guard, child]) process.kill(pid, "SIGSTOP");
    const frozenMs = machineMs();
    const code = "console.log(process.env.TENURE_TOKEN, Number(process.hrtime.bigint()) / 1e6)";
    const next = await box.tenure(["run", "a", "--", ...box.script("next.cjs", code)]);
    const [nextToken, nextMs] = next.stdout.trim().split(" ");
    expect(BigInt(nextToken!) > BigInt(token as string)).toBe(true);
    expect(Number(nextMs) - frozenMs).toBeLessThan(TTL_MS + 1_000);
    await pause(3 * TTL_MS - (machineMs() - frozenMs));
    const wokenMs = machineMs();
    for (const pid of [child, guard, run.pid]) process.kill(pid, "SIGCONT");
    expect((await run.ended).code).toBe(79);
    expect(isRunning(child)).toBe(false);
    expect(last() - wokenMs).toBeLessThan(500);
    expect(machineMs() - wokenMs).toBeLessThan(1_000);
  });

  it("leaves the killing to the wrapper when the guard itself is frozen", async () => {
    await using box = new Sandbox();
    const { run, child, guard, last } = await beats(box, "a");
    const { token } = await box.show("a");
    process.kill(guard, "SIGSTOP");
    await box.tenure(["break", "a", "--token", token as string, "--reason", "test"]);
    const brokenMs = machineMs();
    const ended = await run.ended;
    expect(ended.code).toBe(79);
    expect(isRunning(child)).toBe(false);
    expect(last() - brokenMs).toBeLessThan(LATEST_MS);
    await gone(guard);
  });

  it("does not leave the command running when the guard itself is killed", async () => {
    await using box = new Sandbox();
    const { run, child, guard } = await beats(box, "a");
    process.kill(guard, "SIGKILL");
    expect((await run.ended).code).toBe(137);
    expect(isRunning(child)).toBe(false);
    expect((await box.show("a"))["held"]).toBe(false);
  });

  it("stops the command when the lease is broken, and ends with 79", async () => {
    await using box = new Sandbox();
    const { run, child } = await beats(box, "a", 'process.on("SIGTERM", () => process.exit(0));');
    const { token } = await box.show("a");
    const broken = await box.tenure(["break", "a", "--token", token as string, "--reason", "test"]);
    expect(broken.code).toBe(0);
    const ended = await run.ended;
    expect(ended.code).toBe(79);
    expect(ended.stderr).toContain('"reason":"absent"');
    expect(isRunning(child)).toBe(false);
  });

  it("ends what the command left running, before the lease is given back", async () => {
    await using box = new Sandbox();
    const slow = 'process.on("SIGTERM", () => setTimeout(process.exit, 300));';
    const [node, file] = box.script("left.cjs", beating(box.file("beats"), slow));
    const line = `${node} ${file} & while ! test -s beats; do sleep 0.01; done; exit 8`;
    const first = await box.tenure(["run", "a", "-c", "--json", "--", line]);
    const endedMs = machineMs();
    expect(first.code).toBe(8);
    const lastMs = Number(box.lines("beats").at(-1));
    expect(lastMs).toBeLessThan(endedMs);
    const left = Number(/up (\d+)/.exec(first.stdout)![1]);
    expect(isRunning(left)).toBe(false);
    expect(first.stderr).toContain('"answer":"released"');
  });
});
