/**
 * Expiry by observation, for stores that compare no clocks: a contender may take a record over once
 * it has itself seen the record unchanged for the record's full TTL, on its own clock.
 *
 * What was seen is kept between calls, so that one who only ever tries can take over too.
 */
import type { Held } from "./backend.js";
import type { Clock } from "./clock.js";
import { elapsedMs, marginMs, now } from "./deadline.js";
import type { Moment } from "./deadline.js";

/** Names that are remembered at once; the longest unseen goes first. */
const MOST_NAMES = 10_000;

interface Sighting {
  readonly version: string;
  readonly since: Moment;
}

/** Records seen, and since when unchanged. */
export class Observed {
  readonly #clock: Clock;
  readonly #byName = new Map<string, Sighting>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Takes note of a record; answers how long it has to stay unchanged before a take-over. */
  note(name: string, held: Held): number | undefined {
    if (held.version === undefined || held.ttlMs === undefined) return undefined;
    const at = now(this.#clock);
    const seen = this.#byName.get(name);
    this.#byName.delete(name);
    const sighting = seen?.version === held.version ? seen : { version: held.version, since: at };
    this.#byName.set(name, sighting);
    if (this.#byName.size > MOST_NAMES) this.#byName.delete(this.#byName.keys().next().value!);
    // The holder's clock may run slower than ours by the bound that deadlines assume.
    return Math.max(0, held.ttlMs + marginMs(held.ttlMs) - elapsedMs(sighting.since, at));
  }

  /** The version to take over, once its time has come. */
  ripe(name: string, held: Held): string | undefined {
    return this.note(name, held) === 0 ? held.version : undefined;
  }

  forget(name: string): void {
    this.#byName.delete(name);
  }
}
