/** What is to happen when: a binary heap by time, and among equals by order of entry. */

/** Something that will happen, unless it is cancelled. */
export interface Entry {
  readonly atMs: number;
  readonly order: number;
  run: (() => void) | undefined;
}

/** Entries in order of time. Cancelled ones stay until their turn comes, and are passed over. */
export class Schedule {
  readonly #heap: Entry[] = [];
  #order = 0;

  add(atMs: number, run: () => void): Entry {
    const entry: Entry = { atMs, order: this.#order++, run };
    const heap = this.#heap;
    let slot = heap.push(entry) - 1;
    while (slot > 0) {
      const parent = (slot - 1) >> 1;
      if (isBefore(heap[parent]!, entry)) break;
      heap[slot] = heap[parent]!;
      slot = parent;
    }
    heap[slot] = entry;
    return entry;
  }

  /** The next entry that was not cancelled. */
  first(): Entry | undefined {
    while (this.#heap.length > 0 && this.#heap[0]!.run === undefined) this.#shift();
    return this.#heap[0];
  }

  /** Takes the next entry off. */
  take(): Entry | undefined {
    const first = this.first();
    if (first !== undefined) this.#shift();
    return first;
  }

  /** Entries that were not cancelled. */
  count(): number {
    return this.#heap.filter(({ run }) => run !== undefined).length;
  }

  #shift(): void {
    const heap = this.#heap;
    const last = heap.pop()!;
    if (heap.length === 0) return;
    let slot = 0;
    for (;;) {
      let child = 2 * slot + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child++;
      if (isBefore(last, heap[child]!)) break;
      heap[slot] = heap[child]!;
      slot = child;
    }
    heap[slot] = last;
  }
}

function isBefore(a: Entry, b: Entry): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}
