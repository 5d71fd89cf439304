/** What an inbox promises. */
import type { Duration } from "../core/duration.js";
import type { Answered } from "../sql/script.js";
import type { Dialect } from "../sql/statement.js";
import type { CallersTx, Work } from "../sql/store.js";

/**
 * Which event was taken in by which consumer: one effect for each pair, however often the event
 * comes, to however many processes at once. Record and effect are one transaction.
 */
export interface Inbox<K extends Dialect> {
  /**
   * Runs the effect of an event on a consumer, once: true when it ran and was committed, false
   * when it was there already. While another process is at it, this one waits for how that ends: if
   * the effect fails there, it runs here.
   *
   * Not promised: anything about effects outside the transaction. A mail that the work sends is
   * sent again when the transaction fails after it.
   *
   * @throws What the effect throws; event and effect are undone then, and the event may come again.
   *   TypeError or RangeError for an event or consumer that is not text of 1 to 512 bytes.
   *   UnavailableError: neither happened. OutcomeUnknownError: both or neither; call again, which
   *   is what the inbox is for.
   */
  once<R>(event: string, consumer: string, effect: Work<K, R>): Promise<boolean>;
  /**
   * Notes an event in a transaction of the caller's: true for the first, whose effect belongs into
   * the same transaction, and false for a duplicate. On SQLite it answers at once.
   */
  record(tx: CallersTx<K>, event: string, consumer: string): Answered<K, boolean>;
  /** Whether an event was taken in. */
  has(event: string, consumer: string): Promise<boolean>;
  /**
   * Deletes what was noted longer ago than a time, by the store's clock; answers how many. An event
   * that comes again after that is new: keep records for longer than any redelivery can take.
   */
  sweep(options: { readonly olderThan: Duration }): Promise<number>;
  /** Closes what was opened here; never a client that the caller brought. */
  close(): Promise<void>;
}
