import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { isRunning, Sandbox } from "./cli-process.js";

const child = path.resolve(import.meta.dirname, "children/attacked.mjs");

interface Attacked {
  readonly box: Sandbox;
  /** A shell command with one part of the child. */
  part(mode: string): string;
  attack(worker: readonly string[], ...flags: readonly string[]): ReturnType<Sandbox["tenure"]>;
}

function sandbox(): Attacked {
  const box = new Sandbox();
  onTestFinished(() => box[Symbol.asyncDispose]());
  const file = box.file("bank.db");
  const part = (mode: string): string => `${process.execPath} ${child} ${mode} ${file}`;
  const attack = (worker: readonly string[], ...flags: readonly string[]) =>
    box.tenure([
      "lab",
      "attack",
      "--resource",
      part("read"),
      "--freeze-after",
      "1s",
      ...flags,
      "--",
      ...worker,
    ]);
  return { box, part, attack };
}

const worker = ({ part }: Attacked, mode: string): string[] => part(mode).split(" ");

test("the late write of an unfenced worker lands, and is told", async () => {
  const on = sandbox();
  const { code, stdout, stderr } = await on.attack(worker(on, "unfenced"));
  expect(stdout).toMatch(/changed the resource from "" to "stale"\. IT IS NOT FENCED\./);
  expect(code).toBe(1);
  const pid = Number(/the worker \((\d+)\) holds job/.exec(stderr)?.[1]);
  expect(pid).toBeGreaterThan(0);
  expect(isRunning(pid)).toBe(false);
  // What it took over is given back.
  expect((await on.box.tenure(["show", "job"])).code).toBe(1);
});

test("the late write of a fenced worker does not, once its successor has armed", async () => {
  const on = sandbox();
  const flags = ["--successor", on.part("successor"), "--json"];
  const { code, stdout } = await on.attack(worker(on, "fenced"), ...flags);
  const outcome = JSON.parse(stdout) as Record<string, any>;
  expect(outcome).toMatchObject({ name: "job", verdict: "refused", worker: "exit code 1" });
  expect(outcome["seen"]).toEqual(["", "", "successor\n", "successor\n"]);
  const [older, newer] = [outcome["frozen"].token, outcome["successor"].token].map(BigInt);
  expect(newer! > older!).toBe(true);
  expect(code).toBe(0);
});

test("a file that is seen half written is no late write, if it is then as before", async () => {
  const on = sandbox();
  const file = on.box.write("plain.txt", "as it was\n");
  const part = (mode: string): string => `${process.execPath} ${child} ${mode} ${file}`;
  const args = ["lab", "attack", "--resource", part("peek"), "--freeze-after", "1s", "--json"];
  const { code, stdout } = await on.box.tenure([...args, "--", ...part("rewriting").split(" ")]);
  expect(JSON.parse(stdout)).toMatchObject({ verdict: "refused", worker: "exit code 0" });
  expect(code).toBe(0);
});

test.each([
  ["that never takes the lock", "setInterval(() => {}, 1000)", ["--within", "1s"], /still runs/],
  ["that ends without it", "process.exit(7)", [], /ended with exit code 7/],
])("a worker %s is told as such", async (_, code, flags, why) => {
  const on = sandbox();
  const ended = await on.attack(on.box.script("idle.cjs", code), ...flags);
  expect(ended.code).toBe(69);
  expect(ended.stderr).toMatch(/the worker took no lease in sqlite:/);
  expect(ended.stderr).toMatch(why);
});

test("wrong usage and a worker that cannot be run are told as by other verbs", async () => {
  const { box, attack } = sandbox();
  expect((await attack(["/no/such/worker"])).code).toBe(127);
  expect((await box.tenure(["lab", "attack", "--", "true"])).stderr).toContain(
    "--resource is missing",
  );
  const failing = ["lab", "attack", "--resource", "exit 3", "--", "true"];
  expect((await box.tenure(failing)).stderr).toContain("exit code 3");
});
