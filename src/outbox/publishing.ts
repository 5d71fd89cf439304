/** Publishing: messages that are under way, each key's one after the other, keys in parallel. */
import { whenAborted } from "../core/aborting.js";
import { reasonOf, type Mishaps } from "../core/mishaps.js";
import type { Runtime } from "../core/runtime.js";
import type { FencingToken } from "../core/token.js";
import type { FailedMessage, Outcome, WaitingMessage } from "./messages.js";
import type { FailedPublish, RelayTerms } from "./options.js";

const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 300_000;

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

/** What publishing is made of. */
export interface PublishingParts {
  readonly runtime: Pick<Runtime, "timers">;
  readonly publish: Publish;
  readonly terms: RelayTerms;
  readonly mishaps: Mishaps<FailedPublish>;
  readonly lease: { readonly token: FencingToken; readonly signal: AbortSignal };
  readonly stop: AbortSignal;
  /** A publisher has nothing to do any more. */
  readonly onFree: () => void;
}

/** What is under way in one relay. */
export class Publishing {
  readonly #parts: PublishingParts;
  readonly #lines: WaitingMessage[][] = [];
  readonly #publishers = new Set<Promise<void>>();
  /** Keys of lines whose outcome is not recorded: they would be read a second time. */
  readonly #busy = new Set<string>();
  #ended: string[] = [];
  #published: bigint[] = [];
  #failed: FailedMessage[] = [];
  #hasPublished = false;
  #hasFailed = false;
  #exits = 0;
  #isEnded = false;

  constructor(parts: PublishingParts) {
    this.#parts = parts;
  }

  /** Whether nothing further is to be published. */
  get isOver(): boolean {
    const { stop, lease } = this.#parts;
    return this.#isEnded || stop.aborted || lease.signal.aborted;
  }

  /** Whether more could be under way. */
  get isFree(): boolean {
    return this.#lines.length === 0 && this.#publishers.size < this.#parts.terms.concurrency;
  }

  get busyKeys(): readonly string[] {
    return [...this.#busy];
  }

  /** How often a publisher has become free. */
  get exits(): number {
    return this.#exits;
  }

  /** Whether there were messages since the last `begin`, and none could be published. */
  get onlyFailed(): boolean {
    return this.#hasFailed && !this.#hasPublished;
  }

  /** Publishes these; none of them is of a key that is busy. */
  begin(messages: readonly WaitingMessage[]): void {
    [this.#hasPublished, this.#hasFailed] = [false, false];
    const lines = linesOf(messages);
    for (const key of lines.keys()) this.#busy.add(key);
    this.#lines.push(...lines.values());
    const free = this.#parts.terms.concurrency - this.#publishers.size;
    for (let n = Math.min(free, this.#lines.length); n > 0; n--) {
      const publisher = this.#publishLines().then(() => {
        this.#publishers.delete(publisher);
        this.#exits += 1;
        this.#parts.onFree();
      });
      this.#publishers.add(publisher);
    }
  }

  /** Hands over what has become of messages since; keeps it where that fails. */
  async record(outcome: (outcome: Outcome) => Promise<void>): Promise<void> {
    const [published, failed, ended] = [this.#published, this.#failed, this.#ended];
    [this.#published, this.#failed, this.#ended] = [[], [], []];
    try {
      if (published.length + failed.length > 0) await outcome({ published, failed });
    } catch (error) {
      this.#published.unshift(...published);
      this.#failed.unshift(...failed);
      this.#ended.unshift(...ended);
      throw error;
    }
    for (const key of ended) this.#busy.delete(key);
  }

  /** Begins nothing further. */
  end(): void {
    this.#isEnded = true;
  }

  /** Resolves when nothing is under way any more. */
  async ended(): Promise<void> {
    await Promise.all(this.#publishers);
  }

  /** Never rejects. */
  async #publishLines(): Promise<void> {
    for (let line = this.#lines.shift(); line !== undefined; line = this.#lines.shift()) {
      for (const message of line) {
        if (this.isOver) return;
        if (!(await this.#publishOne(message))) break;
      }
      this.#ended.push(line[0]!.key);
    }
  }

  /** False where what is behind it has to wait. */
  async #publishOne(message: WaitingMessage): Promise<boolean> {
    const { publish, terms, lease, mishaps } = this.#parts;
    const { seq, tries, payload, ...rest } = message;
    try {
      const parsed = JSON.parse(payload) as unknown;
      const { token } = lease;
      await this.#inTime((signal) => publish({ ...rest, payload: parsed, tries, token, signal }));
      this.#published.push(seq);
      this.#hasPublished = true;
      return true;
    } catch (error) {
      const { id, key, topic } = rest;
      mishaps.tell(error, { id, key, topic, tries });
      // It was not the message: it was broken off.
      if (lease.signal.aborted) return false;
      const retryInMs = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(tries, 20));
      const isLast = tries + 1 >= terms.maxTries;
      this.#failed.push({ seq, tries, reason: reasonOf(error), retryInMs, isLast });
      this.#hasFailed = true;
      return false;
    }
  }

  /** @throws Error when the time is over, or the claim lost, before `work` has settled. */
  async #inTime(work: (signal: AbortSignal) => unknown): Promise<void> {
    const { runtime, terms, lease } = this.#parts;
    const abort = new AbortController();
    const unlisten = whenAborted(lease.signal, () => {
      abort.abort(lease.signal.reason);
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
}

/** Messages by key, each line in order. */
function linesOf(messages: readonly WaitingMessage[]): Map<string, WaitingMessage[]> {
  const lines = new Map<string, WaitingMessage[]>();
  for (const message of messages) {
    const line = lines.get(message.key);
    if (line === undefined) lines.set(message.key, [message]);
    else line.push(message);
  }
  return lines;
}
