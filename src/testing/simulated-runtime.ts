import type { TenureEvent } from "../core/events.js";
import type { Random } from "../core/random.js";
import type { PauseMonitor, Runtime } from "../core/runtime.js";
import { SimulatedTimers } from "./simulated-timers.js";

/** Settings of {@link simulatedRuntime}. */
export interface SimulationOptions {
  /** Start of the random sequence. Two processes of one test need two seeds: else ids repeat. */
  readonly seed: number;
  /** Wall clock at the start, milliseconds. Default: some day in 2023. */
  readonly wallMs?: number;
  /** Whether there is an uptime clock (Linux). Default true. */
  readonly uptime?: boolean;
}

/** A runtime whose time moves only when a test says so. */
export interface Simulation {
  readonly runtime: Runtime;
  /** All events published so far; may be emptied by the test. */
  readonly events: TenureEvent[];
  /** Lets time pass, firing each timer at its moment and letting promises settle in between. */
  advance(ms: number): Promise<void>;
  /** Fires what is due now and lets promises settle; no time passes. */
  settle(): Promise<void>;
  /**
   * Lets time pass until the promise settles.
   *
   * @throws Error when it has not settled within `limitMs` of simulated time. Default one hour.
   */
  until<T>(promise: Promise<T>, limitMs?: number): Promise<T>;
  /** The machine sleeps: uptime and wall clock move, the monotonic clock and timers do not. */
  suspend(ms: number): void;
  /** The hypervisor stops the machine: only the wall clock moves. */
  pauseVm(ms: number): void;
  /** Somebody sets the wall clock; negative sets it back. */
  jumpWall(ms: number): void;
  /**
   * The event loop is blocked: all clocks move at once and nothing runs. What became due
   * meanwhile fires late, one after the other, at the next `settle` or `advance`.
   */
  block(ms: number): void;
  /** Timers set and neither fired nor cancelled; `ref`: those that keep a process alive. */
  pendingTimers(which?: "all" | "ref"): number;
  /** Whether the pause monitor runs. */
  isMonitoring(): boolean;
}

const NOVEMBER_2023_MS = 1_700_000_000_000;
const ONE_HOUR_MS = 3_600_000;
/** Step of the uptime clock on Linux. */
const UPTIME_STEP_MS = 10;

/** A simulated runtime: same seed and same calls, same run. */
export function simulatedRuntime(options: SimulationOptions): Simulation {
  let monotonicMs = 5_000;
  let uptimeMs = 5_000;
  let wallMs = options.wallMs ?? NOVEMBER_2023_MS;
  const events: TenureEvent[] = [];
  const timers = new SimulatedTimers(() => monotonicMs);
  const pauses = simulatedPauses();

  function readUptimeMs(): number | undefined {
    if (options.uptime === false) return undefined;
    return Math.floor(uptimeMs / UPTIME_STEP_MS) * UPTIME_STEP_MS;
  }

  function pass(ms: number): void {
    monotonicMs += ms;
    uptimeMs += ms;
    wallMs += ms;
  }

  /** Fires what is due at this very moment, in order, and lets promises settle. */
  async function settle(): Promise<void> {
    await timers.quiet();
    while ((timers.nextDueMs() ?? Infinity) <= monotonicMs) {
      timers.fireNext();
      await timers.quiet();
    }
  }

  /** Settles, then goes to the next timer within the limit; false when there is none. */
  async function step(limitMs: number): Promise<boolean> {
    await settle();
    const due = timers.nextDueMs();
    if (due === undefined || due > limitMs) return false;
    pass(due - monotonicMs);
    return true;
  }

  return {
    runtime: {
      clock: { monotonicMs: () => monotonicMs, uptimeMs: readUptimeMs, wallMs: () => wallMs },
      timers,
      random: seededRandom(options.seed),
      events: { wants: () => true, publish: (event) => void events.push(event) },
      pauses,
      holderInfo: { host: "simulated", pid: options.seed },
    },
    events,
    settle,
    async advance(ms) {
      const targetMs = monotonicMs + nonNegative(ms);
      while (await step(targetMs));
      pass(targetMs - monotonicMs);
      await settle();
    },
    async until(promise, limitMs = ONE_HOUR_MS) {
      const targetMs = monotonicMs + limitMs;
      let settled = false;
      const note = (): void => void (settled = true);
      promise.then(note, note);
      do await settle();
      while (!settled && (await step(targetMs)));
      if (!settled) {
        pass(targetMs - monotonicMs);
        await settle();
      }
      if (settled) return await promise;
      throw new Error(`the promise did not settle within ${limitMs} ms of simulated time`);
    },
    suspend(ms) {
      uptimeMs += nonNegative(ms);
      wallMs += ms;
    },
    pauseVm: (ms) => void (wallMs += nonNegative(ms)),
    jumpWall: (ms) => void (wallMs += ms),
    block(ms) {
      pass(nonNegative(ms));
      pauses.noteBlock(ms);
    },
    pendingTimers: (which = "all") => timers.count(which),
    isMonitoring: () => pauses.isRunning(),
  };
}

interface SimulatedPauses extends PauseMonitor {
  noteBlock(ms: number): void;
  isRunning(): boolean;
}

function simulatedPauses(): SimulatedPauses {
  let running = false;
  let eventLoopMaxMs = 0;
  return {
    start() {
      running = true;
      eventLoopMaxMs = 0;
    },
    stop: () => void (running = false),
    read: () => ({ eventLoopMaxMs, gcMaxMs: 0, gcTotalMs: 0 }),
    noteBlock(ms) {
      if (running) eventLoopMaxMs = Math.max(eventLoopMaxMs, ms);
    },
    isRunning: () => running,
  };
}

/** A repeatable sequence (a Weyl step and a multiply-xorshift mix of 32 bits). */
function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  let ids = 0;
  function draw(): number {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = state ^ (state >>> 16);
    mixed = Math.imul(mixed, 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return (mixed ^ (mixed >>> 15)) >>> 0;
  }
  const hex = (): string => draw().toString(16).padStart(8, "0");
  return {
    uniform: () => draw() / 0x1_0000_0000,
    id: () => `${hex()}${hex()}${hex()}-${++ids}`,
  };
}

function nonNegative(ms: number): number {
  if (!(ms >= 0)) throw new RangeError(`time passes by 0 ms or more, got ${ms}`);
  return ms;
}
