import { monitorEventLoopDelay, PerformanceObserver } from "node:perf_hooks";
import type { IntervalHistogram } from "node:perf_hooks";
import type { PauseMonitor, PauseReading } from "../core/runtime.js";

/** Sampling step of the event-loop delay, milliseconds; also what is taken off each reading. */
const SAMPLE_MS = 20;

/** Event-loop delay and garbage collections of this process, while anybody measures. */
export function machinePauses(): PauseMonitor {
  let loop: IntervalHistogram | undefined;
  let observer: PerformanceObserver | undefined;
  let users = 0;
  let gcMaxMs = 0;
  let gcTotalMs = 0;
  let loopMaxMs = 0;

  const note = (entries: readonly { readonly duration: number }[]): void => {
    for (const { duration } of entries) {
      gcMaxMs = Math.max(gcMaxMs, duration);
      gcTotalMs += duration;
    }
  };
  const readLoop = (): number => {
    if (loop !== undefined) loopMaxMs = Math.max(loopMaxMs, loop.max / 1e6 - SAMPLE_MS);
    return loopMaxMs;
  };

  return {
    start() {
      if (users++ > 0) return;
      loop = monitorEventLoopDelay({ resolution: SAMPLE_MS });
      loop.enable();
      observer = new PerformanceObserver((list) => note(list.getEntries()));
      observer.observe({ entryTypes: ["gc"] });
    },
    read(): PauseReading {
      if (observer !== undefined) note(observer.takeRecords());
      return { eventLoopMaxMs: Math.max(0, readLoop()), gcMaxMs, gcTotalMs };
    },
    stop() {
      if (users === 0 || --users > 0) return;
      readLoop();
      loop?.disable();
      observer?.disconnect();
      loop = undefined;
      observer = undefined;
    },
  };
}
