import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { uptime } from "node:os";
import { afterEach, describe, expect, it, vi } from "vitest";
import { machineClock, machineTimers } from "../../../src/platform/clocks.js";
import { diagnosticsChannels } from "../../../src/platform/channels.js";
import { machinePauses } from "../../../src/platform/pauses.js";
import { platform } from "../../../src/platform/index.js";

afterEach(() => vi.useRealTimers());

describe("timers of the machine", () => {
  it("hold delays beyond 2^31 ms, which setTimeout would fire at once (case 13)", () => {
    vi.useFakeTimers();
    const day = 24 * 3_600_000;
    let fired = 0;
    machineTimers.after(40 * day, () => fired++);
    vi.advanceTimersByTime(40 * day - 1000);
    expect(fired).toBe(0);
    vi.advanceTimersByTime(2000);
    expect(fired).toBe(1);
  });

  it("never fire early", async () => {
    for (let i = 0; i < 50; i++) {
      const from = performance.now();
      await new Promise<void>((fire) => machineTimers.after(3.3, fire));
      expect(performance.now() - from).toBeGreaterThanOrEqual(3.3);
    }
  });

  it("do nothing once cancelled, also twice", async () => {
    let fired = false;
    const timer = machineTimers.after(1, () => (fired = true));
    const soon = machineTimers.soon(() => (fired = true));
    timer.cancel();
    timer.cancel();
    soon.cancel();
    await new Promise<void>((fire) => machineTimers.after(5, fire));
    expect(fired).toBe(false);
  });
});

describe("clocks of the machine", () => {
  it.runIf(process.platform === "linux")("have the uptime within its step, never going back", () => {
    const clock = machineClock();
    let last = 0;
    const until = performance.now() + 60;
    while (performance.now() < until) {
      const told = clock.uptimeMs()!;
      expect(Math.abs(told - uptime() * 1000)).toBeLessThanOrEqual(30);
      expect(told).toBeGreaterThanOrEqual(last);
      last = told;
    }
  });
});

describe("events of the machine", () => {
  it("go out on a diagnostics channel each, and cost nothing unheard", () => {
    const heard: unknown[] = [];
    const hear = (message: unknown): void => void heard.push(message);
    expect(diagnosticsChannels.wants("broken")).toBe(false);
    subscribe("tenure:broken", hear);
    expect(diagnosticsChannels.wants("broken")).toBe(true);
    const event = { type: "broken", name: "x", backend: "b", token: 1n, reason: "r" } as const;
    diagnosticsChannels.publish(event);
    expect(heard).toEqual([event]);
    unsubscribe("tenure:broken", hear);
    expect(diagnosticsChannels.wants("broken")).toBe(false);
  });
});

describe("pauses of the machine", () => {
  it("see a blocked event loop, and stop with the last of their users", async () => {
    const pauses = machinePauses();
    pauses.start();
    pauses.start();
    await new Promise<void>((fire) => machineTimers.after(60, fire));
    const until = performance.now() + 150;
    while (performance.now() < until);
    await new Promise<void>((fire) => machineTimers.after(60, fire));
    expect(pauses.read().eventLoopMaxMs).toBeGreaterThan(80);
    pauses.stop();
    expect(pauses.read().eventLoopMaxMs).toBeGreaterThan(80);
    pauses.stop();
    pauses.stop();
  });
});

it("the platform says which process this is", () => {
  expect(platform().holderInfo).toMatchObject({ pid: process.pid });
  expect(platform()).toBe(platform());
});
