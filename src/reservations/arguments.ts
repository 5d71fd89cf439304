/** What callers give, checked before anything is sent. */
import { parseDuration } from "../core/duration.js";
import { ArgumentRangeError, ArgumentTypeError } from "../core/errors.js";
import { checkName } from "../core/names.js";
import { checkKnown } from "../core/options.js";

const TEN_YEARS_MS = 3_652 * 86_400_000;
const MOST = 1_000_000_000_000;

/** Which reservation. */
export interface Which {
  readonly item: string;
  readonly holder: string;
}

/** What is wanted. */
export interface Wanted extends Which {
  /** Null for no end. */
  readonly forMs: number | null;
  readonly quantity: number;
  /** Undefined where the caller leaves it to the item. */
  readonly capacity: number | undefined;
}

/** An item and a holder. */
export function checkWhich(item: unknown, holder: unknown): Which {
  return { item: checkName(item, "item"), holder: checkName(holder, "holder") };
}

/** What is to be reserved. */
export function checkWanted(item: unknown, holder: unknown, options: unknown): Wanted {
  const which = checkWhich(item, holder);
  checkKnown(options, ["for", "quantity", "capacity"]);
  const { quantity = 1, capacity } = options as Readonly<Record<string, unknown>>;
  return {
    ...which,
    forMs: forMsOf(options),
    quantity: checkPlaces(quantity, "quantity", 1),
    capacity: capacity === undefined ? undefined : checkPlaces(capacity, "capacity", 1),
  };
}

/** A time to hold. */
export function checkFor(options: unknown): number | null {
  checkKnown(options, ["for"]);
  return forMsOf(options);
}

function forMsOf(options: unknown): number | null {
  const { for: time } = options as { readonly for?: unknown };
  if (time === Infinity) return null;
  if (time === undefined) {
    throw new ArgumentTypeError("for", time, "how long to hold: a duration, or Infinity");
  }
  return parseDuration(time, "for", { minMs: 1, maxMs: TEN_YEARS_MS });
}

/** A number of places. */
export function checkPlaces(places: unknown, option: string, least: number): number {
  const must = `a whole number from ${least} to ${MOST}`;
  if (typeof places !== "number") throw new ArgumentTypeError(option, places, must);
  if (Number.isInteger(places) && places >= least && places <= MOST) return places;
  throw new ArgumentRangeError(option, places, must);
}
