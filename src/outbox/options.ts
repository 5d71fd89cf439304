/** Options of the outbox, checked before any input or output. */
import { parseDuration, type Duration } from "../core/duration.js";
import { jsonText, MOST_JSON_BYTES } from "../core/json.js";
import { checkOnError, type OnError } from "../core/mishaps.js";
import { checkName } from "../core/names.js";
import { checkKnown, checkSignal } from "../core/options.js";
import { wholeNumber } from "../sql/whole-number.js";
import type { WrittenMessage } from "./messages.js";

/** A message to write. */
export interface NewMessage {
  /** Messages of one key are published in the order in which their transactions committed. */
  readonly key: string;
  /** What it is about; handed to `publish` as it is. */
  readonly topic: string;
  /** Anything that JSON can carry; at most 1 MiB. */
  readonly payload: unknown;
  /** The same id is written once. Default: a fresh one. */
  readonly id?: string;
}

/** What became of a `write`. */
export interface Written {
  readonly id: string;
  /** False when the id was there already; what is there is left as it is. */
  readonly written: boolean;
}

/** Options of `relay`. */
export interface RelayOptions {
  /** Ends the relay, after the messages that are under way. */
  readonly signal?: AbortSignal;
  /** Most messages that are read, and recorded, at a time. Default 100. */
  readonly batch?: number;
  /** Most messages that are under way at the same time, each of another key. Default 10. */
  readonly concurrency?: number;
  /** How often to look where there was nothing to publish. Default 500 ms. */
  readonly pollEvery?: Duration;
  /** How long another relay waits for a dead one. Default 30 s. */
  readonly lease?: Duration;
  /** A publish that takes longer counts as failed. Default 30 s. */
  readonly publishTimeout?: Duration;
  /** Sets a message aside after so many tries. Default: never; its key waits for it. */
  readonly maxTries?: number;
  /** How long published messages are kept, for people. Default 1 h. */
  readonly keepPublished?: Duration;
  /**
   * Told what `publish` threw, with its message, and what the store failed with; the relay goes on.
   * If it throws itself, the relay ends, and rejects with that. Default: a `tenure:warning`.
   */
  readonly onError?: OnError<FailedPublish>;
}

/** The message that could not be published. */
export interface FailedPublish {
  readonly id: string;
  readonly key: string;
  readonly topic: string;
  /** How often it was tried before. */
  readonly tries: number;
}

/** Checked options of `relay`. */
export interface RelayTerms {
  readonly signal: AbortSignal | undefined;
  readonly batch: number;
  readonly concurrency: number;
  readonly pollMs: number;
  readonly leaseMs: number;
  readonly publishTimeoutMs: number;
  readonly maxTries: number;
  readonly keepPublishedMs: number;
  readonly onError: OnError<FailedPublish> | undefined;
}

const DAY_MS = 86_400_000;
const KNOWN = [
  ...["signal", "batch", "concurrency", "pollEvery", "lease", "publishTimeout", "maxTries"],
  ...["keepPublished", "onError"],
];

/** A message as it is written. @throws TypeError or RangeError naming what is wrong. */
export function checkMessage(message: NewMessage, newId: () => string): WrittenMessage {
  checkKnown(message, ["key", "topic", "payload", "id"]);
  const key = checkName(message.key, "key");
  const topic = checkName(message.topic, "topic");
  const id = message.id === undefined ? newId() : checkName(message.id, "id");
  return { key, topic, id, payload: jsonText(message.payload, "payload", MOST_JSON_BYTES) };
}

/** @throws TypeError or RangeError naming option and value. */
export function relayTerms(options: RelayOptions): RelayTerms {
  checkKnown(options, KNOWN);
  const { maxTries } = options;
  const within = (minMs: number, maxMs: number) => ({ minMs, maxMs });
  const { pollEvery = 500, lease = "30s", publishTimeout = "30s" } = options;
  const { batch = 100, concurrency = 10, keepPublished = "1h" } = options;
  return {
    signal: checkSignal(options.signal),
    batch: wholeNumber(batch, "batch", 10_000),
    concurrency: wholeNumber(concurrency, "concurrency", 1_000),
    pollMs: parseDuration(pollEvery, "pollEvery", within(10, 3_600_000)),
    leaseMs: parseDuration(lease, "lease", within(100, DAY_MS)),
    publishTimeoutMs: parseDuration(publishTimeout, "publishTimeout", within(1, DAY_MS)),
    maxTries: maxTries === undefined ? Infinity : wholeNumber(maxTries, "maxTries", 1_000_000),
    keepPublishedMs: parseDuration(keepPublished, "keepPublished", {
      zero: true,
      maxMs: 365 * DAY_MS,
    }),
    onError: checkOnError(options.onError),
  };
}
