import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { beating, isRunning, machineMs, Sandbox, until, waitersOf } from "./cli-process.js";
import type { Running } from "./cli-process.js";

const TTL_MS = 1_500;

/** A candidate whose command notes the time every 5 ms, and its term in a line of `terms`. */
function candidate(box: Sandbox, name: string, more: readonly string[] = []): Running {
  const note = `require("node:fs").appendFileSync(${JSON.stringify(box.file(`terms-${name}`))},
    process.env.TENURE_TERM + "\\n");`;
  const script = box.script(`${name}.cjs`, beating(box.file(`beats-${name}`), note));
  const flags = ["--ttl", `${TTL_MS}ms`, "--json", "--info", name, ...more];
  return box.start(["elect", "job", ...flags, "--", ...script]);
}

async function childOf(leader: Running): Promise<number> {
  return Number((await leader.until(/up (\d+)/))[1]);
}

const last = (box: Sandbox, name: string): number => Number(box.lines(`beats-${name}`).at(-1));
const first = (box: Sandbox, name: string): number => Number(box.lines(`beats-${name}`)[0]);

/** Status of an HTTP answer; 0 when nobody answers in time. */
async function status(port: number): Promise<number> {
  try {
    const signal = AbortSignal.timeout(2_000);
    return (await fetch(`http://127.0.0.1:${port}/`, { signal })).status;
  } catch {
    return 0;
  }
}

/** Changes as `elect --observe --json` has printed them: terms, null for nobody. */
const termsIn = (stdout: string): (string | null)[] =>
  stdout.trim().split("\n").map((line) => JSON.parse(line).leader?.term ?? null);

describe("tenure elect", () => {
  it("a follower leads soon after the leader was killed, which had its command stopped (case 44)", async () => {
    await using box = new Sandbox();
    const watch = box.start(["elect", "job", "--observe", "--json"]);
    await watch.until(/"leader":null/);
    const leader = candidate(box, "a");
    const child = await childOf(leader);
    const follower = candidate(box, "b");
    await follower.event("standing");
    await waitersOf(box, "job", 1);
    const killedMs = machineMs();
    leader.kill("SIGKILL");
    await childOf(follower);
    expect(first(box, "b") - killedMs).toBeLessThan(TTL_MS + 2_000);
    expect(isRunning(child)).toBe(false);
    expect(last(box, "a")).toBeLessThan(first(box, "b"));
    const terms = [box.lines("terms-a")[0]!, box.lines("terms-b")[0]!];
    expect(BigInt(terms[1]!) > BigInt(terms[0]!)).toBe(true);
    await watch.until(new RegExp(terms[1]!));
    // It comes back as a follower, and leads once the other has resigned.
    const back = candidate(box, "c");
    await back.event("standing");
    follower.kill("SIGTERM");
    expect((await follower.ended).code).toBe(143);
    await childOf(back);
    back.kill("SIGTERM");
    expect((await back.ended).code).toBe(143);
    const seen = new RegExp(`${box.lines("terms-c")[0]}[^]*"leader":null`);
    await watch.until(seen);
    watch.kill("SIGTERM");
    const { code, stdout } = await watch.ended;
    expect(code).toBe(143);
    const told = termsIn(stdout);
    expect([told[0], told.at(-1)]).toEqual([null, null]);
    expect(told.filter((term) => term !== null)).toEqual([...terms, box.lines("terms-c")[0]]);
    expect(stdout).toContain('"info":{');
    expect(stdout).toContain('"info":"a"');
  });

  it("a frozen leader has its command killed by the deadline; woken, it is not ready and stands again", async () => {
    await using box = new Sandbox();
    const ready = ["--ready-file", box.file("ready-a"), "--ready-port", "0"];
    const leader = candidate(box, "a", ready);
    const { port } = await leader.event("listening");
    const child = await childOf(leader);
    expect(await status(port)).toBe(200);
    expect(readFileSync(box.file("ready-a"), "utf8").trim()).toBe(box.lines("terms-a")[0]);
    const follower = candidate(box, "b", ["--ready-file", box.file("ready-b")]);
    await waitersOf(box, "job", 1);
    expect(existsSync(box.file("ready-b"))).toBe(false);
    leader.kill("SIGSTOP");
    const frozenMs = machineMs();
    await childOf(follower);
    expect(isRunning(child)).toBe(false);
    expect(last(box, "a") - frozenMs).toBeLessThan(TTL_MS + 100);
    expect(last(box, "a")).toBeLessThan(first(box, "b"));
    // A file cannot know; the port cannot answer.
    expect(existsSync(box.file("ready-a"))).toBe(true);
    leader.kill("SIGCONT");
    expect(await status(port)).toBe(503);
    await until("the file is gone", () => !existsSync(box.file("ready-a")));
    expect(existsSync(box.file("ready-b"))).toBe(true);
    follower.kill("SIGTERM");
    await follower.ended;
    expect(existsSync(box.file("ready-b"))).toBe(false);
    await until("leads again", () => box.lines("terms-a").length === 2);
    await until("is ready again", () => existsSync(box.file("ready-a")));
    expect(await status(port)).toBe(200);
    leader.kill("SIGTERM");
    expect((await leader.ended).code).toBe(143);
    expect(existsSync(box.file("ready-a"))).toBe(false);
  });

  it("stops the command when the term is broken, and runs it again in a later one", async () => {
    await using box = new Sandbox();
    const leader = candidate(box, "a");
    const child = await childOf(leader);
    const [term] = box.lines("terms-a");
    await box.tenure(["break", "job", "--token", term!, "--reason", "test"]);
    await until("the second term", () => box.lines("terms-a").length === 2);
    expect(isRunning(child)).toBe(false);
    leader.kill("SIGINT");
    expect((await leader.ended).code).toBe(130);
  });

  it("ends with the code of a command that ends by itself, and resigns", async () => {
    await using box = new Sandbox();
    const line = 'test "$TENURE_TERM" = "$TENURE_TOKEN" || exit 90; echo $TENURE_NAME; exit 7';
    const ended = await box.tenure(["elect", "job", "-c", "--", line]);
    expect(ended).toMatchObject({ code: 7, stdout: "job\n" });
    expect(await box.show("job")).toMatchObject({ held: false });
    const nested = ["run", "x", "-c", "--", "echo ${TENURE_TERM:-none}"];
    const inner = await box.tenure(nested, { env: { TENURE_TERM: "1" } });
    expect(inner.stdout).toBe("none\n");
  });

  it("a follower that is told to end leaves the line, at once", async () => {
    await using box = new Sandbox();
    await box.tenure(["acquire", "job", "--ttl", "1m"]);
    const follower = box.start(["elect", "job", "--", "echo", "never"]);
    await waitersOf(box, "job", 1);
    follower.kill("SIGTERM");
    expect(await follower.ended).toMatchObject({ code: 143, stdout: "" });
    expect(await box.show("job")).toMatchObject({ waiters: 0 });
  });

  it("observes a store file that nobody has made yet, and does not make it", async () => {
    await using box = new Sandbox();
    const file = box.file("later.db");
    const store = ["--store", `sqlite:${file}`];
    const watch = box.start(["elect", "job", "--observe", "--json", ...store]);
    await watch.until(/"leader":null/);
    const ended = box.start(["elect", "job", "--observe", ...store]);
    await ended.until(/no leader/);
    ended.kill("SIGTERM");
    const { code, stdout, stderr } = await ended.ended;
    expect({ code, stdout }).toEqual({ code: 143, stdout: "no leader\n" });
    expect(stderr).toContain(`there is no store file ${file} yet`);
    expect(existsSync(file)).toBe(false);
    const leader = box.start(["elect", "job", ...store, "-c", "--", "echo up $TENURE_TERM; sleep 60"]);
    const term = (await leader.until(/up (\d+)/))[1]!;
    await watch.until(new RegExp(term));
    leader.kill("SIGTERM");
    await leader.ended;
    await watch.until(new RegExp(`${term}[^]*"leader":null`));
    watch.kill("SIGTERM");
    expect(termsIn((await watch.ended).stdout)).toEqual([null, term, null]);
  });

  it("refuses wrong flags before it stands, naming them", async () => {
    await using box = new Sandbox();
    const wrong: [string, ...string[]][] = [
      ["--ready-port", "--ready-port", "70000", "--", "true"],
      ["--ready-file", "--ready-file", box.file("no/such/folder"), "--", "true"],
      ["--info", "--info", '{"a":{}}', "--", "true"],
      ["--info", "--info", "{a", "--", "true"],
      ["--ttl", "--ttl", "1ms", "--", "true"],
      ["--grace", "--ttl", "3s", "--grace", "2s", "--", "true"],
      ["--observe", "--observe", "--", "true"],
      ["--ttl", "--observe", "--ttl", "3s"],
      ["no COMMAND", "--"],
    ];
    for (const [named, ...args] of wrong) {
      const ended = await box.tenure(["elect", "job", ...args]);
      expect(ended, args.join(" ")).toMatchObject({ code: 64, stdout: "" });
      expect(ended.stderr).toContain(named);
    }
    const missing = await box.tenure(["elect", "job", "--", "no-such-command"]);
    expect(missing.code).toBe(127);
    expect(await box.show("job")).toMatchObject({ held: false });
  });
});
