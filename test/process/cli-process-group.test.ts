import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { groupOf, isGone, signalGroup } from "../../src/cli/process-group.js";

describe("a process group", () => {
  it("is signalled as a whole, and gone when nothing of it runs", async () => {
    const leader = spawn("sh", ["-c", "sleep 100 & echo up; wait"], { detached: true });
    const group = groupOf(leader.pid!);
    await once(leader.stdout, "data");
    expect(isGone(group)).toBe(false);
    expect(signalGroup(group, "SIGKILL")).toBe(true);
    // The output ends when the last member has closed it.
    await once(leader, "close");
    expect(isGone(group)).toBe(true);
    expect(signalGroup(group, "SIGKILL")).toBe(false);
  });

  it("is signalled after its leader has ended", async () => {
    const leader = spawn("sh", ["-c", "sleep 100 & echo up"], { detached: true });
    const group = groupOf(leader.pid!);
    await once(leader, "exit");
    expect(isGone(group)).toBe(false);
    expect(signalGroup(group, "SIGTERM")).toBe(true);
    await once(leader, "close");
    expect(isGone(group)).toBe(true);
  });

  it.runIf(process.platform === "linux")("is not a later group of the same id", async () => {
    const stranger = spawn("sleep", ["100"], { detached: true });
    const { startTicks, pid } = groupOf(stranger.pid!);
    const before = { pid, startTicks: String(Number(startTicks) - 1) };
    expect(signalGroup(before, "SIGKILL")).toBe(false);
    expect(signalGroup(before, "SIGKILL", { leaderOnly: true })).toBe(false);
    expect(isGone(before)).toBe(true);
    expect(stranger.exitCode ?? stranger.signalCode).toBeNull();
    stranger.kill("SIGKILL");
    expect(await once(stranger, "exit")).toEqual([null, "SIGKILL"]);
  });
});
