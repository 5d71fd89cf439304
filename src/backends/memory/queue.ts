import type { AcquireRequest, Grant } from "../../core/backend.js";

/** One waiter of one name. */
export interface Waiter {
  readonly request: AcquireRequest;
  /** Beat of the store at which the waiter was last known to live. */
  beat: number;
  /** Hears of the offer, or that the place is gone; set once somebody awaits the turn. */
  hear: ((outcome: Grant | "gone") => void) | undefined;
  before: Waiter | undefined;
  after: Waiter | undefined;
}

/**
 * The waiters of one name in order of arrival.
 *
 * A linked list beside a map by holder: taking the first key of a `Map` walks over the deleted
 * ones, so that draining a long line would cost the square of its length.
 */
export class Queue {
  readonly #byHolder = new Map<string, Waiter>();
  #first: Waiter | undefined;
  #last: Waiter | undefined;

  get size(): number {
    return this.#byHolder.size;
  }

  get(holder: string): Waiter | undefined {
    return this.#byHolder.get(holder);
  }

  add(request: AcquireRequest, beat: number): Waiter {
    const before = this.#last;
    const waiter: Waiter = { request, beat, hear: undefined, before, after: undefined };
    if (before === undefined) this.#first = waiter;
    else before.after = waiter;
    this.#last = waiter;
    this.#byHolder.set(request.holder, waiter);
    return waiter;
  }

  remove(waiter: Waiter): void {
    if (waiter.before === undefined) this.#first = waiter.after;
    else waiter.before.after = waiter.after;
    if (waiter.after === undefined) this.#last = waiter.before;
    else waiter.after.before = waiter.before;
    this.#byHolder.delete(waiter.request.holder);
  }

  /** Takes the one that came first. */
  shift(): Waiter | undefined {
    const waiter = this.#first;
    if (waiter !== undefined) this.remove(waiter);
    return waiter;
  }

  /** The waiters now in line; removing while iterating is safe. */
  all(): readonly Waiter[] {
    return [...this.#byHolder.values()];
  }
}
