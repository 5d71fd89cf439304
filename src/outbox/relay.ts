/**
 * The relay: publishes what was committed, one process at a time.
 *
 * One relay, by a claim in the store with a lease and a token, rather than one per key: publishing
 * waits for others, and a lock of a row would be held that long in an open transaction. Several
 * processes may call `relay`; the others wait until the one has ended or died. Within it keys go in
 * parallel.
 *
 * A batch is read, published key by key, and recorded in one transaction. A relay that dies in
 * between has published what is not recorded: its successor publishes it again, under the same id.
 * So does one that was frozen and finds its claim taken when it wakes: what it records is refused.
 */
import { whenAborted } from "../core/aborting.js";
import { isNoAnswer } from "../core/call.js";
import { now } from "../core/deadline.js";
import { SupersededError, UnavailableError } from "../core/errors.js";
import type { Runtime } from "../core/runtime.js";
import type { FencingToken } from "../core/token.js";
import { jittered, restFor } from "../sql/rest.js";
import { RowLease } from "../sql/row-lease.js";
import type { Run } from "../sql/script.js";
import {
  claimRelay,
  extendRelay,
  leaveRelay,
  readWaiting,
  recordOutcome,
  RELAY,
  sweepMessages,
  type FailedMessage,
  type Relaying,
  type WaitingMessage,
} from "./messages.js";
import type { RelayTerms } from "./options.js";

const SWEEP_EVERY_MS = 10_000;
const LONGEST_RETRY_MS = 300_000;
const REASON_LENGTH = 2_000;

/** A message as it is published. */
export interface OutboxMessage {
  /** The same each time this message is published: what a consumer knows a duplicate by. */
  readonly id: string;
  readonly key: string;
  readonly topic: string;
  readonly payload: unknown;
  /** How often it was tried before. */
  readonly tries: number;
  /** When it was written, milliseconds since 1970 by the store's clock. */
  readonly writtenMs: number;
  /** The relay's token: a receiver that can compare refuses an older relay. */
  readonly token: FencingToken;
  /** Aborted when the relay should stop waiting: its claim is lost, or the time is over. */
  readonly signal: AbortSignal;
}

/** Hands a message over; resolves when it has certainly arrived. */
export type Publish = (message: OutboxMessage) => unknown;

/** What the relay is made of. */
export interface RelayParts {
  readonly run: Run<"promised">;
  readonly storeId: string;
  readonly runtime: Runtime;
  readonly publish: Publish;
  readonly terms: RelayTerms;
  /** Ends the relay. */
  readonly stop: AbortSignal;
}

/** Relays whenever no other does, until it is stopped. */
export async function relayUntilStopped(parts: RelayParts): Promise<void> {
  const { runtime, terms, stop } = parts;
  while (!stop.aborted) {
    let inMs = terms.pollMs;
    try {
      const claimed = await claim(parts);
      if ("lease" in claimed) await new Relay(parts, claimed.lease).turn();
      else inMs = Math.min(inMs, Math.max(10, claimed.inMs));
    } catch (error) {
      tolerate(error, terms);
    }
    if (!stop.aborted) await restFor(runtime, jittered(runtime, inMs), stop).over;
  }
}

/** What may pass is told; what cannot is thrown. */
function tolerate(error: unknown, terms: RelayTerms): void {
  const isHopeless = error instanceof UnavailableError && !error.retryable;
  const passes = error instanceof SupersededError || (isNoAnswer(error) && !isHopeless);
  if (!passes) throw error;
  terms.onError(error);
}

async function claim({
  run,
  runtime,
  storeId,
  terms: { leaseMs },
}: RelayParts): Promise<{ readonly lease: RowLease } | { readonly inMs: number }> {
  const holder = runtime.random.id();
  const sentAt = now(runtime.clock);
  const claimed = await run("claim the relay", () => claimRelay(holder, leaseMs));
  if ("inMs" in claimed) return claimed;
  const { token } = claimed;
  const extend = (): Promise<boolean> =>
    run("extend the relay", () => extendRelay({ holder, token }, leaseMs));
  const grant = { name: RELAY, holder, token, storeId, leaseMs, sentAt };
  return { lease: new RowLease(grant, { kind: "outbox", runtime, extend }) };
}

class Relay {
  readonly #parts: RelayParts;
  readonly #lease: RowLease;
  readonly #relaying: Relaying;
  #sweptAtMs = -Infinity;

  constructor(parts: RelayParts, lease: RowLease) {
    this.#parts = parts;
    this.#lease = lease;
    this.#relaying = { holder: lease.holder, token: lease.token };
  }

  /** Relays until it is stopped, or the claim is lost. */
  async turn(): Promise<void> {
    const { run, runtime, terms, stop } = this.#parts;
    this.#lease.keep();
    try {
      while (!this.#isOver()) {
        const messages = await run("read messages", () => readWaiting(terms.batch));
        const published = await this.#batch(messages);
        await this.#sweep();
        // Where all fail, it is not the messages: the broker is asked less often.
        if (published > 0 || this.#isOver()) continue;
        await restFor(runtime, jittered(runtime, terms.pollMs), stop).over;
      }
    } finally {
      this.#lease.end();
    }
    await run("end the relay", () => leaveRelay(this.#relaying));
  }

  #isOver(): boolean {
    return this.#parts.stop.aborted || this.#lease.signal.aborted;
  }

  /** Answers how many were published. */
  async #batch(messages: readonly WaitingMessage[]): Promise<number> {
    if (messages.length === 0) return 0;
    const lines = linesOf(messages);
    const published: bigint[] = [];
    const failed: FailedMessage[] = [];
    const next = async (): Promise<void> => {
      for (let line = lines.shift(); line !== undefined; line = lines.shift()) {
        for (const message of line) {
          if (this.#isOver()) return;
          const failure = await this.#publish(message);
          if (failure === undefined) published.push(message.seq);
          else {
            failed.push(failure);
            // What is behind it waits.
            break;
          }
        }
      }
    };
    await Promise.all(Array.from({ length: this.#parts.terms.concurrency }, next));
    if (published.length + failed.length > 0) {
      const outcome = { published, failed };
      await this.#parts.run("record messages", () => recordOutcome(this.#relaying, outcome));
    }
    return published.length;
  }

  async #publish(message: WaitingMessage): Promise<FailedMessage | undefined> {
    const { publish, terms } = this.#parts;
    const { seq, tries, payload, ...rest } = message;
    const isLast = tries + 1 >= terms.maxTries;
    const retryInMs = Math.min(LONGEST_RETRY_MS, 500 * 2 ** Math.min(tries, 20));
    try {
      const parsed = JSON.parse(payload) as unknown;
      const { token } = this.#lease;
      await this.#inTime((signal) => publish({ ...rest, payload: parsed, tries, token, signal }));
      return undefined;
    } catch (error) {
      terms.onError(error);
      const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
      const reason = text.slice(0, REASON_LENGTH).replaceAll("\0", "").toWellFormed();
      return { seq, reason, retryInMs, isLast };
    }
  }

  /** @throws Error when the time is over, or the claim lost, before `work` has settled. */
  async #inTime(work: (signal: AbortSignal) => unknown): Promise<void> {
    const { runtime, terms } = this.#parts;
    const abort = new AbortController();
    const unlisten = whenAborted(this.#lease.signal, () => {
      abort.abort(this.#lease.signal.reason);
    });
    const timer = runtime.timers.after(terms.publishTimeoutMs, () => {
      abort.abort(new Error(`not published within ${terms.publishTimeoutMs} ms`));
    });
    const isOver = new Promise<never>((_, reject) => {
      whenAborted(abort.signal, () => reject(abort.signal.reason));
    });
    try {
      await Promise.race([work(abort.signal), isOver]);
    } finally {
      timer.cancel();
      unlisten();
    }
  }

  async #sweep(): Promise<void> {
    const { run, runtime, terms } = this.#parts;
    const atMs = runtime.clock.monotonicMs();
    if (atMs - this.#sweptAtMs < SWEEP_EVERY_MS) return;
    this.#sweptAtMs = atMs;
    await run("forget published messages", () => sweepMessages(terms.keepPublishedMs));
  }
}

/** Messages by key, each line in order. */
function linesOf(messages: readonly WaitingMessage[]): WaitingMessage[][] {
  const lines = new Map<string, WaitingMessage[]>();
  for (const message of messages) {
    const line = lines.get(message.key);
    if (line === undefined) lines.set(message.key, [message]);
    else line.push(message);
  }
  return [...lines.values()];
}
