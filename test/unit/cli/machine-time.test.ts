import { describe, expect, it } from "vitest";
import { left, restMs } from "../../../src/cli/machine-time.js";

describe("the limit that the wrapper tells its guard", () => {
  const at = { monotonicMs: 1_000, uptimeMs: 5_000 };
  const limit = { at, termInMs: 900, killInMs: 1_000 };

  it("counts from its stamp, so that a message that was late gives no more time", () => {
    const read = { monotonicMs: 1_800, uptimeMs: 5_800 };
    expect(left(limit, read)).toEqual({ termMs: 100, killMs: 200 });
  });

  it("counts a suspend, during which the monotonic clock stood still", () => {
    const read = { monotonicMs: 1_100, uptimeMs: 65_100 };
    expect(left(limit, read).killMs).toBeLessThan(0);
  });

  it("counts by the monotonic clock where the coarser one is behind", () => {
    const read = { monotonicMs: 2_001, uptimeMs: 5_990 };
    expect(left(limit, read).killMs).toBeLessThan(0);
  });
});

describe("the time until which a lease is kept", () => {
  const until = { at: { monotonicMs: 1_000, uptimeMs: 5_000 }, inMs: 500 };

  it("is not over before its time because the coarser clock has just made a step", () => {
    expect(restMs(until, { monotonicMs: 1_491, uptimeMs: 5_500 })).toBe(9);
    expect(restMs(until, { monotonicMs: 1_500, uptimeMs: 5_500 })).toBe(0);
  });

  it("counts a suspend", () => {
    expect(restMs(until, { monotonicMs: 1_100, uptimeMs: 65_000 })).toBeLessThan(0);
  });
});
