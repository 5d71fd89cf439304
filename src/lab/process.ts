/**
 * One simulated process: its clocks, its timers, and whether it runs.
 *
 * Everything that its code does begins in a timer or in something that it is told (`receive`).
 * While it is paused neither happens; both are made up for when it goes on, one after the other, as
 * an event loop does that was stopped. A killed process is never told anything again.
 *
 * Its clocks advance with the world's time at a rate of their own. **Paused** (SIGSTOP, a blocked
 * loop) all of them go on. **Suspended** (a laptop asleep) the monotonic clock stands still, and
 * the timers with it. A **frozen machine** (a hypervisor's pause) moves nothing but the wall clock.
 */
import type { Clock, Timer, Timers } from "../core/clock.js";
import type { EventType, TenureEvent } from "../core/events.js";
import type { Runtime } from "../core/runtime.js";
import { Schedule } from "./schedule.js";
import type { World } from "./world.js";

/** Settings of a process. */
export interface ProcessOptions {
  /** How fast its clocks run. Default 1. */
  readonly rate?: number;
  /** How far its wall clock is off at the start, milliseconds. Default 0. */
  readonly wallOffMs?: number;
  /** Whether it has an uptime clock, as on Linux. Default true. */
  readonly uptime?: boolean;
}

/** Some day in 2023. */
const WALL_START_MS = 1_700_000_000_000;
const UPTIME_STEP_MS = 10;
const SMALLEST_STEP_MS = 1e-6;

type Stop = "paused" | "suspended" | "frozen";

interface Kept {
  readonly what: string;
  untilMs: number;
}

/** Something that a process keeps open elsewhere. */
export interface Keeping {
  /** It was cared for: its time begins anew. */
  again(): void;
  end(): void;
}

function inWords(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${Number((ms / 1_000).toFixed(1))} s`;
}

/** A process of a simulated world. */
export class SimulatedProcess {
  readonly name: string;
  readonly world: World;
  readonly runtime: Runtime;
  /** Told every event that its tenure publishes. */
  onEvent: (event: TenureEvent) => void = () => undefined;
  readonly #timers = new Schedule();
  readonly #inbox: (() => void)[] = [];
  readonly #rate: number;
  readonly #points = new Map<string, (() => void)[]>();
  #monotonic = 1_000;
  #uptime = 5_000;
  #wall: number;
  #sinceMs: number;
  #stop: Stop | undefined;
  #stops = 0;
  #isKilled = false;
  #wake: Timer | undefined;
  #sleeps = 0;
  readonly #kept = new Set<Kept>();
  #eventLoopMaxMs = 0;
  #pausedAtMs = 0;

  constructor(world: World, name: string, options: ProcessOptions = {}) {
    this.world = world;
    this.name = name;
    this.#rate = options.rate ?? 1;
    this.#wall = WALL_START_MS + (options.wallOffMs ?? 0);
    this.#sinceMs = world.nowMs;
    const hasUptime = options.uptime !== false;
    const clock: Clock = {
      monotonicMs: () => this.#read().#monotonic,
      uptimeMs: () =>
        hasUptime ? Math.floor(this.#read().#uptime / UPTIME_STEP_MS) * UPTIME_STEP_MS : undefined,
      wallMs: () => this.#read().#wall,
    };
    const timers: Timers = {
      after: (delayMs, run) => this.#after(delayMs, run),
      soon: (run) => this.#after(0, run),
    };
    this.runtime = {
      clock,
      timers,
      random: world.draws.fork(name),
      events: { wants: (_: EventType) => true, publish: (event) => this.onEvent(event) },
      pauses: {
        start: () => (this.#eventLoopMaxMs = 0),
        read: () => ({ eventLoopMaxMs: this.#eventLoopMaxMs, gcMaxMs: 0, gcTotalMs: 0 }),
        stop: () => undefined,
      },
      holderInfo: { host: name },
    };
  }

  get isAlive(): boolean {
    return !this.#isKilled;
  }

  get isRunning(): boolean {
    return !this.#isKilled && this.#stop === undefined;
  }

  /** Timers set through its runtime, and neither fired nor cancelled. */
  get pendingTimers(): number {
    return this.#timers.count() - this.#sleeps;
  }

  /**
   * Notes something that it opened elsewhere, such as a subscription, until it is let go. With
   * `forMs` it ends by itself, that long after its process last cared for it.
   */
  keep(what: string, forMs: number = Infinity): Keeping {
    const kept = { what, untilMs: this.world.nowMs + forMs };
    this.#kept.add(kept);
    return {
      again: () => void (kept.untilMs = this.world.nowMs + forMs),
      end: () => void this.#kept.delete(kept),
    };
  }

  /** What it opened elsewhere and has not let go: what, and how many. */
  get kept(): ReadonlyMap<string, number> {
    const counts = new Map<string, number>();
    for (const { what, untilMs } of this.#kept) {
      if (untilMs > this.world.nowMs) counts.set(what, (counts.get(what) ?? 0) + 1);
    }
    return counts;
  }

  /** Runs `run` in this process: at once if it runs, else when it goes on, else never. */
  receive(run: () => void): void {
    if (this.#isKilled) return;
    if (this.#stop === undefined) run();
    else this.#inbox.push(run);
  }

  /** SIGSTOP, until `resume`. */
  pause(): void {
    this.#halt("paused", "pause");
  }

  /** SIGCONT, or the end of a suspend. */
  resume(): void {
    if (this.#stop === undefined || this.#isKilled) return;
    this.#read();
    this.#stop = undefined;
    this.#eventLoopMaxMs = Math.max(this.#eventLoopMaxMs, this.world.nowMs - this.#pausedAtMs);
    this.world.history.add({ kind: "fault", what: "resume", target: this.name });
    // Whether timers or messages come first differs between versions of the loop.
    const isTimersFirst = this.runtime.random.uniform() < 0.5;
    if (isTimersFirst) this.#arm();
    for (const run of this.#inbox.splice(0)) {
      this.world.after(0, () => this.receive(run));
    }
    if (!isTimersFirst) this.#arm();
  }

  /** Stopped for a time: SIGSTOP and SIGCONT, a blocked event loop, a long garbage collection. */
  pauseFor(ms: number): void {
    this.#haltFor("paused", "pause", ms);
  }

  /** The machine sleeps: its monotonic clock stands still meanwhile. */
  suspendFor(ms: number): void {
    this.#haltFor("suspended", "suspend", ms);
  }

  /** The hypervisor stops the machine: of its clocks only the wall clock knows. */
  freezeMachineFor(ms: number): void {
    this.#haltFor("frozen", "freeze-machine", ms);
  }

  /** Somebody sets the wall clock; negative sets it back. */
  jumpWall(ms: number): void {
    const [sign, far] = [ms < 0 ? "back" : "ahead", inWords(Math.abs(ms))];
    if (!this.world.strikes(`the wall clock of ${this.name} is set ${sign} by ${far}`)) return;
    this.#read();
    this.#wall += ms;
    this.world.history.add({ kind: "fault", what: "wall-clock", target: this.name, forMs: ms });
  }

  /** SIGKILL. */
  kill(): void {
    if (this.#isKilled || !this.world.strikes(`${this.name} is killed`)) return;
    this.#isKilled = true;
    this.#wake?.cancel();
    this.#inbox.length = 0;
    this.world.history.add({ kind: "fault", what: "kill", target: this.name });
  }

  /**
   * A place in the code of this process at which a scenario can stop it. Goes on at once, unless
   * somebody waits for this place; a process stopped there goes on when it is resumed.
   */
  async point(label: string): Promise<void> {
    for (const run of this.#points.get(label)?.splice(0) ?? []) run();
    if (this.isRunning) return;
    await new Promise<void>((resolve) => this.receive(resolve));
  }

  /** Runs `run` when this process next comes to a place. */
  onPoint(label: string, run: () => void): void {
    const waiting = this.#points.get(label) ?? [];
    waiting.push(run);
    this.#points.set(label, waiting);
  }

  /** Waits on its own clock: for work of the lab, which the library knows nothing of. */
  sleep(ms: number): Promise<void> {
    this.#sleeps += 1;
    return new Promise((resolve) => {
      this.#after(ms, () => {
        this.#sleeps -= 1;
        resolve();
      });
    });
  }

  #haltFor(stop: Stop, what: string, ms: number): void {
    if (!this.isRunning) return;
    this.#halt(stop, what, ms);
    const nth = this.#stops;
    this.world.after(ms, () => {
      if (nth === this.#stops) this.resume();
    });
  }

  #halt(stop: Stop, what: string, forMs?: number): void {
    if (!this.isRunning) return;
    const forHow = forMs === undefined ? "" : ` for ${inWords(forMs)}`;
    if (!this.world.strikes(`${this.name} is ${stop}${forHow}`)) return;
    this.#read();
    this.#stop = stop;
    this.#stops += 1;
    this.#pausedAtMs = this.world.nowMs;
    this.#wake?.cancel();
    const fault = { kind: "fault", what, target: this.name } as const;
    this.world.history.add(forMs === undefined ? fault : { ...fault, forMs });
  }

  /** Brings the clocks up to the world's time. */
  #read(): this {
    const passedMs = (this.world.nowMs - this.#sinceMs) * this.#rate;
    this.#sinceMs = this.world.nowMs;
    if (this.#stop === undefined || this.#stop === "paused") this.#monotonic += passedMs;
    if (this.#stop !== "frozen") this.#uptime += passedMs;
    this.#wall += passedMs;
    return this;
  }

  #after(delayMs: number, run: () => void): Timer {
    if (Number.isNaN(delayMs)) throw new RangeError("a timer needs a delay, got NaN");
    const dueMs = this.#read().#monotonic + Math.max(0, delayMs);
    const entry = this.#timers.add(dueMs, run);
    if (this.#timers.first() === entry) this.#arm();
    return { cancel: () => (entry.run = undefined) };
  }

  /** Sees to it that the next timer fires. */
  #arm(): void {
    this.#wake?.cancel();
    this.#wake = undefined;
    const next = this.#timers.first();
    if (next === undefined || !this.isRunning) return;
    const leftMs = next.atMs - this.#read().#monotonic;
    // Rounding may bring the world there a hair early: a step that is too small moves nothing.
    const inMs = leftMs <= 0 ? 0 : Math.max(leftMs / this.#rate, SMALLEST_STEP_MS);
    this.#wake = this.world.after(inMs, () => this.#fire());
  }

  /** One timer, so that its consequences come before the next. */
  #fire(): void {
    const first = this.#timers.first();
    const nowMs = this.#read().#monotonic;
    // A timer never fires early: who set it looks at the clock.
    if (first !== undefined && first.atMs <= nowMs) this.#timers.take()?.run?.();
    this.#arm();
  }
}
