import type { Timers } from "../../core/clock.js";
import type { KafkaConsumer } from "./client.js";
import type { Asked } from "./explain.js";

/** What a promise answers, unless it takes too long: an error then. */
export type Within = <R>(answer: Promise<R>, during: string) => Promise<R>;

/** What requests of one kind are made with. */
export interface RequestParts {
  /** A client that sends nothing again by itself. */
  readonly create: () => KafkaConsumer;
  readonly asked: Omit<Asked, "during">;
  readonly timers: Timers;
  readonly within: Within;
  /** Told of what is tried again, and of clients that do not close. */
  readonly failed: (error: unknown) => void;
}

/** Pause before a fresh client tries again, milliseconds. */
export const AGAIN_MS = 500;

/**
 * A client of the library that ends once nothing is under way on it: what is closed under a request
 * never answers.
 *
 * Clients are replaced when they fail. One asks the same coordinator for as long as it lives, also
 * when another broker has taken over; and it begins anew at the same address, also when that one is
 * frozen and takes connections without answering.
 */
export class Lent {
  readonly #client: KafkaConsumer;
  readonly #failed: (error: unknown) => void;
  #uses = 0;
  #isOver = false;

  constructor(client: KafkaConsumer, failed: (error: unknown) => void) {
    this.#client = client;
    this.#failed = failed;
  }

  async use<R>(work: (client: KafkaConsumer) => Promise<R>): Promise<R> {
    this.#uses++;
    try {
      return await work(this.#client);
    } finally {
      this.#uses--;
      if (this.#isOver) this.#closeIdle();
    }
  }

  /** Ends it, once it has done what is under way. */
  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#closeIdle();
  }

  #closeIdle(): void {
    if (this.#uses === 0) this.#client.close(true).catch(this.#failed);
  }
}
