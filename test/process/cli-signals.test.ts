import { describe, expect, it } from "vitest";
import { beating, isRunning, isStopped, machineMs, Sandbox } from "./cli-process.js";
import { until, waitersOf } from "./cli-process.js";

describe("signals to tenure run", () => {
  it("TERM goes to the command, and the lease is free only after it has ended", async () => {
    await using box = new Sandbox();
    const beats = box.file("beats");
    // It takes its time to end.
    const more = 'process.on("SIGTERM", () => setTimeout(() => process.exit(5), 400));';
    const slow = beating(beats, more);
    const first = box.start(["run", "a", "--", ...box.script("slow.cjs", slow)]);
    await first.until(/up/);
    const next = "console.log(Number(process.hrtime.bigint()) / 1e6)";
    const second = box.start(["run", "a", "--", ...box.script("next.cjs", next)]);
    await waitersOf(box, "a", 1);
    first.kill("SIGTERM");
    expect((await first.ended).code).toBe(5);
    const nextMs = Number((await second.ended).stdout);
    expect(nextMs).toBeGreaterThan(Number(box.lines("beats").at(-1)));
  });

  it.each([["SIGINT", 130], ["SIGTERM", 143], ["SIGHUP", 129], ["SIGQUIT", 131]] as const)(
    "%s ends a command that does not catch it, and what it started",
    async (signal, code) => {
      await using box = new Sandbox();
      const running = box.start(["run", "a", "-c", "--", "sleep 100 & echo $! up; wait"]);
      const sleeper = Number((await running.until(/(\d+) up/))[1]);
      running.kill(signal);
      expect((await running.ended).code).toBe(code);
      expect(isRunning(sleeper)).toBe(false);
      expect((await box.show("a"))["held"]).toBe(false);
    },
  );

  it("USR1 and USR2 go to the command alone", async () => {
    await using box = new Sandbox();
    // A member of the group without a handler would die of them.
    const script = `trap 'echo one' USR1; trap 'echo two; exit 4' USR2
      sleep 100 & s=$!; echo up; while :; do wait $s; kill -0 $s || exit 9; done`;
    const running = box.start(["run", "a", "-c", "--", script]);
    await running.until(/up/);
    running.kill("SIGUSR1");
    await running.until(/one/);
    running.kill("SIGUSR2");
    expect((await running.ended).code).toBe(4);
  });

  it("TSTP stops the command and then the wrapper, CONT continues both", async () => {
    await using box = new Sandbox();
    // It starts nothing: a shell that is stopped while it does waits inside vfork, in no state T.
    const more = 'process.on("SIGCONT", () => { console.log("on"); process.exit(4); });';
    const script = box.script("on.cjs", beating(box.file("beats"), more));
    const running = box.start(["run", "a", "--", ...script]);
    const child = Number((await running.until(/up (\d+)/))[1]);
    running.kill("SIGTSTP");
    await until("stopped", () => isStopped(running.pid) && isStopped(child));
    running.kill("SIGCONT");
    await running.until(/on/);
    expect((await running.ended).code).toBe(4);
  });

  it("TERM while waiting ends it within 200 ms and leaves no waiter", async () => {
    await using box = new Sandbox();
    const holder = box.start(["run", "a", "-c", "--", "echo up; cat"]);
    await holder.until(/up/);
    for (const [signal, code] of [["SIGTERM", 143], ["SIGINT", 130]] as const) {
      const waiter = box.start(["run", "a", "--", "true"]);
      await waitersOf(box, "a", 1);
      const sentMs = machineMs();
      waiter.kill(signal);
      expect((await waiter.ended).code).toBe(code);
      expect(machineMs() - sentMs).toBeLessThan(200);
      expect((await box.show("a"))["waiters"] ?? 0).toBe(0);
    }
    holder.write("");
    await holder.ended;
    expect((await box.tenure(["run", "a", "-n", "--", "true"])).code).toBe(0);
  });

  it("Ctrl-C at a terminal reaches the command once", async () => {
    await using box = new Sandbox();
    const code = `let n = 0;
      const end = () => { console.log("INT " + n); process.exit(6); };
      process.on("SIGINT", () => { n++; setTimeout(end, 150); });
      setInterval(() => undefined, 1000);
      console.log("up");`;
    const [node, file] = box.script("int.cjs", code);
    // The terminal turns the byte 3 into SIGINT for its foreground group.
    box.write("type.sh", "while ! grep -q up typed; do sleep 0.05; done; printf '\\003'; sleep 1\n");
    const seen = box.shell(
      `sh type.sh | script -qfec "$tenure run a -- ${node} ${file}" typed >/dev/null; cat typed`,
    );
    expect(seen.stdout).toMatch(/INT 1\r?\n/);
    expect(seen.stdout).not.toContain("INT 2");
  });
});
