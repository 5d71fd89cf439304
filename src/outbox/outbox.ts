/**
 * Messages that are sent exactly if a transaction is committed: they are written in it, as rows,
 * and relayed afterwards.
 *
 * Not promised: that a message arrives once. It is published at least once, and again after a
 * relay that died; its id is the same each time, for the receiver to tell.
 */
import { whenAborted } from "../core/aborting.js";
import { ArgumentTypeError } from "../core/errors.js";
import { asWarnings, Mishaps } from "../core/mishaps.js";
import { checkName } from "../core/names.js";
import { checkKnown } from "../core/options.js";
import type { Runtime } from "../core/runtime.js";
import { afterwards, type Answered } from "../sql/script.js";
import type { CallersTx, SqlStore } from "../sql/store.js";
import { wholeNumber } from "../sql/whole-number.js";
import {
  outboxStats,
  reviveMessage,
  troubledMessages,
  writeMessage,
  type OutboxStats,
  type TroubledMessage,
} from "./messages.js";
import {
  checkMessage,
  relayTerms,
  type NewMessage,
  type RelayOptions,
  type Written,
} from "./options.js";
import type { Publish } from "./publishing.js";
import { relayUntilStopped } from "./relay.js";

/** Where outboxes live. */
export type OutboxDialect = "sqlite" | "postgres";

/** Which messages to list. */
export interface ListLimit {
  /** Default 100. */
  readonly limit?: number;
}

/** The outbox of a store. */
export class Outbox<K extends OutboxDialect> {
  readonly #store: SqlStore<K>;
  readonly #runtime: Runtime;
  readonly #closing = new AbortController();
  readonly #relaying = new Set<Promise<void>>();

  constructor(store: SqlStore<K>, runtime: Runtime) {
    this.#store = store;
    this.#runtime = runtime;
  }

  /**
   * Writes a message in the caller's transaction. On SQLite the answer is there at once.
   *
   * On Postgres it waits for other open transactions that have written the same key. Two that write
   * the same keys in opposite order would wait for each other: Postgres ends one of them, to be run
   * again.
   *
   * @throws TypeError or RangeError for a wrong key, topic, id or payload: nothing was written.
   */
  write(tx: CallersTx<K>, message: NewMessage): Answered<K, Written> {
    const run = this.#store.within(tx);
    let id = "";
    const done = run("write a message", () => {
      const checked = checkMessage(message, () => this.#runtime.random.id());
      ({ id } = checked);
      return writeMessage(checked);
    });
    return afterwards(done, (written) => ({ id, written })) as Answered<K, Written>;
  }

  /**
   * Publishes committed messages, until `signal` aborts: in the order of each key, keys in
   * parallel. `publish` must resolve only when the message has arrived. One process relays at a
   * time; the others wait. A message that cannot be published is tried again, less and less often,
   * at the latest after five minutes, and holds back its own key only.
   *
   * @throws UnavailableError when asking the store again cannot help; what `onError` throws.
   */
  async relay(publish: Publish, options: RelayOptions = {}): Promise<void> {
    if (typeof publish !== "function") {
      throw new ArgumentTypeError("publish", publish, "a function");
    }
    const terms = relayTerms(options);
    const stop = new AbortController();
    const about = { name: "outbox", backend: this.#store.dialect };
    const mishaps = new Mishaps(terms.onError ?? asWarnings(this.#runtime.events, about));
    const ends = [terms.signal, this.#closing.signal, mishaps.over].map((signal) =>
      whenAborted(signal, () => stop.abort()),
    );
    const { run, storeId } = this.#store;
    const more = { runtime: this.#runtime, stop: stop.signal };
    const relaying = relayUntilStopped({ run, storeId, publish, terms, mishaps, ...more })
      .then(() => mishaps.throwIfOver())
      .finally(() => ends.forEach((end) => end()));
    const settled = relaying.catch(() => undefined);
    this.#relaying.add(settled);
    await relaying.finally(() => this.#relaying.delete(settled));
  }

  /** Numbers of the outbox: what to watch. */
  stats(): Promise<OutboxStats> {
    return this.#store.run("count messages", () => outboxStats());
  }

  /** Messages that could not be published so far, the oldest first. */
  failing(options: ListLimit = {}): Promise<TroubledMessage[]> {
    return this.#list("waiting", options);
  }

  /** Messages that were set aside, the oldest first. */
  dead(options: ListLimit = {}): Promise<TroubledMessage[]> {
    return this.#list("dead", options);
  }

  /**
   * Has a dead message published after all; false where there is none with this id. Not promised:
   * its place; later ones of its key may have been published.
   */
  async revive(id: string): Promise<boolean> {
    const checked = checkName(id, "id");
    return await this.#store.run("revive a message", () => reviveMessage(checked));
  }

  /** Ends the relay of this process, and closes what was opened here. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all(this.#relaying);
    await this.#store.close();
  }

  async #list(state: "waiting" | "dead", options: ListLimit): Promise<TroubledMessage[]> {
    checkKnown(options, ["limit"]);
    const { limit = 100 } = options;
    const most = wholeNumber(limit, "limit", 10_000);
    return await this.#store.run("list messages", () => troubledMessages(state, most));
  }
}
