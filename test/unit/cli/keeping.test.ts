import { describe, expect, it } from "vitest";
import { passed } from "../../../src/cli/command-end.js";
import { keep } from "../../../src/cli/keeping.js";
import { stamp } from "../../../src/cli/machine-time.js";

/** Longer than any test may take. */
const LONG_MS = 3_600_000;
const report = { keeping: () => undefined };

describe("waiting for a time, or a signal", () => {
  it("ends at once where a signal had aborted before (no listener hears that)", async () => {
    await passed(LONG_MS, new AbortController().signal, AbortSignal.abort());
  });

  it("ends when one aborts, and when the time has passed", async () => {
    const ending = new AbortController();
    const waiting = passed(LONG_MS, new AbortController().signal, ending.signal);
    ending.abort();
    await waiting;
    await passed(1, new AbortController().signal);
  });
});

describe("keeping a lease for --at-least", () => {
  const signals = { asked: undefined, waiting: new AbortController().signal };

  it("ends when the lease is lost, though its signal had aborted before", async () => {
    let looks = 0;
    const lease = {
      signal: AbortSignal.abort(),
      get state() {
        return ++looks > 3 ? ("lost" as const) : ("unknown" as const);
      },
      remaining: () => 1,
    };
    expect(await keep(lease, { at: stamp(), inMs: LONG_MS }, signals, report)).toBe(true);
    expect(looks).toBe(4);
  });

  it("goes on when a renewal gets through after the signal, until the time has passed", async () => {
    const lease = { signal: AbortSignal.abort(), state: "held" as const, remaining: () => 5 };
    const until = { at: stamp(), inMs: 50 };
    expect(await keep(lease, until, signals, report)).toBe(true);
    expect(stamp().monotonicMs - until.at.monotonicMs).toBeGreaterThanOrEqual(50);
  });

  it("is over when an ending signal comes", async () => {
    const ending = new AbortController();
    const lease = { signal: signals.waiting, state: "held" as const, remaining: () => LONG_MS };
    const until = { at: stamp(), inMs: LONG_MS };
    const kept = keep(lease, until, { asked: undefined, waiting: ending.signal }, report);
    ending.abort();
    expect(await kept).toBe(false);
  });
});
