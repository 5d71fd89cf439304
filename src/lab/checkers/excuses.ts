/**
 * Grants whose holder cannot know better for a while: the store let them go early, lost them, or
 * was told to end them, or the holder's machine was frozen together with its clocks while they
 * lived. A renewal tells the holder, and without one its own deadline ends the lease: after a whole
 * TTL there is no excuse any more.
 */
import type { HistoryEvent } from "../history.js";

interface Live {
  readonly id: string;
  readonly client: string;
  readonly ttlMs: number;
}

/** The longest TTL of those that the store tells late, as it does of an offer, milliseconds. */
const LONGEST_TTL_MS = 10_000;
/** For a renewal that is under way at the end of the excuse, milliseconds. */
const ON_THE_WAY_MS = 2_000;

/** Follows a history from fact to fact. */
export class Excuses {
  /** Until when each grant is excused. */
  readonly #untilMs = new Map<string, number>();
  readonly #frozen = new Set<string>();
  readonly #live = new Map<string, Live>();

  /** Takes note of the next fact. */
  see(event: HistoryEvent): void {
    const { atMs } = event;
    if (event.kind === "grant") {
      const { key, token, client, ttlMs, holder } = event;
      const live = { id: `${key} ${token}`, client, ttlMs: Math.max(ttlMs, LONGEST_TTL_MS) };
      this.#live.set(`${live.id} ${holder}`, live);
      // Its request was sent before, and its time began then.
      if (this.#frozen.has(client)) this.#excuse(live, Infinity);
    } else if (event.kind === "end") {
      const id = `${event.key} ${event.token} ${event.holder}`;
      const live = this.#live.get(id);
      const isEarly = event.early === true || event.why === "forgotten" || event.why === "broken";
      if (live !== undefined && isEarly) this.#excuse(live, atMs);
      // What a frozen holder had is excused from when its machine goes on.
      if (live === undefined || !this.#frozen.has(live.client)) this.#live.delete(id);
    } else if (event.kind === "fault" && event.what === "freeze-machine") {
      this.#frozen.add(event.target);
      this.#excuseAll(event.target, Infinity);
    } else if (event.kind === "fault" && event.what === "resume") {
      if (this.#frozen.delete(event.target)) this.#excuseAll(event.target, atMs);
    }
  }

  /** Whether a grant is excused at a moment. */
  has(key: string, token: string, nowMs: number): boolean {
    return nowMs <= (this.#untilMs.get(`${key} ${token}`) ?? -Infinity);
  }

  #excuseAll(client: string, fromMs: number): void {
    for (const live of this.#live.values()) if (live.client === client) this.#excuse(live, fromMs);
  }

  #excuse({ id, ttlMs }: Live, fromMs: number): void {
    this.#untilMs.set(id, fromMs + ttlMs + ON_THE_WAY_MS);
  }
}
