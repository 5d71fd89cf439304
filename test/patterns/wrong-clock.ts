/** A process whose wall clock is wrong. */
import type { Runtime } from "../../src/core/runtime.js";
import { platform } from "../../src/platform/index.js";

/** The real world, but for a wall clock that is off by so many milliseconds. */
export function withWallClockOff(byMs: number): Runtime {
  const real = platform();
  const { clock } = real;
  return {
    ...real,
    clock: {
      monotonicMs: () => clock.monotonicMs(),
      uptimeMs: () => clock.uptimeMs(),
      wallMs: () => clock.wallMs() + byMs,
    },
  };
}
