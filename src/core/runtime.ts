import type { Clock, Timers } from "./clock.js";
import type { EventSink } from "./events.js";
import type { Random } from "./random.js";

/** What a pause monitor has seen since it was started; all in milliseconds. */
export interface PauseReading {
  /** Longest delay of the event loop. */
  readonly eventLoopMaxMs: number;
  /** Longest single garbage collection. */
  readonly gcMaxMs: number;
  /** Sum of all garbage collections. */
  readonly gcTotalMs: number;
}

/** Measures what stops a process from renewing. Runs only while leases are held. */
export interface PauseMonitor {
  start(): void;
  read(): PauseReading;
  stop(): void;
}

/**
 * Everything the core takes from the outside world. The real one is `platform()`; a simulation
 * passes its own.
 */
export interface Runtime {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly random: Random;
  readonly events: EventSink;
  readonly pauses: PauseMonitor;
  /** Says which process this is, for people who look at the store: host, pid and the like. */
  readonly holderInfo: Readonly<Record<string, string | number>>;
}
