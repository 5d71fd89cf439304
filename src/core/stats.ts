/** What is measured of each name: how long it is waited for and held, and what delays renewals. */
import { Histogram } from "./histogram.js";
import type { TimeStats } from "./histogram.js";
import type { PauseReading } from "./runtime.js";

/** Names that are measured at once; the one unused for longest goes first. */
const MOST_NAMES = 1_000;
/** Holds after which their median says something. */
const ENOUGH_HOLDS = 5;

/** Renewals of one name. */
export interface RenewalStats {
  readonly renewed: number;
  /** Renewals without an answer, or refused by a store that could not serve. */
  readonly failed: number;
  /** How late renewals left: event-loop delay, garbage collection and suspend together. */
  readonly lateness: TimeStats;
  readonly roundTrip: TimeStats;
  /** Longest suspend of the machine that a renewal met, milliseconds. */
  readonly suspendMaxMs: number;
}

/** What `stats(name)` tells. Counted since the tenure began, on this process alone. */
export interface NameStats {
  readonly name: string;
  readonly granted: number;
  readonly refused: number;
  readonly lost: number;
  readonly waits: TimeStats;
  readonly holds: TimeStats;
  readonly renewals: RenewalStats;
  /** Pauses of the whole process, measured while leases are held. */
  readonly pauses: PauseReading;
}

/** The counters of one name. */
export class NameCounters {
  granted = 0;
  refused = 0;
  lost = 0;
  renewed = 0;
  failed = 0;
  suspendMaxMs = 0;
  /** Whether it was told that long holds have become the rule. */
  toldLongHolds = false;
  readonly waits: Histogram = new Histogram();
  readonly holds: Histogram = new Histogram();
  readonly lateness: Histogram = new Histogram();
  readonly roundTrip: Histogram = new Histogram();

  /**
   * Notes a hold; answers the median once it has risen above half the TTL: a hold that often
   * outlasts its first renewals rests on them.
   */
  held(ms: number, ttlMs: number): number | undefined {
    this.holds.add(ms);
    // A short hold raises no median, and most holds are short.
    if (ms <= ttlMs / 2 && !this.toldLongHolds) return undefined;
    const medianMs = this.holds.quantileMs(0.5);
    const isLong = this.holds.count >= ENOUGH_HOLDS && medianMs > ttlMs / 2;
    const isNews = isLong && !this.toldLongHolds;
    this.toldLongHolds = isLong;
    return isNews ? medianMs : undefined;
  }
}

/** The counters of all names. */
export class Stats {
  readonly #byName = new Map<string, NameCounters>();

  of(name: string): NameCounters {
    let counters = this.#byName.get(name);
    if (counters !== undefined && this.#byName.size < MOST_NAMES / 2) return counters;
    this.#byName.delete(name);
    counters ??= new NameCounters();
    this.#byName.set(name, counters);
    if (this.#byName.size > MOST_NAMES) this.#byName.delete(this.#byName.keys().next().value!);
    return counters;
  }

  /** The counters of a name that is still measured: renewals of others do not push it out. */
  known(name: string): NameCounters | undefined {
    return this.#byName.get(name);
  }

  read(name: string, pauses: PauseReading): NameStats {
    const c = this.#byName.get(name) ?? new NameCounters();
    return {
      name,
      granted: c.granted,
      refused: c.refused,
      lost: c.lost,
      waits: c.waits.read(),
      holds: c.holds.read(),
      renewals: {
        renewed: c.renewed,
        failed: c.failed,
        lateness: c.lateness.read(),
        roundTrip: c.roundTrip.read(),
        suspendMaxMs: c.suspendMaxMs,
      },
      pauses,
    };
  }
}
