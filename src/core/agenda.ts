/** Something due at a time. `slot` belongs to the agenda; -1 while not on it. */
export interface Due {
  dueMs: number;
  slot: number;
}

/**
 * What is due when: a binary heap that knows where each entry stands, so that an entry leaves in
 * logarithmic time and short leases leave nothing behind.
 */
export class Agenda<E extends Due> {
  readonly #heap: E[] = [];

  get size(): number {
    return this.#heap.length;
  }

  /** The entry due first. */
  first(): E | undefined {
    return this.#heap[0];
  }

  /** Enters `entry`, or moves it, to be due at `dueMs`. */
  set(entry: E, dueMs: number): void {
    entry.dueMs = dueMs;
    if (entry.slot === -1) {
      entry.slot = this.#heap.length;
      this.#heap.push(entry);
    }
    this.#down(this.#up(entry.slot));
  }

  /** Takes `entry` off; does nothing when it is not on. */
  delete(entry: E): void {
    const slot = entry.slot;
    if (slot === -1) return;
    entry.slot = -1;
    const last = this.#heap.pop()!;
    if (last === entry) return;
    this.#put(last, slot);
    this.#down(this.#up(slot));
  }

  #put(entry: E, slot: number): void {
    this.#heap[slot] = entry;
    entry.slot = slot;
  }

  #up(from: number): number {
    const entry = this.#heap[from]!;
    let slot = from;
    while (slot > 0) {
      const parent = this.#heap[(slot - 1) >> 1]!;
      if (parent.dueMs <= entry.dueMs) break;
      this.#put(parent, slot);
      slot = (slot - 1) >> 1;
    }
    this.#put(entry, slot);
    return slot;
  }

  #down(from: number): void {
    const entry = this.#heap[from]!;
    let slot = from;
    for (;;) {
      let child = 2 * slot + 1;
      if (child >= this.#heap.length) break;
      const right = child + 1;
      if (right < this.#heap.length && this.#heap[right]!.dueMs < this.#heap[child]!.dueMs) {
        child = right;
      }
      if (this.#heap[child]!.dueMs >= entry.dueMs) break;
      this.#put(this.#heap[child]!, slot);
      slot = child;
    }
    this.#put(entry, slot);
  }
}
