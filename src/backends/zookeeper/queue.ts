/** Waiting in line: each contender watches the one before it, and nobody else. */
import type { AcquireRequest, Call, Grant, QueueWaiting, Ticket } from "../../core/backend.js";
import type { Leases } from "./leases.js";
import type { Place } from "./place.js";

/**
 * How often waiters are looked after. The server tells of each change, and a new connection makes
 * everybody look: this is for a notice that is lost between the two all the same.
 */
const TOUCH_EVERY_MS = 2_000;
const NO_LIMIT_MS = 2 ** 31 - 1;

/** The waiting of the backend. */
export function waitingOn(leases: () => Leases): QueueWaiting {
  return {
    kind: "queue",
    touchEveryMs: TOUCH_EVERY_MS,
    enqueue: async (request, call) => {
      const place = await leases().enqueue(request, call);
      return new Waiter(leases, request, place);
    },
    touch: async (tickets, call) => leases().touch(tickets, call),
  };
}

class Waiter implements Ticket {
  readonly name: string;
  readonly holder: string;
  readonly #leases: () => Leases;
  readonly #place: Place;

  constructor(leases: () => Leases, { name, holder }: AcquireRequest, place: Place) {
    this.#leases = leases;
    this.name = name;
    this.holder = holder;
    this.#place = place;
  }

  async turn(signal: AbortSignal): Promise<Grant | "gone"> {
    try {
      return await this.#leases().run("wait for a lease", this.name, () => this.#turn(signal));
    } catch (error) {
      signal.throwIfAborted();
      if (this.#place.session.isGone) return "gone";
      throw error;
    }
  }

  async leave(call: Call): Promise<void> {
    await this.#leases().leave(this.#place, call);
  }

  async #turn(signal: AbortSignal): Promise<Grant | "gone"> {
    const call: Call = { signal, timeoutMs: NO_LIMIT_MS };
    const place = this.#place;
    for (;;) {
      signal.throwIfAborted();
      const standing = await this.#leases().standing(place, call);
      if (standing === "gone") return standing;
      if (standing === "first") return this.#leases().offer(place);
      await this.#changed(`${place.folder}/${standing.behind.node}`, call);
    }
  }

  /**
   * Resolves once the node before ours has changed, or may have, or our own was given up. `getData`
   * sets no watch on a node that has gone, where `exists` would leave one behind for good.
   */
  async #changed(before: string, { signal, timeoutMs }: Call): Promise<void> {
    const place = this.#place;
    let wake: () => void = () => undefined;
    const woken = new Promise<void>((resolve) => (wake = resolve));
    // Listening before asking: between the two the node may go.
    const stop = place.session.watch(before, wake);
    signal.addEventListener("abort", wake, { once: true });
    place.onEnd = wake;
    try {
      const node = await place.session.node(before, { signal, timeoutMs }, { watch: true });
      if (node !== undefined && place.node !== undefined && !signal.aborted) await woken;
    } finally {
      stop();
      signal.removeEventListener("abort", wake);
      place.onEnd = undefined;
    }
  }
}
