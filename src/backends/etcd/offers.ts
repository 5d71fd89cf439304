import type { Clock } from "../../core/clock.js";
import type { LeaseRecord } from "./records.js";

/** How long an offer stands without having been confirmed, milliseconds. */
const OFFER_MS = 1_000;
const MOST_KEPT = 10_000;

/**
 * Offers of others, as this process sees them: etcd keeps no time for keys that live as long as a
 * session, so whoever is behind an offer watches it, and passes it over when it has stood unchanged
 * for a second on the watcher's own clock.
 */
export class Offers {
  readonly #clock: Clock;
  /** When each was first seen, by key and modification. */
  readonly #seenMs = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether the oldest contender is one that was called and did not come. */
  isOver(first: LeaseRecord): boolean {
    if (first.state === "held") return false;
    const offer = `${first.key} ${first.modRevision}`;
    const nowMs = this.#clock.monotonicMs();
    const sinceMs = this.#seenMs.get(offer);
    if (sinceMs !== undefined) {
      if (nowMs - sinceMs < OFFER_MS) return false;
      this.#seenMs.delete(offer);
      return true;
    }
    if (this.#seenMs.size >= MOST_KEPT) this.#forgetOld(nowMs);
    this.#seenMs.set(offer, nowMs);
    return false;
  }

  #forgetOld(nowMs: number): void {
    for (const [offer, sinceMs] of this.#seenMs) {
      if (nowMs - sinceMs > 10 * OFFER_MS) this.#seenMs.delete(offer);
    }
    if (this.#seenMs.size >= MOST_KEPT) this.#seenMs.clear();
  }
}
