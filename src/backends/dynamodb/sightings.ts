/**
 * What processes of one machine have seen of records, left in the records themselves.
 *
 * A contender that waits watches a dead holder's record for one TTL and takes it over. One that
 * never waits, a command that cron starts every minute, sees the record for the first time each
 * time, and would never be let in. So a process leaves a note in a record that refused it: which
 * version it saw, and when, by the clocks of its boot. The next one of the same boot reads how long
 * ago that was.
 *
 * Why this compares no clocks of two machines: a note counts only for the boot that wrote it. Both
 * of its clocks must have moved on by a TTL: the monotonic one stands still while the machine is
 * suspended, and copies of one machine image may share it with its boot's id; the wall clock may
 * jump. The smaller of the two counts.
 */
import type { Clock } from "../../core/clock.js";
import { marginMs } from "../../core/deadline.js";
import type { Machine } from "./client.js";
import type { LeaseRecord, Sighting } from "./record.js";

/** Notes in one record: those of many boots are of no use to anybody any more. */
export const MOST_NOTES = 32;

/** Names that this process has left a note for; the oldest are forgotten. */
const MOST_NAMES = 10_000;

/** The notes of this process's boot. */
export class Sightings {
  readonly #machine: Machine;
  readonly #clock: Clock;
  readonly #noted = new Set<string>();

  constructor(machine: Machine, clock: Clock) {
    this.#machine = machine;
    this.#clock = clock;
  }

  /** Name of the notes of this boot in a record; undefined where the platform tells no boot. */
  get boot(): string | undefined {
    const { bootId, clockId } = this.#machine;
    return bootId === undefined ? undefined : `${bootId} ${clockId}`.trim();
  }

  /** Whether a process of this boot has seen this version, unchanged, for its whole TTL. */
  isRipe({ ttlMs, seen, version }: LeaseRecord): boolean {
    const note = seen.get(this.boot ?? "");
    return note?.version === version && this.#passedMs(note) >= ttlMs + marginMs(ttlMs);
  }

  /**
   * A note to leave in a record that refused this process; undefined where there is one, and from
   * the second time on: a process that goes on remembers by itself. A note of the future was left
   * before a clock was set back, or by a copy of this machine, and is written anew.
   */
  note({ name, version, seen }: LeaseRecord): Sighting | undefined {
    if (this.boot === undefined || this.#noted.has(name)) return undefined;
    this.#noted.add(name);
    const [oldest] = this.#noted.size > MOST_NAMES ? this.#noted : [];
    if (oldest !== undefined) this.#noted.delete(oldest);
    const known = seen.get(this.boot);
    const isOfUse = known?.version === version && this.#passedMs(known) >= 0;
    return isOfUse ? undefined : { version, ...this.#now() };
  }

  /** How long ago a note was left, by the clock that says less. */
  #passedMs({ monotonicMs, wallMs }: Sighting): number {
    const now = this.#now();
    return Math.min(now.monotonicMs - monotonicMs, now.wallMs - wallMs);
  }

  #now(): Pick<Sighting, "monotonicMs" | "wallMs"> {
    const [monotonicMs, wallMs] = [this.#machine.nowMs(), this.#clock.wallMs()];
    return { monotonicMs: Math.floor(monotonicMs), wallMs: Math.floor(wallMs) };
  }
}
