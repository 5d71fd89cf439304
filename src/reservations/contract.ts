/** What reservations promise. */
import type { Duration } from "../core/duration.js";
import type { Answered, When } from "../sql/script.js";
import type { Dialect } from "../sql/statement.js";
import type { CallersTx, Work } from "../sql/store.js";

/** A place, or several, that a holder has of an item. */
export interface Reservation {
  readonly item: string;
  readonly holder: string;
  readonly quantity: number;
  /** `held` until its time is over, or `confirmed` for good. */
  readonly state: "held" | "confirmed";
  /** Milliseconds left by the store's clock; null for one without end. */
  readonly leftMs: number | null;
}

/** Options of `reserve`. */
export interface ReserveOptions {
  /** How long to hold, by the store's clock: 1 ms to 10 years, or `Infinity` for no end. */
  readonly for: Duration;
  /** How many places. A whole number; default 1. */
  readonly quantity?: number;
  /**
   * Capacity of an item that is not known yet. Default 1. If the item has another one, the call is
   * refused: `define` changes it.
   */
  readonly capacity?: number;
}

/** How many places an item has. */
export interface Places {
  readonly capacity: number;
  readonly available: number;
}

/** The calls, whose answers come at once or by a promise. */
export interface ReservationCalls<K extends When> {
  /** Says how many places an item has. Idempotent. @throws CapacityError below what is taken. */
  define(item: string, capacity: number): Answered<K, void>;
  /**
   * Reserves for a holder; null when too few places are free. A holder has one reservation of an
   * item: if it is there, it is answered as it is, and its time stays.
   *
   * Not promised: an order among those that want the last place.
   *
   * @throws CapacityError when `quantity` is above the capacity, or `capacity` is not the item's.
   *   ReservationStateError when the holder has a reservation of another quantity.
   */
  reserve(item: string, holder: string, options: ReserveOptions): Answered<K, Reservation | null>;
  /**
   * Makes a reservation last. Idempotent.
   *
   * @throws ReservationStateError when it has expired, even if nobody has the place since, or was
   *   never made.
   */
  confirm(item: string, holder: string): Answered<K, Reservation>;
  /**
   * Sets the time that is left, from now on; it may become shorter.
   *
   * @throws ReservationStateError when it has expired, was never made, or is confirmed.
   */
  extend(
    item: string,
    holder: string,
    options: Pick<ReserveOptions, "for">,
  ): Answered<K, Reservation>;
  /** Gives the places back, also confirmed ones; false when there is nothing to give back. */
  cancel(item: string, holder: string): Answered<K, boolean>;
  /** All reservations of an item that count now, by holder. */
  list(item: string): Answered<K, readonly Reservation[]>;
  /** Its places now; null for an item that was never defined nor reserved. */
  available(item: string): Answered<K, Places | null>;
}

/**
 * Reservations in a SQL database. Each call by itself is a transaction.
 *
 * @throws UnavailableError from every call when it certainly did not happen, OutcomeUnknownError
 *   when the COMMIT was not answered; `reserve`, `confirm` and `define` can then be called again.
 */
export interface Reservations<K extends Dialect> extends ReservationCalls<"promised"> {
  /**
   * The same calls in the caller's open transaction: they and its other writes are there together,
   * or neither. On SQLite they answer at once. Other callers of the item wait for its end.
   */
  within(tx: CallersTx<K>): ReservationCalls<K>;
  /** Runs work in a transaction of the store, for `within(tx)`. */
  transaction<R>(work: Work<K, R>): Promise<Awaited<R>>;
  /**
   * Removes the rows of expired reservations; answers how many. They count for nothing anyway, and
   * go when a full item is reserved: this is for items that nobody asks for any more.
   */
  sweep(): Promise<number>;
  /** Closes what was opened here; never a client that the caller brought. */
  close(): Promise<void>;
}
