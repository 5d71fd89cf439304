/** Times of one kind, milliseconds. */
export interface TimeStats {
  readonly count: number;
  /** Median, within 10 %. */
  readonly p50Ms: number;
  /** 99th percentile, within 10 %. */
  readonly p99Ms: number;
  /** Exact. */
  readonly maxMs: number;
}

const GROWTH = 1.2;
const SMALLEST_MS = 0.01;
const LOG_GROWTH = Math.log(GROWTH);

/** Counts of times in buckets that grow by a fifth: bounded memory, quantiles within 10 %. */
export class Histogram {
  readonly #buckets: number[] = [];
  #count = 0;
  #maxMs = 0;

  add(ms: number): void {
    const index = ms <= SMALLEST_MS ? 0 : Math.ceil(Math.log(ms / SMALLEST_MS) / LOG_GROWTH);
    this.#buckets[index] = (this.#buckets[index] ?? 0) + 1;
    this.#count++;
    if (ms > this.#maxMs) this.#maxMs = ms;
  }

  get count(): number {
    return this.#count;
  }

  quantileMs(q: number): number {
    let left = Math.ceil(q * this.#count);
    for (let i = 0; i < this.#buckets.length; i++) {
      left -= this.#buckets[i] ?? 0;
      if (left <= 0 && this.#count > 0) {
        return Math.min(this.#maxMs, SMALLEST_MS * GROWTH ** (i - 0.5));
      }
    }
    return 0;
  }

  read(): TimeStats {
    return {
      count: this.#count,
      p50Ms: this.quantileMs(0.5),
      p99Ms: this.quantileMs(0.99),
      maxMs: this.#maxMs,
    };
  }
}
