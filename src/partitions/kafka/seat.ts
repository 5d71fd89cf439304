/**
 * A member's place in the consumer group of the broker.
 *
 * It is **joined** at first. An answer that does not come makes it **join again**, under the same
 * member id, by a fresh client that asks another broker who coordinates the group. When the group
 * has not answered for a whole session the member is **silent**: it has been expelled, as far as it
 * can know, and what it owns is another's to have.
 */
import type { Timer, Timers } from "../../core/clock.js";
import { UnavailableError } from "../../core/errors.js";
import { assigner } from "./assigner.js";
import { refusal } from "./client.js";
import type { Joined, KafkaConsumer } from "./client.js";
import { explain } from "./explain.js";
import type { Asked } from "./explain.js";
import { AGAIN_MS, type Within } from "./lent.js";

/** Tries to join at first where no broker answers; at least one for each. */
const FEWEST_TRIES = 3;
/** Sessions for which a broker may say that it is not ready: one that takes over a group does. */
const READY_WITHIN = 2;

/** What a seat works with. Durations in milliseconds. */
export interface SeatParts {
  readonly create: () => KafkaConsumer;
  readonly asked: Omit<Asked, "during">;
  readonly sessionMs: number;
  readonly timers: Timers;
  readonly within: Within;
  /** Told of each generation that it belongs to. */
  readonly joined: (joined: Joined) => void;
  /** Told when the group has not answered for a session. */
  readonly silent: () => void;
  /** Told what went wrong on the way. */
  readonly failed: (error: unknown) => void;
}

/** One member's place. */
export class Seat {
  readonly #parts: SeatParts;
  #consumer: KafkaConsumer | undefined;
  #silence: Timer | undefined;
  #count = 0;
  #isIn = false;
  #isJoining = false;
  #isOver = false;

  constructor(parts: SeatParts) {
    this.#parts = parts;
  }

  /** Number of partitions of the topic, as of the last joining. */
  get count(): number {
    return this.#count;
  }

  /** @throws UnavailableError without a broker, or without the topic. OutcomeUnknownError. */
  async join(): Promise<void> {
    const { asked, sessionMs } = this.#parts;
    const unanswered = Math.max(asked.brokers.length, FEWEST_TRIES);
    const answered = Math.max(unanswered, Math.ceil((READY_WITHIN * sessionMs) / AGAIN_MS));
    for (let tried = 1; ; tried++) {
      try {
        await this.#enter(this.#replace());
        return;
      } catch (error) {
        const told = explain(error, { ...asked, during: "join the group" });
        const isFinal = told instanceof UnavailableError && !told.retryable;
        const tries = refusal(error) === undefined ? unanswered : answered;
        if (isFinal || tried >= tries || this.#isOver) throw told;
        await this.#pause();
      }
    }
  }

  /** Leaves the group. Never rejects. */
  async leave(): Promise<void> {
    this.#isOver = true;
    this.#silence?.cancel();
    await this.#consumer?.close(true).catch(this.#parts.failed);
  }

  async #enter(consumer: KafkaConsumer): Promise<void> {
    const { sessionMs, asked, within } = this.#parts;
    const { topic } = asked;
    const during = "join the group";
    const { topics } = await within(consumer.metadata({ topics: [topic] }), during);
    this.#count = topics.get(topic)!.partitionsCount;
    consumer.topics.track(topic);
    const joining = consumer.joinGroup({
      sessionTimeout: sessionMs,
      // Nobody has to finish before it joins again: that is what the leases wait for.
      rebalanceTimeout: sessionMs,
      heartbeatInterval: Math.ceil(sessionMs / 4),
      // The version of what a member tells that says nothing of what it owns: that is what the
      // library sends, and a broker that reads it too would take it amiss in a later one.
      protocols: [{ name: "roundrobin", version: 0 }],
      partitionAssigner: assigner,
    });
    await within(joining, during);
    this.#isIn = true;
  }

  /** A fresh client in the place of the one before, which ends without leaving the group. */
  #replace(): KafkaConsumer {
    const former = this.#consumer;
    const consumer = this.#parts.create();
    this.#consumer = consumer;
    if (former !== undefined) {
      consumer.memberId = former.memberId;
      former.memberId = null;
      former.close(true).catch(this.#parts.failed);
    }
    const isCurrent = (): boolean => consumer === this.#consumer && !this.#isOver;
    consumer.on("consumer:group:join", (joined) => {
      if (!isCurrent()) return;
      this.#listen();
      this.#parts.joined(joined as Joined);
    });
    consumer.on("consumer:heartbeat:end", () => {
      if (isCurrent()) this.#listen();
    });
    // The library goes on with the coordinator that did not answer, or gives up.
    consumer.on("consumer:heartbeat:error", (failed) => {
      if (isCurrent()) void this.#joinAgain((failed as { readonly error: unknown }).error);
    });
    consumer.on("error", (error) => {
      if (isCurrent()) void this.#joinAgain(error);
    });
    return consumer;
  }

  /** The group has answered: a session begins. */
  #listen(): void {
    const { timers, sessionMs, silent } = this.#parts;
    this.#silence?.cancel();
    this.#silence = timers.after(sessionMs, () => {
      silent();
      const text = `Kafka did not answer for a whole session of ${sessionMs} ms`;
      void this.#joinAgain(new UnavailableError(text, { backend: "kafka" }));
    });
  }

  async #joinAgain(error: unknown): Promise<void> {
    // Before it has joined, whoever asked for it is told.
    if (!this.#isIn || this.#isJoining) return;
    this.#isJoining = true;
    this.#tell(error, "stay in the group");
    while (!this.#isOver) {
      try {
        await this.#enter(this.#replace());
        break;
      } catch (failure) {
        this.#tell(failure, "join the group again");
        await this.#pause();
      }
    }
    this.#isJoining = false;
  }

  #tell(error: unknown, during: string): void {
    if (!this.#isOver) this.#parts.failed(explain(error, { ...this.#parts.asked, during }));
  }

  #pause(): Promise<void> {
    return new Promise((over) => void this.#parts.timers.after(AGAIN_MS, over));
  }
}
